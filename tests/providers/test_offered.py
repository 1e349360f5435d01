import pytest

from kode.providers.offered import ServedModels, model_names
from tests.scripted_server import ScriptedServer


def test_a_server_of_ones_own_says_which_models_it_has():
    with ScriptedServer() as server:
        names = ServedModels().of(server.openai_url)

        assert model_names("openai", [], names) == list(names)
        assert names


@pytest.mark.parametrize(
    "url", ["https://api.openai.com/v1", "http://127.0.0.1:9/v1", "http://10.0.0.1/v1", "junk"]
)
def test_other_servers_are_not_asked_and_faults_are_quiet(url):
    assert ServedModels().of(url) == ()


def test_a_server_is_asked_once_in_a_while():
    served = ServedModels()
    with ScriptedServer() as server:
        served.of(server.openai_url)
        served.of(server.openai_url)

        assert len(server.questions) == 1

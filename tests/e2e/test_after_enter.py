"""What the first message of a session waits for, in a home with memory."""

import json
from pathlib import Path

import pytest

from tests.e2e.command import KODE, Place
from tests.e2e.terminal import Terminal
from tests.e2e.test_memory import is_of_memory
from tests.scripted_server import ScriptedServer

LOG_IMPORTS = """
import gc, os, sys

log = open(os.environ["IMPORTS_LOG"], "a", buffering=1)
freeze = gc.freeze
gc.freeze = lambda: (freeze(), log.write("the start is over\\n"))

class Log:
    def find_spec(self, name, path=None, target=None):
        log.write(name + "\\n")

sys.meta_path.insert(0, Log())
"""
"""Of every import it writes the name, and once kode says that its start is over, that."""


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A home with a fact and an episode."""

    note = json.dumps({"narrative": "The zeppelin parser is in airship.py.", "facts": []})

    def script(request):
        return {"text": note if is_of_memory(request) else "Done."}

    place = Place(tmp_path_factory.mktemp("remembered"))
    assert place.run("memory", "add", "user", "User likes tabs").code == 0
    with ScriptedServer(script) as server:
        place.url = server.openai_url
        place.run("run", "make the zeppelin parser accept nested gondolas")
        place.run("continue", "avoid recursion")
        place.run("continue", "run the tests")
    assert json.loads((place.home / "memory/episodes/index.json").read_text())
    return place


def log_imports(place: Place, log: Path) -> None:
    """Has every later kode of this place log what it imports."""
    (log.parent / "sitecustomize.py").write_text(LOG_IMPORTS)
    log.touch()
    place.extra = {"PYTHONPATH": str(log.parent), "IMPORTS_LOG": str(log)}


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_enter_imports_nothing_before_the_request(
    remembered: Place, tmp_path: Path, vendor: str
) -> None:
    place, log = remembered, tmp_path / "imports.log"
    log_imports(place, log)
    before_request: list[str] = []

    def script(request):
        before_request[:] = log.read_text().splitlines()
        return {"text": "The end."}

    with ScriptedServer(script) as server:
        place.url = server.openai_url
        place.extra |= {
            "KODE_PROVIDER": vendor,
            "ANTHROPIC_API_KEY": "sk-ant-0123456789abcdef0123",
            "ANTHROPIC_BASE_URL": server.anthropic_url,
        }
        if vendor == "anthropic":
            place.extra["KODE_MODEL"] = "claude-sonnet-4-5"
        with Terminal(KODE, [], cwd=place.project, env=place.environ) as terminal:
            terminal.until("ask (Shift-Tab) · ", timeout_s=60)
            while "the start is over" not in log.read_text():
                terminal.read()
            terminal.type("which zeppelin parser is it")
            terminal.until("> which zeppelin parser is it")
            known = len(log.read_text().splitlines())
            terminal.type("enter")
            terminal.until("The end.", timeout_s=60)

    assert "zeppelin parser is in airship.py" in json.dumps(server.requests[0].json)
    assert before_request[known:] == []
    assert "openai.types.batch" not in before_request

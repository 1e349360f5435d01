import pytest
from acp import RequestError

from kode.errors import ConfigError, ProviderError, SessionError, StorageError
from kode.plugins.acp.agent import KodeAgent
from kode.plugins.acp.live import translate_faults


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (SessionError("There is no such session. List them."), -32002),
        (ConfigError("max_steps is wrong. Give a number."), -32602),
        (StorageError("The disk is full. Delete something."), -32603),
        (ProviderError("The server said no. Try another model."), -32603),
        (RequestError(-32000, "No key. Set one up."), -32000),
    ],
)
async def test_an_error_of_kode_keeps_its_message_and_code(fault: Exception, code: int) -> None:
    @translate_faults
    async def method() -> None:
        raise fault

    with pytest.raises(RequestError) as raised:
        await method()

    assert (raised.value.code, str(raised.value)) == (code, str(fault))


async def test_a_fault_of_kode_itself_is_reported_in_a_file(tmp_path) -> None:
    @translate_faults
    async def method() -> None:
        raise ValueError("nobody thought of this")

    with pytest.raises(RequestError, match=r"ValueError.*fault-.*\.txt"):
        await method()

    (report,) = (tmp_path / "kode-home" / "logs").iterdir()
    assert "nobody thought of this" in report.read_text()


async def test_clients_authenticate_where_no_key_is_set() -> None:
    with pytest.raises(RequestError) as raised:
        await KodeAgent(flags={}).authenticate("init")

    assert raised.value.code == -32000

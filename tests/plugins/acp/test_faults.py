import pytest
from acp import RequestError

from kode.errors import ConfigError, ProviderError, SessionError
from kode.plugins.acp.agent import KodeAgent
from kode.plugins.acp.live import translate_faults


async def error_of(fault):
    """The error of the protocol for what a method raises."""

    @translate_faults
    async def method():
        raise fault

    with pytest.raises(RequestError) as raised:
        await method()
    return raised.value


async def test_an_error_of_kode_keeps_its_message_and_code():
    for fault, code in (
        (SessionError("There is no such session. List them."), -32002),
        (ConfigError("max_steps is wrong. Give a number."), -32602),
        (ProviderError("The server said no. Try another model."), -32603),
        (RequestError(-32000, "No key. Set one up."), -32000),
    ):
        error = await error_of(fault)
        assert (error.code, str(error)) == (code, str(fault))


async def test_a_fault_of_kode_itself_is_reported_in_a_file(tmp_path):
    error = await error_of(ValueError("nobody thought of this"))

    assert "ValueError" in str(error)
    (report,) = (tmp_path / "kode-home" / "logs").iterdir()
    assert str(report) in str(error)
    assert "nobody thought of this" in report.read_text()


async def test_clients_authenticate_where_no_key_is_set():
    with pytest.raises(RequestError) as raised:
        await KodeAgent(flags={}).authenticate("init")

    assert raised.value.code == -32000

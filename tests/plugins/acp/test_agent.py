import pytest
from acp import RequestError
from acp.schema import EnvVariable, HttpHeader, HttpMcpServer, McpServerStdio

from kode.errors import ConfigError, ProviderError, SessionError
from kode.extensions import trust
from kode.extensions.mcp_config import client_entries, resolve
from kode.extensions.trust import Approvals
from kode.plugins.acp.agent import KodeAgent, convert_servers
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


def stdio(name):
    variables = [EnvVariable(name="A", value="${B}")]
    return McpServerStdio(name=name, command="/bin/server", args=["--x"], env=variables)


def test_servers_of_the_client_are_trusted_as_given(tmp_path):
    headers = [HttpHeader(name="Authorization", value="Bearer x")]
    web = HttpMcpServer(type="http", name="web", url="http://127.0.0.1:1/mcp", headers=headers)
    entries = [*client_entries(convert_servers([stdio("files"), web]), tmp_path)]

    first, second = (resolve(entry, {"B": "replaced"}) for entry in entries)

    assert {trust.state(entry.item, Approvals()) for entry in entries} == {"trusted"}
    assert (first.command, first.environment) == (("/bin/server", "--x"), {"A": "${B}"})
    assert (first.write, first.network) == (True, True)
    assert (second.url, second.headers) == (web.url, {"Authorization": "Bearer x"})


def test_names_become_parts_of_tool_names_and_stay_apart():
    names = ["My Server!", "My Server?", "__", "ok.name", "x" * 60]

    known = [*convert_servers([*map(stdio, names)])]

    assert known == ["My-Server", "My-Server-2", "server", "ok.name", "x" * 36]

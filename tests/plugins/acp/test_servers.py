from acp.schema import EnvVariable, HttpHeader, HttpMcpServer, McpServerStdio

from kode.extensions import trust
from kode.extensions.mcp_config import client_entries, resolve
from kode.extensions.trust import Approvals
from kode.plugins.acp.agent import servers_of


def stdio(name):
    variables = [EnvVariable(name="A", value="${B}")]
    return McpServerStdio(name=name, command="/bin/server", args=["--x"], env=variables)


def test_servers_of_the_client_are_trusted_as_given(tmp_path):
    headers = [HttpHeader(name="Authorization", value="Bearer x")]
    web = HttpMcpServer(type="http", name="web", url="http://127.0.0.1:1/mcp", headers=headers)
    entries = [*client_entries(servers_of([stdio("files"), web]), tmp_path)]

    first, second = (resolve(entry, {"B": "replaced"}) for entry in entries)

    assert {trust.state(entry.item, Approvals()) for entry in entries} == {"trusted"}
    assert (first.command, first.environment) == (("/bin/server", "--x"), {"A": "${B}"})
    assert (first.write, first.network) == (True, True)
    assert (second.url, second.headers) == (web.url, {"Authorization": "Bearer x"})


def test_names_become_parts_of_tool_names_and_stay_apart():
    names = ["My Server!", "My Server?", "__", "ok.name", "x" * 60]

    known = [*servers_of([*map(stdio, names)])]

    assert known == ["My-Server", "My-Server-2", "server", "ok.name", "x" * 36]

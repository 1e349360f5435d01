from acp.schema import EnvVariable, HttpHeader, HttpMcpServer, McpServerStdio

from kode.extensions import trust
from kode.extensions.mcp_config import client_entries, resolve
from kode.extensions.trust import Approvals
from kode.plugins.acp.agent import servers_of


def stdio(name, command="/bin/server"):
    return McpServerStdio(
        name=name, command=command, args=["--x"], env=[EnvVariable(name="A", value="${B}")]
    )


def test_a_server_of_the_client_is_trusted_as_given(tmp_path):
    (entry,) = client_entries(servers_of([stdio("files")]), tmp_path)

    server = resolve(entry, {"B": "replaced"})

    assert trust.state(entry.item, Approvals()) == "trusted"
    assert server.command == ("/bin/server", "--x")
    assert server.environment == {"A": "${B}"}
    assert (server.write, server.network) == (True, True)


def test_an_http_server_keeps_its_headers(tmp_path):
    headers = [HttpHeader(name="Authorization", value="Bearer x")]
    given = HttpMcpServer(type="http", name="web", url="http://127.0.0.1:1/mcp", headers=headers)

    (entry,) = client_entries(servers_of([given]), tmp_path)
    server = resolve(entry, {})

    assert server.url == "http://127.0.0.1:1/mcp"
    assert server.headers == {"Authorization": "Bearer x"}


def test_names_become_parts_of_tool_names_and_stay_apart():
    names = ["My Server!", "My Server?", "__", "ok.name", "x" * 60]

    found = [*servers_of([*map(stdio, names)])]

    assert found == ["My-Server", "My-Server-2", "server", "ok.name", "x" * 36]

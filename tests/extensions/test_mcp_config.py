import json

import pytest

from kode.errors import ConfigError
from kode.extensions import mcp_config, trust
from tests.tables import for_each

UNFIT = ["", "a__b", "a b", "-a", "a" * 41, "a:b", "ä"]
"""Names that are none for a tool."""


def put(path, **servers):
    path.write_text(json.dumps({"mcpServers": servers}))


def entries(home, project):
    return {one.name: one for one in mcp_config.find_servers(home, project)[0]}


def test_servers_of_three_places_shadow_none_of_ones_own(home, project):
    put(home / "config.json", own={"command": "mine"})
    put(project / ".mcp.json", shared={"type": "http", "url": "http://x"}, own={"command": "a"})
    put(project / "kode.json", third={"command": "b"})
    found, faults = mcp_config.find_servers(home, project)
    scopes = {one.name: one.scope for one in found}
    assert scopes == {"own": "home", "shared": "project", "third": "project"}
    assert entries(home, project)["own"].values["command"] == "mine"
    assert "hidden by" in faults[0]


def test_variables_are_replaced_only_when_a_server_is_started(home, project):
    written = {
        "command": "${PROGRAM:-python}",
        "args": ["$HOME", "${ROOM}"],
        "env": {"TOKEN": "${A_TOKEN}", "${A_TOKEN}": "kept"},
    }
    addresses = {"two": {"url": "${ADDRESS}"}, "three": {"url": "https://${NOWHERE}/mcp"}}
    put(project / ".mcp.json", one=written, **addresses)
    entry = entries(home, project)["one"]

    server = mcp_config.resolve(entry, {"ROOM": "r", "A_TOKEN": "s3cret"})

    assert server.command == ("python", "$HOME", "r")
    assert server.environment == {"TOKEN": "s3cret", "${A_TOKEN}": "kept"}
    assert "s3cret" not in entry.item.content
    with pytest.raises(ConfigError, match="Set NOWHERE in the environment"):
        mcp_config.resolve(entries(home, project)["three"], {})


@for_each(
    ("name", "values", "said"),
    [
        ("bad", {}, "either a `command` or a `url`"),
        ("bad", {"command": "a", "url": "b"}, "either a `command` or a `url`"),
        ("bad", {"command": ["a"]}, "`command` must be a text"),
        ("bad", {"command": "a", "args": "b"}, "`args` must be a list"),
        ("bad", {"command": "a", "env": {"A": 1}}, "`env.A` must be a text"),
        ("bad", {"type": "ws", "url": "b"}, "`type` must be"),
        ("bad", {"url": "/usr/bin/server"}, "like https://host/mcp"),
        ("bad", {"url": "http://[::1"}, "like https://host/mcp"),
        ("bad", "a", "must be a section"),
        *((name, {"command": "a"}, "needs a name") for name in UNFIT),
    ],
)
def test_an_unusable_entry_is_reported_and_the_others_stay(home, project, name, values, said):
    put(project / ".mcp.json", **{name: values, "good": {"command": "a"}})
    found, faults = mcp_config.find_servers(home, project)
    assert [one.name for one in found] == ["good"]
    assert said in faults[0]


def test_project_files_that_the_command_runs_need_approval_too(home, project):
    put(project / ".mcp.json", one={"command": "python", "args": ["server.py"]})
    contents = set()
    for text in ("one", "two"):
        (project / "server.py").write_text(text)
        contents.add(trust.digest(entries(home, project)["one"].item))
    assert len(contents) == 2

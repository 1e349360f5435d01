import json

import pytest

from kode import paths
from kode.cli.commands import extensions, mcp
from kode.errors import ConfigError
from kode.extensions import trust as approvals
from tests.cli.commands.answers import run


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def bring(project, **servers):
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def test_a_server_is_new_then_trusted_changed_and_revoked(project, capsys):
    def states():
        capsys.readouterr()
        run(extensions, ["trust", "list", "--json"])
        return {row["name"]: row["state"] for row in json.loads(capsys.readouterr().out)}

    bring(project, one={"command": "a"}, two={"command": "b"})
    assert states() == {"one": "new", "two": "new"}

    assert run(extensions, ["trust", "approve", "one", "--yes"]) == 0
    assert states() == {"one": "trusted", "two": "new"}

    bring(project, one={"command": "c"}, two={"command": "b"})
    assert states() == {"one": "changed", "two": "new"}
    run(extensions, ["trust", "show", "one"])
    assert '+  "command": "c"' in capsys.readouterr().out

    assert run(extensions, ["trust", "revoke", "one"]) == 0
    assert states() == {"one": "new", "two": "new"}


def test_approval_needs_a_person_who_can_be_asked(project):
    bring(project, one={"command": "a"})
    with pytest.raises(ConfigError, match="--yes"):
        run(extensions, ["trust", "approve", "one"])


def test_a_removed_server_leaves_no_approval_behind(project, capsys):
    run(mcp, ["add", "docs", "https://example.org/mcp", "--scope", "project"])
    run(mcp, ["remove", "docs"])
    assert approvals.load(paths.kode_home(), project).items == ()


def test_approving_outside_lets_servers_run_without_a_sandbox(project, capsys):
    bring(project, one={"command": "a"})
    run(extensions, ["trust", "approve", "--yes", "--outside"])
    capsys.readouterr()
    run(extensions, ["trust", "list", "--json"])
    kinds = {row["kind"] for row in json.loads(capsys.readouterr().out)}
    assert kinds == {"mcp", "mcp-outside"}


KEY = "ghp_" + "x7Kq2mVb9Rt4Yw1Zc8Ns" + "5Dg3Hj6Lp0Fa2Bv4"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (mcp, ["get", "one"]),
        (mcp, ["list"]),
        (mcp, ["list", "--json"]),
        (extensions, ["trust", "show", "one"]),
        (extensions, ["hooks", "list"]),
        (extensions, ["hooks", "list", "--json"]),
    ],
)
def test_no_list_of_extensions_shows_a_key(project, capsys, command, words):
    bring(project, one={"command": "a", "args": ["--token", KEY], "env": {"GH": KEY}})
    hook = {"type": "command", "command": f"curl -H 'Authorization: Bearer {KEY}' x"}
    settings = {"hooks": {"Stop": [{"hooks": [hook]}]}}
    (project / ".claude").mkdir()
    (project / ".claude" / "settings.json").write_text(json.dumps(settings))

    run(command, words)

    out = capsys.readouterr().out
    assert "one" in out or "curl" in out
    assert KEY not in out


def test_a_servers_own_values_are_masked_whatever_their_looks(project, capsys):
    env = {"PLAIN": "correct horse", "TAKEN": "${TAKEN}", "QUOTED": 'a"b'}
    bring(project, one={"command": "a", "env": env})

    run(mcp, ["get", "one"])

    out = capsys.readouterr().out
    assert "correct horse" not in out
    assert 'a\\"b' not in out
    assert "${TAKEN}" in out

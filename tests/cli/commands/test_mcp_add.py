"""What people paste from READMEs and from the lines of other agents."""

import json
from pathlib import Path

import pytest

from kode.cli.commands import mcp
from kode.cli.screen.printer import print_answer
from kode.errors import ConfigError
from kode.extensions import mcp_config, trust

NPX = {"command": "npx", "args": ["-y", "a-server"]}
ZED = {"path": "npx", "args": ["-y", "a-server"]}
WITH_ENV = {**NPX, "env": {"A": "b"}}
CODEX = '[mcp_servers.x]\nurl = "https://a.example"\nbearer_token_env_var = "TOK"\n'
CODE = '{"servers": {"v": {"command": "uvx", "args": ["${input:tok}",],}}} // x'
IN_ZED = {"z": {"command": "npx"}, "e": {"source": "extension"}}


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    (tmp_path / "project" / ".git").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home" / ".kode"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "TOK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "home"


def added(home):
    entries, _ = mcp_config.find_servers(home / ".kode", Path.cwd())
    return {entry.name: dict(entry.values) for entry in entries}


def run(*words):
    return print_answer(mcp.main(words))


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["one", "--", "npx", "-y", "a-server"], NPX),
        (["one", "npx", "-y", "a-server"], NPX),
        (["one", "npx -y a-server"], NPX),
        (["-e", "A=b", "one", "--", "npx", "-y", "a-server"], WITH_ENV),
        (["one", "--env", "A=b", "--", "npx", "-y", "a-server"], WITH_ENV),
        (["-s", "user", "-t", "stdio", "one", "--", "npx", "-y", "a-server"], NPX),
        (["--scope", "local", "one", "npx", "-y", "a-server"], NPX),
        (["--transport", "http", "one", "https://a.example"], {"url": "https://a.example"}),
        (["one", "--url", "https://a.example"], {"url": "https://a.example", "type": "http"}),
        (["-t", "sse", "one", "https://a.example"], {"url": "https://a.example", "type": "sse"}),
        (["one", "https://a.example", "-H", "X-A: b"], {"headers": {"X-A": "b"}}),
        (["one", "https://a.example", "--header", "X-A=b"], {"headers": {"X-A": "b"}}),
        (
            ["one", "--url", "https://a.example", "--bearer-token-env-var", "TOK"],
            {"headers": {"Authorization": "Bearer ${TOK}"}},
        ),
        (["one", json.dumps(NPX)], NPX),
        ([json.dumps({"name": "one", **NPX})], NPX),
        ([json.dumps({"mcpServers": {"one": NPX}})], NPX),
        ([json.dumps({"servers": {"one": {"type": "stdio", **NPX}}})], NPX),
        ([json.dumps({"context_servers": {"one": {"command": ZED}}})], NPX),
        (['"one": {"command": "npx", "args": ["-y", "a-server",],}, // pasted'], NPX),
        (['{"mcp": {"one": {"type": "local", "command": ["npx", "-y", "a-server"]}}}'], NPX),
    ],
)
def test_a_pasted_line_becomes_an_entry(home, words, values):
    assert run("add", *words) == 0
    (entry,) = added(home).values()
    assert entry | values == entry


def test_json_goes_below_the_name_that_is_given(home):
    run("add-json", "one", json.dumps(WITH_ENV))
    assert added(home) == {"one": WITH_ENV}


def test_a_project_server_that_its_person_adds_is_approved(home):
    run("add", "-s", "project", "one", "--", "npx", "-y", "a-server")
    folder = Path.cwd()
    assert "one" in json.loads((folder / ".mcp.json").read_text())["mcpServers"]
    ((entry,), _) = mcp_config.find_servers(home / ".kode", folder)
    assert trust.state(entry.item, trust.load(home / ".kode", folder)) == "trusted"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["one"],
        ["{broken"],
        ['{"command": "npx"}'],
        ['{"mcpServers": {}}'],
        ["one", "-t", "stdio", "https://a.example"],
        ["one", "-e", "novalue", "--", "npx"],
    ],
)
def test_a_line_that_names_no_server_is_refused(home, words):
    with pytest.raises(ConfigError):
        run("add", *words)
    assert added(home) == {}


# ── what other agents have ───────────────────────────────────────────────────────────────────


@pytest.fixture
def others(home):
    secret = "ghp_" + "a1B2" * 9
    files = {
        ".claude.json": json.dumps({"mcpServers": {"c": {**NPX, "env": {"GH_TOKEN": secret}}}}),
        ".codex/config.toml": CODEX,
        ".cursor/mcp.json": json.dumps({"mcpServers": {"u": NPX}}),
        ".config/Code/User/mcp.json": CODE,
        ".config/zed/settings.json": json.dumps({"context_servers": IN_ZED}),
        ".gemini/settings.json": "{broken",
    }
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return secret


def test_the_servers_of_other_agents_are_listed(home, others, capsys):
    run("import", "--json")
    said = capsys.readouterr()
    names = {(one["agent"], one["name"]) for one in json.loads(said.out)}
    expected = {("claude", "c"), ("codex", "x"), ("cursor", "u"), ("vscode", "v"), ("zed", "z")}
    assert names == expected
    assert "settings.json" in said.err
    assert others not in said.out + said.err
    assert added(home) == {}


def test_the_chosen_are_taken_and_secrets_become_references(home, others, capsys):
    run("import", "c", "codex:x")
    assert added(home)["c"]["env"] == {"GH_TOKEN": "${GH_TOKEN}"}
    assert added(home)["x"]["headers"] == {"Authorization": "Bearer ${TOK}"}
    assert others not in (home / ".kode" / "config.json").read_text()


def test_a_name_that_two_configure_differently_is_asked_for(home, others):
    (home / ".cursor" / "mcp.json").write_text('{"mcpServers": {"c": {"command": "b"}}}')
    with pytest.raises(ConfigError):
        run("import", "c")
    run("import", "cursor:c")
    assert added(home)["c"] == {"command": "b"}

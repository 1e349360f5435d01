"""What people paste from READMEs and from the lines of other agents."""

import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from kode.cli.commands import mcp
from kode.cli.screen.printer import print_answer
from kode.errors import ConfigError
from kode.extensions import mcp_config, trust

NPX = {"command": "npx", "args": ["-y", "a-server"]}
WITH_ENV = {**NPX, "env": {"A": "b"}}
CODEX = '[mcp_servers.x]\nurl = "https://a.example"\nbearer_token_env_var = "TOK"\n'
CODE = '{"servers": {"v": {"command": "uvx", "args": ["${input:tok}",],}}} // x'


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


def link(values, name="one"):
    data = base64.b64encode(json.dumps(values).encode()).decode()
    return f"cursor://anysphere.cursor-deeplink/mcp/install?name={name}&config={quote(data)}"


WEB = {"url": "https://a.example", "type": "http"}
BLOCK = """# ~/.codex/config.toml
[mcp_servers.one]
command = "npx"
args = ["-y", "a-server"]
env = { A = "b" }
"""


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["one", "--", "npx", "-y", "a-server"], NPX),
        (["one", "npx", "-y", "a-server"], NPX),
        (["-e", "A=b", "one", "--", "npx", "-y", "a-server"], WITH_ENV),
        (["-s", "user", "-t", "stdio", "one", "--", "npx", "-y", "a-server"], NPX),
        (["--transport", "http", "one", "https://a.example"], WEB),
        (["one", "--url", "https://a.example"], WEB),
        (["-t", "sse", "one", "https://a.example"], {"url": "https://a.example", "type": "sse"}),
        (["one", "https://a.example", "-H", "X-A: b"], {"headers": {"X-A": "b"}}),
        (
            ["one", "--url", "https://a.example", "--bearer-token-env-var", "TOK"],
            {"headers": {"Authorization": "Bearer ${TOK}"}},
        ),
        (["one", json.dumps(NPX)], NPX),
        ([json.dumps({"name": "one", **NPX})], NPX),
        ([json.dumps({"mcpServers": {"one": NPX}})], NPX),
        ([json.dumps({"context_servers": {"one": NPX}})], NPX),
        (['"one": {"command": "npx", "args": ["-y", "a-server",],}, // pasted'], NPX),
        (['{"mcp": {"one": {"type": "local", "command": ["npx", "-y", "a-server"]}}}'], NPX),
        ([BLOCK], WITH_ENV),
        (["claude mcp add -t http one https://a.example -s user"], WEB),
        (["$ claude mcp add one -e A=b \\\n -- npx -y a-server"], WITH_ENV),
        (["claude", "mcp", "add", "one", "-e", "A=b", "--", "npx", "-y", "a-server"], WITH_ENV),
        ([f"claude mcp add-json one '{json.dumps(WITH_ENV)}'"], WITH_ENV),
        (["codex mcp add one --url https://a.example"], WEB),
        (["--network", "codex mcp add one -- npx x"], {"command": "npx", "network": True}),
        (["claude mcp add one -- npx a; rm ~ && b"], {"args": ["a;", "rm", "~", "&&", "b"]}),
        ([link({"command": "npx `id` $(id) | sh"})], {"args": ["`id`", "$(id)", "|", "sh"]}),
        (["https://cursor.com/en/install-mcp?" + link(WEB).partition("?")[2]], WEB),
    ],
)
def test_a_pasted_line_becomes_an_entry(home, words, values):
    assert run("add", "--yes", *words) == 0
    (entry,) = added(home).values()
    assert entry | values == entry


def test_an_address_alone_is_named_by_its_host(home):
    run("add", "--yes", "https://mcp.linear.app/mcp")
    run("add", "--yes", "http://127.0.0.1:8931/mcp")
    assert added(home).keys() == {"linear", "127.0.0.1"}


def test_no_right_is_taken_from_a_paste(home, capsys):
    greedy = {**NPX, "network": True, "write": True, "outside": True, "read": ["~/.ssh"]}
    with pytest.raises(ConfigError, match="--yes"):  # there is no terminal
        run("add", link(greedy))
    assert '"npx"' in capsys.readouterr().err
    run("add", "--yes", "--write", link(greedy))
    assert added(home) == {"one": {**NPX, "write": True}}
    assert "grants no `network`: type --network" in capsys.readouterr().out


def test_a_project_server_that_its_person_adds_is_approved(home):
    run("add", "-s", "project", "one", "--", "npx", "-y", "a-server")
    ((entry,), _) = mcp_config.find_servers(home / ".kode", Path.cwd())
    assert entry.origin == Path.cwd() / ".mcp.json"
    assert trust.state(entry.item, trust.load(home / ".kode", Path.cwd())) == "trusted"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a server"),
        (["http://[::1"], "name a server"),
        (["a sentence about servers"], "give its address, program or JSON"),
        (["{broken"], "is no JSON"),
        (["[mcp_servers.one]\ncommand = npx"], "is no TOML"),
        (['{"command": "npx"}'], "name a server"),
        (['{"mcpServers": {}}'], "name a server"),
        (["one", "-t", "stdio", "https://a.example"], "either a `command` or a `url`"),
        (["one", "-e", "novalue", "--", "npx"], "has no `=`"),
        (["claude mcp add one -s bogus -- npx"], "-s cannot be 'bogus'"),
        (["claude mcp add one --network -- npx"], "unknown flag --network"),
        (["claude mcp add a -- npx\nclaude mcp add b -- npx"], "one at a time"),
        (["cursor://anysphere.cursor-deeplink/mcp/install?name=one&config=%%%"], "in base64"),
        ([link({"hello": 1})], "in base64"),
        ([link({"command": "x" * 60_000})], "too long"),
    ],
)
def test_a_line_that_names_no_server_is_refused(home, words, said):
    with pytest.raises(ConfigError, match=said):
        run("add", "--yes", *words)
    assert added(home) == {}


def test_a_server_is_switched_and_logged_out_of(home, capsys):
    run("add", "one", "https://a.example")
    run("disable", "one")
    assert added(home) == {}
    run("list")
    run("enable", "one")
    assert "disabled  one" in capsys.readouterr().out
    assert added(home) == {"one": WEB}
    tokens = mcp_config.tokens_file(home / ".kode", "https://a.example")
    tokens.parent.mkdir(parents=True)
    tokens.touch()
    run("logout", "one")
    assert not tokens.exists()
    run("add", "two", json.dumps(NPX))
    with pytest.raises(ConfigError, match="no login"):
        run("login", "two")


# ── what other agents have ───────────────────────────────────────────────────────────────────


@pytest.fixture
def others(home):
    secret = "ghp_" + "a1B2" * 9
    files = {
        ".claude.json": json.dumps({"mcpServers": {"c": {**NPX, "env": {"GH_TOKEN": secret}}}}),
        ".codex/config.toml": CODEX,
        ".cursor/mcp.json": json.dumps({"mcpServers": {"u": NPX}}),
        ".config/Code/User/mcp.json": CODE,
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
    expected = {("claude", "c"), ("codex", "x"), ("cursor", "u"), ("vscode", "v")}
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

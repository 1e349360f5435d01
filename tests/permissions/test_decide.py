from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kode.permissions import places
from kode.permissions.decide import decide_call
from kode.permissions.rules import Rules, parse_all
from kode.tool import Tool
from kode.tools.apply_patch import delete_file, patch_file
from kode.tools.builtin import BUILTIN
from tests.effort import share
from tests.tables import for_each
from tests.workplaces import make_call, workplace

TOOLS = {tool.name: tool for tool in BUILTIN}
PROJECT = Path("/home/user/project")
MODES = ("ask", "auto-edit", "plan", "full")


async def _nothing(context, arguments):
    return ""


def fake(name, effect, subject=""):
    return Tool(
        name=name,
        description="",
        effect=effect,
        subject=subject,
        parallel=False,
        parameters=dict,
        check=lambda arguments: arguments,
        run=_nothing,
    )


TOOLS["memory"] = fake("memory", "memory", "action")
TOOLS["recall"] = fake("recall", "memory-read", "query")
TOOLS["forget"] = fake("forget", "memory", "id")
TOOLS["mcp__a_b__delete_all"] = replace(
    fake("mcp__a_b__delete_all", "mcp"), target=lambda arguments: "a.b:delete.all"
)
TOOLS["mcp__git__log"] = replace(fake("mcp__git__log", "mcp"), target=lambda arguments: "git:log")
TOOLS["delegate_tasks"] = fake("delegate_tasks", "delegate")


def decided(mode, tool, arguments, *, allow=(), deny=(), ask=(), approved=(), **more):
    rules = Rules(
        allow=parse_all(allow),
        deny=parse_all(deny),
        ask=parse_all(ask),
        approved=parse_all(approved),
    )
    judged = {name: more.pop(name) for name in {"taint", "sandbox", "sandbox_forced"} & more.keys()}
    place = workplace(PROJECT, **more)
    return decide_call(make_call(rules, mode, TOOLS[tool], arguments, place, **judged))


def shell(mode, command, **more):
    return decided(mode, "shell", {"command": command}, **more)


@for_each(
    ("tool", "arguments", "expected"),
    [
        ("read_file", {"path": "a.py"}, "allow allow allow allow"),
        ("list_files", {}, "allow allow allow allow"),
        ("todo", {"items": []}, "allow allow allow allow"),
        ("read_file", {"path": ".env"}, "ask ask ask ask"),
        ("read_file", {"path": "~/.ssh/id_rsa"}, "ask ask ask ask"),
        ("search_files", {"pattern": "x", "glob": ".env*"}, "ask ask ask ask"),
        ("read_file", {"path": "/srv/x"}, "ask ask ask allow"),
        ("edit_file", {"path": "a.py"}, "ask allow deny allow"),
        ("write_file", {"path": "../x"}, "ask ask deny allow"),
        ("write_file", {"path": ".git/hooks/pre-commit"}, "ask ask deny ask"),
        ("write_file", {"path": ".github/workflows/ci.yml"}, "ask ask deny ask"),
        ("write_file", {"path": ".venv/bin/ls"}, "ask ask deny ask"),
        ("write_file", {"path": "web/node_modules/.bin/tsc"}, "ask ask deny ask"),
        ("shell", {"command": "chmod +x .venv/bin/ls"}, "ask ask deny ask"),
        ("write_file", {"path": "~/.kode/config.json"}, "deny deny deny deny"),
        ("fetch_url", {"url": "https://x.example/"}, "ask ask ask allow"),
        ("delegate_tasks", {"tasks": []}, "ask ask ask allow"),
        ("recall", {"query": "x"}, "allow allow allow allow"),
        ("memory", {"action": "add", "content": "x"}, "allow allow deny allow"),
        ("shell", {"command": "ls src && cat a.py | head"}, "allow allow allow allow"),
        ("shell", {"command": "git status"}, "ask ask deny allow"),
        ("shell", {"command": "mkdir x"}, "ask ask deny allow"),
        ("shell", {"command": "pytest -q"}, "ask ask deny allow"),
        ("shell", {"command": "npm install"}, "ask ask deny allow"),
        ("shell", {"command": "python x.py"}, "ask ask deny allow"),
        ("shell", {"command": "cat .env"}, "ask ask deny ask"),
        ("shell", {"command": "rm -rf ~/x"}, "ask ask deny ask"),
        ("shell", {"command": "git reset --hard"}, "ask ask deny ask"),
        ("shell", {"command": "echo x > ~/.kode/config.json"}, "deny deny deny deny"),
    ],
)
def test_each_mode_decides_as_documented(tool, arguments, expected):
    outcomes = [decided(mode, tool, arguments).outcome for mode in MODES]

    assert outcomes == expected.split()


PUSH = ("shell(git push:*)",)
PYTEST = {"allow": ["shell(pytest:*)"]}
BOTH = ("read(a.py)", "edit(a.py)")


@for_each(
    ("mode", "command", "rules", "expected"),
    [
        # Deny beats ask beats allow.
        ("full", "git push", {"allow": PUSH, "ask": PUSH, "deny": PUSH}, "deny"),
        ("full", "git push", {"allow": PUSH, "ask": PUSH}, "ask"),
        ("ask", "git push", {"allow": PUSH}, "allow"),
        # No heuristic overrides a rule; an approval covers nothing destructive.
        ("ask", "git push --force", {"allow": PUSH}, "allow"),
        ("ask", "rm -rf src", {"allow": ["shell"]}, "allow"),
        ("ask", "git push", {"approved": PUSH}, "allow"),
        ("ask", "git push --force", {"approved": PUSH}, "ask"),
        # Every part of a line needs its own rule.
        ("ask", "pytest -q && pytest -x | tail", PYTEST, "allow"),
        ("ask", "pytest -q && npm ci", PYTEST, "ask"),
        ("ask", "pytest -q > ~/.bashrc", PYTEST, "ask"),
        ("ask", "LD_PRELOAD=./x pytest -q", PYTEST, "ask"),
        ("ask", "sudo pytest -q", PYTEST, "ask"),
        # A deny rule counts for unknown words and for files, too.
        ("full", "$X -rf a", {}, "allow"),
        ("full", "$X -rf a", {"deny": ["shell(rm:*)"]}, "ask"),
        ("full", "cat notes/a", {"deny": ["read(notes/**)"]}, "deny"),
        ("full", "touch src/a", {"deny": ["edit(src/**)"]}, "deny"),
        ("plan", "mkdir x", {"allow": ["shell"]}, "deny"),
        ("full", "rm -rf ~/.kode", {"allow": ["shell"]}, "deny"),
    ],
)
def test_rules_decide_about_commands_as_documented(mode, command, rules, expected):
    assert shell(mode, command, **rules).outcome == expected


KEPT = "~/.kode/memory/facts/user.md"
ADD = {"action": "add", "content": "x"}


@for_each(
    ("mode", "tool", "arguments", "rules", "expected"),
    [
        *(
            row
            for tool in ("read_file", "edit_file")
            for row in (
                (
                    "full",
                    tool,
                    {"path": "a.py"},
                    {"allow": BOTH, "ask": BOTH, "deny": BOTH},
                    "deny",
                ),
                ("full", tool, {"path": "a.py"}, {"allow": BOTH, "ask": BOTH}, "ask"),
            )
        ),
        ("ask", "read_file", {"path": ".env"}, {"allow": ["read(.env)"]}, "allow"),
        ("plan", "edit_file", {"path": "a"}, {"allow": ["edit"]}, "deny"),
        ("full", "write_file", {"path": KEPT}, {"allow": ["edit", "edit(~/.kode/**)"]}, "deny"),
        ("full", "memory", ADD, {"taint": True}, "ask"),
        ("full", "memory", ADD, {"taint": True, "allow": ["memory"]}, "ask"),
        ("full", "forget", {"id": "1"}, {"taint": True}, "ask"),
        ("ask", "mcp__a_b__delete_all", {}, {"allow": ["mcp__a_b__delete_all"]}, "ask"),
    ],
)
def test_rules_decide_about_other_calls_as_documented(mode, tool, arguments, rules, expected):
    assert decided(mode, tool, arguments, **rules).outcome == expected


@for_each(
    "command",
    [
        "ls; git push",
        "bash -c 'git push'",
        "echo $(git push)",
        "timeout 9 git push",
        "env A=1 git push",
        "git -C . push",
        "/usr/bin/git push",
        'g""it push',
    ],
)
def test_a_deny_rule_finds_its_command_inside_another(command):
    assert shell("full", command, deny=["shell(git push:*)"]).outcome == "deny"


def test_mode_full_runs_unattended_except_for_secrets():
    assert shell("full", "git reset --hard").consent.runs_unattended
    assert not shell("full", "cat .env").consent.runs_unattended
    assert not shell("full", "git push", ask=["shell(git push:*)"]).consent.runs_unattended


@for_each(
    ("command", "offered"),
    [
        ("pytest -q tests/a.py", ("shell(pytest:*)",)),
        ("npm run build && npm test", ("shell(npm run build:*)", "shell(npm test:*)")),
        ("git commit -m x", ("shell(git commit:*)",)),
        ("mkdir -p a/b", ("shell(mkdir -p a/b)",)),
        ("git reset --hard", ()),
        ("sudo ls", ()),
        ("mkdir x && rm -rf src", ()),
        ("$X", ()),
    ],
)
def test_rules_are_offered_per_part_and_never_for_grave_things(command, offered):
    assert shell("ask", command).consent.rules == offered


@pytest.mark.parametrize("rule", ["mcp__a_b__delete_all", "mcp__a_b", "mcp(a.b:delete.all)"])
def test_a_server_tool_is_forbidden_by_its_shown_name(rule):
    assert decided("full", "mcp__a_b__delete_all", {}, deny=[rule]).outcome == "deny"
    assert decided("full", "mcp__a_b__delete_all", {}, ask=[rule]).outcome == "ask"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("edit_file", {"path": "**"}),
        ("edit_file", {"path": "*/a.py"}),
        ("edit_file", {"path": "/srv/?.py"}),
        ("read_file", {"path": "/srv/**/a.py"}),
        ("fetch_url", {"url": "https://*.org/page"}),
    ],
)
def test_no_offered_rule_exceeds_the_question(tool, arguments):
    decision = decided("ask", tool, arguments)

    assert (decision.outcome, decision.consent.rules) == ("ask", ())


def test_an_offered_rule_answers_the_question():
    for command in ("pytest -q | tail", "npm ci && npm test", "mkdir x", "curl https://x.example"):
        offered = shell("ask", command).consent.rules

        assert shell("ask", command, approved=offered).outcome == "allow"


def test_the_hint_names_a_flag_that_allows_it():
    assert shell("ask", "curl x.test").consent.flag == "--allow 'shell(curl x.test)'"
    assert shell("ask", "mkdir x").consent.flag == ("--allow 'shell(mkdir x)'")
    assert shell("ask", "; ".join(f"curl {n}.test" for n in range(9))).consent.flag == (
        "--permission-mode full"
    )
    assert decided("ask", "edit_file", {"path": "a"}).consent.flag == "--permission-mode auto-edit"


VALUES = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=40),
    st.sampled_from(["rm -rf ~", ".env", "~/.kode/x", "https://x", "../..", "ls | cat", "\0", "~"]),
    st.lists(st.text(max_size=5), max_size=2),
)
NAMES = ("path", "command", "url", "pattern", "glob", "action", "content", "items", "tasks")
ARGUMENTS = st.dictionaries(st.sampled_from(NAMES), VALUES)
SOME_RULES = st.lists(
    st.sampled_from(
        ["shell", "shell(ls:*)", "shell(git push:*)", "edit", "edit(src/**)", "read(**)", "fetch",
         "fetch(x.example)", "memory", "delegate", "todo", "read_file", "write_file(~/x)"]
    ),
    max_size=3,
)  # fmt: skip


@settings(max_examples=share(200), deadline=None)
@given(
    mode=st.sampled_from(MODES),
    tool=st.sampled_from(sorted(TOOLS)),
    arguments=ARGUMENTS,
    allow=SOME_RULES,
    deny=SOME_RULES,
    approved=SOME_RULES,
    taint=st.booleans(),
)
def test_deciding_never_raises(mode, tool, arguments, allow, deny, approved, taint):
    decision = decided(
        mode, tool, arguments, allow=allow, deny=deny, approved=approved, taint=taint
    )

    assert decision.outcome in ("allow", "ask", "deny")
    assert decision.reason or decision.consent.dangers


@settings(max_examples=share(200), deadline=None)
@given(
    mode=st.sampled_from(MODES),
    tool=st.sampled_from(sorted(TOOLS)),
    arguments=ARGUMENTS,
    allow=SOME_RULES,
)
def test_a_bare_deny_rule_always_wins(mode, tool, arguments, allow):
    effect = TOOLS[tool].effect.partition("-")[0]
    bare = {"run": "shell", "none": tool}.get(effect, effect)

    assert decided(mode, tool, arguments, allow=allow, deny=[bare]).outcome == "deny"


@settings(max_examples=share(150), deadline=None)
@given(command=st.text(alphabet=" \n\t;&|<>(){}[]$'\"\\`#!*?~=abrmls/.-", max_size=60))
def test_any_text_gets_a_class(command):
    assert shell("auto-edit", command).outcome in ("allow", "ask", "deny")


def test_rules_hold_in_a_sandbox_too():
    assert shell("ask", "python x.py", sandbox="layered", ask=["shell(python:*)"]).outcome == "ask"
    assert (
        shell("ask", "python x.py", sandbox="layered", deny=["shell(python:*)"]).outcome == "deny"
    )
    assert shell("ask", "$X x.py", sandbox="layered", deny=["shell(python:*)"]).outcome == "ask"


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("git reset --hard", ()),
        ("rm $X", ()),
        ("rm -r docs/*.md", ("/home/user/project/docs/*.md",)),
        ("mv a b", ("/home/user/project/a", "/home/user/project/b")),
    ],
)
def test_a_command_on_the_host_names_the_files_to_save(command, named):
    decision = shell("full", command)
    assert (decision.run_in, decision.only_reads, decision.line.writes) == ("host", False, named)


@for_each(
    ("rules", "expected"),
    [
        ({}, "ask ask deny allow"),
        ({"allow": ["mcp"]}, "allow allow deny allow"),
        ({"allow": ["mcp(git)"]}, "allow allow deny allow"),
        ({"allow": ["mcp(git:log)"]}, "allow allow deny allow"),
        ({"allow": ["mcp__git"]}, "allow allow deny allow"),
        ({"allow": ["mcp__git__log"]}, "allow allow deny allow"),
        ({"approved": ["mcp(git:log)"]}, "allow allow deny allow"),
        ({"allow": ["mcp(git:push)", "mcp(gi)", "mcp(git:lo)"]}, "ask ask deny allow"),
        ({"allow": ["mcp"], "deny": ["mcp(git)"]}, "deny deny deny deny"),
        ({"ask": ["mcp(git:log)"]}, "ask ask deny ask"),
    ],
)
def test_tools_of_mcp_servers_are_decided_by_server_and_tool(rules, expected):
    outcomes = [decided(mode, "mcp__git__log", {}, **rules).outcome for mode in MODES]
    assert " ".join(outcomes) == expected


def test_a_question_about_a_servers_tool_offers_this_tool_alone():
    assert decided("ask", "mcp__git__log", {}).consent.rules == ("mcp(git:log)",)


@pytest.mark.parametrize("rule", ["edit_file(kept/**)", "edit(kept/**)", "edit_file"])
def test_an_edit_rule_holds_for_every_part_of_a_patch(rule):
    rules = Rules(deny=parse_all([rule]))
    for tool in (patch_file, delete_file):
        call = make_call(rules, "auto-edit", tool, {"path": "kept/a.py"}, workplace(PROJECT))
        assert decide_call(call).outcome == "deny"


@pytest.mark.parametrize("rule", ["read(./**)", "read(link)"])
def test_an_allow_rule_does_not_follow_a_link_out(tmp_path, rule):
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.write_text("of somebody else")
    (project / "link").symlink_to(outside)
    place = workplace(project, home=tmp_path / "home")

    def outcome(**rules):
        call = make_call(Rules(**rules), "ask", TOOLS["read_file"], {"path": "link"}, place)
        return decide_call(call).outcome

    assert outcome(allow=parse_all([rule])) == "ask"
    assert outcome(deny=parse_all([rule])) == "deny"


def test_certificates_alone_are_no_keys(tmp_path):
    path = tmp_path / "bundle.pem"
    certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    path.write_text(f"# an authority\n{certificate * 200}")
    assert not places.holds_keys(str(path))
    path.write_text(f"{certificate}-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    assert places.holds_keys(str(path))
    path.write_text("a key in a form of its own")
    assert places.holds_keys(str(path))


def test_settings_hold_keys_only_where_one_is_in_them(tmp_path):
    path = tmp_path / ".npmrc"
    path.write_text("registry=https://r.example/")
    assert not places.holds_keys(str(path))
    path.write_text("PASSWORD: x")
    assert places.holds_keys(str(path))


def test_a_command_that_ends_too_early_is_asked_about():
    assert shell("ask", "python3 -m").outcome == "ask"

"""Which calls run, are asked about or refused: by mode, rules, place and kind."""

import asyncio
from pathlib import Path

from kode.permissions import places
from kode.permissions.decide import limit_calls
from kode.tools.apply_patch import delete_file, patch_file
from tests.permissions.calls import MODES, call, decided
from tests.tables import for_each
from tests.workplaces import workplace

KODE = Path("/home/user/.kode")
FACTS = "~/.kode/memory/facts/user.md"
JOURNAL = KODE / "memory" / "journal" / "0123456789abcdef"
READABLE = {"readable": (JOURNAL / "HISTORY*.md",), "protected": (KODE,)}
PUSH = ("shell(git push:*)",)
PYTEST = {"allow": ["shell(pytest:*)"]}
PUSHES = [
    "ls; git push", "bash -c 'git push'", "echo $(git push)", "timeout 9 git push", "git -C . push",
    "env A=1 git push", "/usr/bin/git push", 'g""it push',
]  # fmt: skip
BOTH = ("read(a.py)", "edit(a.py)")
ADD = {"action": "add", "content": "x"}
TAINT = {"taint": True}
NAMED = {"named": lambda: frozenset({"/home/user/project/tools/a"})}

DECIDED = [
    # By mode alone: ask, auto-edit, plan, full.
    ("read_file", "a.py", {}, "allow allow allow allow"),
    ("list_files", None, {}, "allow allow allow allow"),
    ("todo", {"items": []}, {}, "allow allow allow allow"),
    ("read_file", ".env", {}, "ask ask ask ask"),
    ("read_file", "~/.ssh/id_rsa", {}, "ask ask ask ask"),
    ("search_files", {"pattern": "x", "glob": ".env*"}, {}, "ask ask ask ask"),
    ("read_file", "/srv/x", {}, "ask ask ask allow"),
    ("edit_file", "a.py", {}, "ask allow deny allow"),
    ("write_file", "../x", {}, "ask ask deny allow"),
    ("write_file", ".git/hooks/pre-commit", {}, "ask ask deny ask"),
    ("write_file", "kode.json", {}, "- ask - -"),
    ("write_file", "tools/a/x.sh", NAMED, "- ask - -"),
    ("shell", "touch tools/a", NAMED | {"sandbox": "plain"}, "ask ask deny ask"),
    ("shell", "echo '{}' > kode.json", {}, "- ask - -"),
    ("shell", "chmod +x .venv/bin/ls", {}, "ask ask deny ask"),
    ("write_file", "~/.kode/config.json", {}, "deny deny deny deny"),
    # The temporary folder is outside of a project in it.
    *(
        (tool, path, {"cwd": Path("/tmp/p/work")}, f"- {outcome} - -")
        for tool, path, outcome in [
            ("write_file", "../outside/n.txt", "ask"),
            ("edit_file", "/tmp/n.txt", "ask"),
            ("read_file", "/tmp/n.txt", "ask"),
            ("list_files", "/tmp", "ask"),
            ("read_file", "n.txt", "allow"),
            ("write_file", "n.txt", "allow"),
        ]
    ),
    ("fetch_url", "https://x.example/", {}, "ask ask ask allow"),
    ("delegate_tasks", {"tasks": []}, {}, "ask ask ask allow"),
    ("recall", {"query": "x"}, {}, "allow allow allow allow"),
    ("memory", ADD, {}, "allow allow deny allow"),
    ("shell", "ls src && cat a.py | head", {}, "allow allow allow allow"),
    ("shell", "git status", {}, "ask ask deny allow"),
    ("shell", "cat .env", {}, "ask ask deny ask"),
    ("shell", "rm -rf ~/x", {}, "ask ask deny ask"),
    ("shell", "git reset --hard", {}, "ask ask deny ask"),
    ("shell", "echo x > ~/.kode/config.json", {}, "deny deny deny deny"),
    # Deny beats ask beats allow; no heuristic overrides a rule.
    ("shell", "git push", {"allow": PUSH, "ask": PUSH, "deny": PUSH}, "- - - deny"),
    ("shell", "git push", {"allow": PUSH, "ask": PUSH}, "- - - ask"),
    *(
        (tool, "a.py", {"allow": BOTH, "ask": BOTH, **deny}, f"- - - {outcome}")
        for tool in ("read_file", "edit_file")
        for outcome, deny in (("deny", {"deny": BOTH}), ("ask", {}))
    ),
    ("read_file", ".env", {"allow": ["read(.env)"]}, "allow - - -"),
    ("shell", "rm -rf src", {"allow": ["shell"]}, "allow - - -"),
    *(
        (tool, argument, {"allow": [family], "deny": [family]}, "deny deny deny deny")
        for family, tool, argument in [
            ("shell", "shell", "ls"),
            ("shell", "shell", ""),
            ("edit", "write_file", "a.py"),
            ("read", "search_files", {"pattern": "x"}),
            ("fetch", "fetch_url", "https://x.example/"),
            ("mcp", "mcp__git__log", None),
            ("memory", "recall", {"query": "x"}),
            ("delegate", "delegate_tasks", {"tasks": []}),
            ("todo", "todo", {"items": []}),
        ]
    ),
    # But for what belongs to kode, mode plan, and what an answer cannot cover.
    ("write_file", FACTS, {"allow": ["edit", "edit(~/.kode/**)"]}, "- - - deny"),
    ("shell", "rm -rf ~/.kode", {"allow": ["shell"]}, "- - - deny"),
    ("edit_file", "a", {"allow": ["edit"]}, "- - deny -"),
    ("shell", "mkdir x", {"allow": ["shell"]}, "- - deny -"),
    ("shell", "git push --force", {"approved": PUSH}, "ask - - -"),
    # Every part of a line needs its own rule.
    ("shell", "pytest -q > ~/.bashrc", PYTEST, "ask - - -"),
    ("shell", "LD_PRELOAD=./x pytest -q", PYTEST, "ask - - -"),
    ("shell", "sudo pytest -q", PYTEST, "ask - - -"),
    # A deny rule counts for unknown words, for files, and inside another command.
    ("shell", "$X -rf a", {}, "- - - allow"),
    ("shell", "$X -rf a", {"deny": ["shell(rm:*)"]}, "- - - ask"),
    ("shell", "cat notes/a", {"deny": ["read(notes/**)"]}, "- - - deny"),
    ("shell", "touch src/a", {"deny": ["edit(src/**)"]}, "- - - deny"),
    *(("shell", command, {"deny": PUSH}, "- - - deny") for command in PUSHES),
    # After outside text, memory and what steers agents are shown first.
    ("memory", ADD, TAINT, "- - - ask"),
    ("memory", ADD, TAINT | {"allow": ["memory"]}, "- - - ask"),
    ("forget", {"id": "1"}, TAINT, "- - - ask"),
    ("write_file", "AGENTS.md", TAINT, "- ask - -"),
    ("write_file", "AGENTS.md", {}, "- allow - -"),
    ("write_file", "README.md", TAINT, "- allow - -"),
    ("write_file", "AGENTS.md", TAINT | {"allow": ["edit(AGENTS.md)"]}, "- allow - -"),
    # Servers' tools, by server and tool.
    ("mcp__git__log", None, {}, "ask ask deny allow"),
    *(
        ("mcp__git__log", None, {"allow": [rule]}, "allow allow deny allow")
        for rule in ("mcp", "mcp(git)", "mcp(git:log)", "mcp__git", "mcp__git__log")
    ),
    ("mcp__git__log", None, {"approved": ["mcp(git:log)"]}, "allow allow deny allow"),
    ("mcp__git__log", None, {"allow": ["mcp(git:push)", "mcp(gi)"]}, "ask ask deny allow"),
    ("mcp__git__log", None, {"allow": ["mcp"], "deny": ["mcp(git)"]}, "deny deny deny deny"),
    ("mcp__git__log", None, {"ask": ["mcp(git:log)"]}, "ask ask deny ask"),
    # By the name that is shown it is forbidden, but not allowed.
    ("mcp__a_b__delete_all", None, {"allow": ["mcp__a_b__delete_all"]}, "ask - - -"),
    *(
        ("mcp__a_b__delete_all", None, {effect: [rule]}, f"- - - {effect}")
        for rule in ("mcp__a_b__delete_all", "mcp__a_b", "mcp(a.b:delete.all)")
        for effect in ("deny", "ask")
    ),
    # An edit rule holds for every part of a patch.
    *(
        (tool, "kept/a.py", {"deny": [rule]}, "- deny - -")
        for rule in ("edit_file(kept/**)", "edit(kept/**)", "edit_file")
        for tool in (patch_file, delete_file)
    ),
    # What of kode's folders may be read is never written.
    ("read_file", str(JOURNAL / "HISTORY.md"), READABLE, "allow - - -"),
    ("write_file", str(JOURNAL / "HISTORY.md"), READABLE, "deny deny - deny"),
    ("shell", f"echo x >> {JOURNAL}/HISTORY.md", READABLE, "deny deny - deny"),
    ("shell", f"rm {JOURNAL}/HISTORY.md", READABLE, "deny deny - deny"),
    *(
        ("shell", f"{command} {JOURNAL}{rest}", READABLE, "ask - - -")
        for command, rest in [
            ("cat", "/approval/x.json"),
            ("cat", "/HISTORY*.md/../approval/x.json"),
            ("grep -ri parser", ""),
            ("cat", "/../fedcba9876543210/HISTORY.md"),
            ("cat", "/*.md"),
        ]
    ),
]


@for_each(("tool", "argument", "more", "expected"), DECIDED)
def test_each_mode_decides_as_documented(tool, argument, more, expected):
    outcomes = [decided(mode, tool, argument, **more).outcome for mode in MODES]
    assert outcomes == [
        outcome if wanted == "-" else wanted
        for outcome, wanted in zip(outcomes, expected.split(), strict=True)
    ]


@for_each(
    ("command", "sandbox"),
    [
        (f"grep -i parser {JOURNAL}/HISTORY.md", "none"),
        (f"tail -20 {JOURNAL}/HISTORY-2026-03.md", "none"),
        (f"grep -i parser {JOURNAL}/HISTORY*.md", "plain"),
        (f"grep -i parser {JOURNAL}/HISTORY-2026-0?.md | head -3", "layered"),
    ],
)
@for_each("mode", ["ask", "plan"])
def test_the_log_of_the_journal_is_searched_unasked(mode, command, sandbox):
    decision = decided(mode, "shell", command, sandbox=sandbox, **READABLE)

    assert decision.outcome == "allow"
    assert decision.untrusted, "a session that read outside text may have written there"
    if sandbox == "none":
        assert decided(mode, "shell", command, protected=(KODE,)).outcome != "allow"


OFFERED = [
    ("shell", "pytest -q tests/a.py", ("shell(pytest:*)",)),
    ("shell", "npm run build && npm test", ("shell(npm run build:*)", "shell(npm test:*)")),
    ("shell", "mkdir -p a/b", ("shell(mkdir -p a/b)",)),
    ("shell", "curl https://x.example", ("shell(curl https://x.example)",)),
    ("shell", "python3 -m pytest -q tests", ("shell(python3 -m pytest:*)",)),
    ("shell", "node --test src", ("shell(node --test:*)",)),
    ("shell", "git commit -m x", ("shell(git commit:*)",)),
    ("shell", "git -C sub commit -m x", ("shell(git -C sub commit:*)",)),
    ("shell", "uv run pytest -q", ("shell(uv run pytest:*)",)),
    *(("shell", text, (f"shell({text})",)) for text in ("git", "python3 -c 1")),
    ("shell", "git reset --hard", ()),
    ("shell", "sudo ls", ()),
    ("shell", "cat .env", ()),
    ("shell", "mkdir x && rm -rf src", ()),
    *(("shell", text, ()) for text in ("$X", "pytest $X", "git push *", "git push ~/x")),
    ("mcp__git__log", None, ("mcp(git:log)",)),
    # A name that would be read as a pattern is about other files, too.
    ("edit_file", "**", ()),
    ("edit_file", "*/a.py", ()),
    ("edit_file", "/srv/?.py", ()),
    ("read_file", "/srv/**/a.py", ()),
    ("fetch_url", "https://*.org/page", ()),
]


@for_each(("tool", "argument", "rules"), OFFERED)
def test_offered_rules_answer_the_question_and_no_more(tool, argument, rules):
    decision = decided("ask", tool, argument)

    assert (decision.outcome, decision.consent.rules) == ("ask", rules)
    assert not rules or decided("ask", tool, argument, approved=rules).outcome == "allow"


@for_each(
    ("tool", "argument", "flag"),
    [
        ("shell", "curl x.test", "--allow 'shell(curl x.test)'"),
        ("shell", "mkdir x", "--allow 'shell(mkdir x)'"),
        ("shell", "; ".join(f"curl {n}.test" for n in range(9)), "--permission-mode full"),
        ("edit_file", "a", "--permission-mode auto-edit"),
    ],
)
def test_the_hint_names_a_flag_that_allows_it(tool, argument, flag):
    assert decided("ask", tool, argument).consent.flag == flag


@for_each(
    ("tool", "path", "more", "outcome"),
    [
        ("write_file", "link", {}, "ask"),
        *(("read_file", "link", {"allow": [rule]}, "ask") for rule in ("read(./**)", "read(link)")),
        *(
            ("read_file", "link", {"deny": [rule]}, "deny")
            for rule in ("read(./**)", "read(link)", "read(../outside)")
        ),
    ],
)
def test_links_fool_no_allow_rule_and_deny_rules_see_through(tmp_path, tool, path, more, outcome):
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    (tmp_path / "outside").write_text("of somebody else")
    if not (project / path).is_symlink():
        (project / path).symlink_to(tmp_path / "outside")
    decision = decided("auto-edit", tool, path, cwd=project, home=tmp_path / "home", **more)
    assert decision.outcome == outcome


@for_each(
    ("name", "text", "holds"),
    [
        ("a.pem", "# an authority\n" + "-----BEGIN CERTIFICATE-----\nMIIB\n" * 200, False),
        ("a.pem", "-----BEGIN CERTIFICATE-----\n-----BEGIN ENCRYPTED PRIVATE KEY-----", True),
        ("a.pem", "a key in a form of its own", True),
        (".npmrc", "registry=https://r.example/", False),
        (".npmrc", "PASSWORD: x", True),
    ],
)
def test_a_file_named_like_keys_holds_them_by_its_text(tmp_path, name, text, holds):
    (tmp_path / name).write_text(text)
    assert places.contains_keys(str(tmp_path / name)) is holds


@for_each(
    ("only", "tool", "argument", "expected"),
    [
        (("shell(git log:*)",), "shell", "git log -3", "any"),
        (("shell(git log:*)",), "shell", "git log | wc", "plan"),
        (("shell(git log:*)",), "read_file", "a.py", "refused"),
        (("shell(git log:*)",), "todo", {}, "any"),
        (("shell",), "shell", "make", "any"),
        (("read",), "shell", "git log", "refused"),
        (("edit(./src/**)",), "write_file", "src/a.py", "any"),
        (("edit(./src/**)",), "write_file", "a.py", "refused"),
        (("fetch(docs.python.org)",), "fetch_url", "https://docs.python.org/3/", "any"),
        (("fetch(docs.python.org)",), "fetch_url", "https://pypi.org/", "refused"),
        (("mcp(git)",), "mcp__git__log", {}, "any"),
        (("mcp(git:push)",), "mcp__git__log", {}, "refused"),
        ((), "read_file", "a.py", "refused"),
    ],
)
def test_limits_refuse_or_narrow_the_calls_they_do_not_name(
    tmp_path, only, tool, argument, expected
):
    action = call("ask", tool, argument).action
    advice = asyncio.run(limit_calls(only, workplace(tmp_path))(action))
    assert expected == (
        "any" if advice is None else "plan" if advice.run_in == "read_only" else "refused"
    )

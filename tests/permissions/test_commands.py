"""Which commands ask at once, which are tried in the sandbox, which run outside of it."""

from pathlib import Path
from typing import Any

import pytest

from kode.permissions.decide import Call, again_outside, decide_call
from kode.permissions.rules import Rules, parse_all
from kode.tool import Blocked
from kode.tools.shell import shell
from tests.tables import for_each
from tests.workplaces import make_call, workplace

PROJECT = Path("/home/me/project")


def call(command: str, mode: str = "ask", *, sandbox="layered", forced=False, **rules: Any) -> Call:
    return make_call(
        Rules(**{name: parse_all(texts) for name, texts in rules.items()}),
        mode,
        shell,
        {"command": command},
        workplace(PROJECT),
        sandbox=sandbox,
        sandbox_forced=forced,
    )


def where(command: str, mode: str = "ask", **settings: Any) -> str:
    """`sandbox`, `outside`, `ask` or `deny`."""
    decision = decide_call(call(command, mode, **settings))
    if decision.outcome != "allow":
        return decision.outcome
    return "sandbox" if decision.run_in != "host" else "outside"


TRIED = ["pytest -q", "./run.sh", "ls -la", "python3 x.py", "$X", "for f in *; do cat $f; done"]
CHANGES = ["mkdir x", "git commit -m x", "ruff format ."]
DELETES = ["rm -rf src", "git reset --hard", "git restore a.py", "find . -name '*.orig' -delete"]
ASKED = ["git push", "curl http://x.test", "rm -rf ~/x", "sudo ls", "cat .env", "cat /etc/passwd"]


@for_each("mode", ["plan", "ask", "auto-edit"])
@for_each("command", TRIED)
def test_a_command_nobody_asked_about_is_tried_in_the_sandbox(command, mode):
    assert where(command, mode) == "sandbox"


@for_each("command", [*CHANGES, *DELETES])
def test_changes_in_the_project_are_judged_by_their_effect(command):
    assert [where(command, mode) for mode in ("plan", "ask", "auto-edit")] == [
        "deny",
        "sandbox",
        "sandbox",
    ]


@for_each("command", [*CHANGES, *DELETES])
@for_each("sandbox", ["plain", "none"])
def test_names_decide_where_there_is_no_copy_to_write_in(command, sandbox):
    assert where(command, "ask", sandbox=sandbox) == "ask"
    assert where(command, "auto-edit", sandbox=sandbox) == "ask"
    assert where(command, "plan", sandbox=sandbox) == "deny"


STAYS = [
    "kill $!",
    "env",
    "ls /tmp",
    "pytest > /tmp/out; tail /tmp/out",
    "curl -s http://127.0.0.1:8000/x",
    "curl --retry 3 localhost:8000",
    "echo x > /dev/tcp/127.0.0.1/80",
    "python3 -m http.server & wget -qO- http://[::1]:8000/",
]


@for_each("command", STAYS)
@for_each("mode", ["plan", "ask", "auto-edit"])
def test_temporary_files_loopback_and_processes_are_the_sandboxs_own(command, mode):
    assert where(command, mode) == "sandbox"
    assert where(command, mode, sandbox="plain") != "outside"
    assert where(command, mode, sandbox="none") in ("ask", "deny")


@for_each(
    "command",
    [
        "curl http://x.test/127.0.0.1",
        "curl http://127.0.0.1.x.test",
        "curl http://localhost@x.test",
        "curl http://x.test http://localhost",
        "git push http://localhost/x",
        "docker ps",
        "git config --global user.name x",
    ],
)
def test_imitations_of_the_sandboxs_own_are_asked_about(command):
    assert where(command, "auto-edit") == "ask"


def test_a_refusal_names_only_the_part_that_leaves():
    decision = decide_call(call("for i in 1 2; do ./x.sh; break; done; wait $p; git push"))

    assert decision.consent.decisive.startswith("`git push`")
    assert "break" not in decision.consent.decisive


def test_a_refusal_names_the_outside_place_in_a_mixed_line():
    decision = decide_call(call("for f in $(ls -d /home/other/notes); do echo $f; done"))

    assert "outside the project" in decision.consent.decisive


@for_each("command", ASKED)
@for_each("mode", ["ask", "auto-edit"])
def test_sending_destroying_and_outside_paths_are_asked_at_once(command, mode):
    assert where(command, mode) == "ask"


@pytest.mark.parametrize("command", ["git push", "rm -rf src", "sudo ls", "cat .env"])
def test_mode_plan_refuses_with_the_reason(command):
    decision = decide_call(call(command, "plan"))
    assert decision.outcome == "deny"
    assert f"`{command}`" in decision.reason


@for_each(
    ("command", "expected"),
    [("ls -la | head -3", "outside"), ("ls src && wc -l a.py", "outside"), ("pytest", "ask")]
    + [(command, "ask") for command in ("ls $X", "ls > a", "echo `id`", "cat *", "A=1 ls", "ls &")],
)
def test_only_plain_reading_runs_unasked_outside_a_sandbox(command, expected):
    assert where(command, sandbox="none") == expected
    assert where(command, "plan", sandbox="none") == expected.replace("ask", "deny")


@for_each("mode", ["plan", "ask", "auto-edit"])
@for_each("command", ["echo x > a.txt", "pytest -q", "make", "ls $X"])
def test_an_unknown_sandbox_is_no_reason_to_offer_less(command, mode):
    decision = decide_call(call(command, mode, sandbox="unknown"))
    assert decision.outcome == "deny"
    assert (decision.consent.flag, decision.consent.rules) == ("", ())
    assert mode == "plan" or decision.by == "sandbox"


RULES = ["shell(git push:*)", "shell(pytest:*)"]
PUSH, CURL = {"allow": ["shell(git push:*)"]}, {"deny": ["shell(curl:*)"]}
UNKNOWN = {"sandbox": "unknown"}


@for_each(
    ("command", "settings", "expected"),
    [
        ("echo x > a.txt", {}, "sandbox"),
        ("echo x > a.txt", {"sandbox": "plain"}, "ask"),
        ("ls src && wc -l a.py", UNKNOWN, "outside"),
        ("make", UNKNOWN | {"allow": ["shell(make:*)"]}, "outside"),
        ("git push", UNKNOWN, "ask"),
        # Rules for every risky part free a line.
        ("git push origin main", {"allow": RULES}, "outside"),
        ("ls && pytest -q && git push", {"allow": RULES}, "outside"),
        ("git push", {"approved": RULES}, "outside"),
        # A rule does not cover what runs beside its command.
        ("./x.sh && git push", PUSH, "ask"),
        ("git push $(cat x)", PUSH, "ask"),
        ("git push; rm -rf src", PUSH, "ask"),
        ("pytest; rm -rf src", PUSH, "sandbox"),
        ("pytest -q; ./x.sh", {"allow": RULES}, "sandbox"),
        # A deny rule asks about what is not fully known.
        *(("$X http://x.test", CURL | {"mode": mode}, "ask") for mode in ("ask", "full")),
        ("c=curl; $c x", CURL | {"mode": "auto-edit"}, "ask"),
        *(("curl http://x.test", CURL | {"mode": mode}, "deny") for mode in ("ask", "full")),
        ("bash -c 'curl http://x.test'", CURL, "deny"),
        # Mode `full` runs commands outside, unless sandboxing is wanted.
        ("./x.sh", {"mode": "full"}, "outside"),
        ("./x.sh", {"mode": "full", "forced": True}, "sandbox"),
        ("./x.sh", {"mode": "full", "forced": True, "sandbox": "none"}, "deny"),
        ("rm -rf src", {"mode": "full"}, "ask"),
        ("cat .env", {"mode": "full"}, "ask"),
    ],
)
def test_rules_mode_and_sandbox_decide_where_a_line_runs(command, settings, expected):
    assert where(command, **settings) == expected


def test_a_question_names_risky_parts_and_irreversible_effects():
    decision = decide_call(call("git push && rm -rf src && ls && curl http://x.test"))

    assert "`git push`" in decision.reason
    assert "`curl http://x.test`" in decision.reason
    assert "`ls`" not in decision.reason
    assert any("rm -rf src" in danger for danger in decision.consent.dangers)


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("python3 -m pytest -q", "shell(python3 -m pytest:*)"),
        ("node --test a.js", "shell(node --test:*)"),
        ("git push origin main", "shell(git push:*)"),
    ],
)
def test_always_is_as_narrow_as_the_subcommand(command, rule):
    decision = again_outside(call(command), [Blocked("connection", "10.0.0.1:80")])
    assert decision.consent.rules == (rule,)


def test_a_command_that_talked_to_the_network_marks_the_session():
    assert "curl" in decide_call(call("curl http://x.test", "full")).untrusted
    assert decide_call(call("cat /etc/passwd", "full")).untrusted == "/etc/passwd"
    assert not decide_call(call("cat README.md")).untrusted
    assert again_outside(call("pytest"), [Blocked("lookup")]).untrusted
    assert not again_outside(call("pytest"), [Blocked("write", "/etc/x")]).untrusted


@for_each("mode", ["plan", "ask", "auto-edit", "full"])
@for_each(
    "command", ["kode memory add user x", "kode memory approve a1", "ls && kode init --force"]
)
def test_a_command_changes_neither_memory_nor_settings_of_kode(command, mode):
    assert where(command, mode, allow=["shell"]) == "deny"
    assert where("kode memory search x", mode) != "deny"

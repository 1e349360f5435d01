"""Which commands ask at once, which are tried in the sandbox, which run outside of it."""

import json
from pathlib import Path
from typing import Any

from tests.permissions.calls import decided
from tests.tables import for_each

DATA = Path(__file__).parent / "data" / "everyday.jsonl"
EVERYDAY: list[dict[str, Any]] = [json.loads(row) for row in DATA.read_text("utf-8").splitlines()]


def run(command: str, mode: str = "ask", sandbox: str = "layered", **more: Any) -> Any:
    return decided(mode, "shell", command, sandbox=sandbox, **more)


def place(command: str, mode: str = "ask", **more: Any) -> str:
    """`sandbox`, `read_only` (in the sandbox, and nothing is kept), `outside`, `ask` or `deny`."""
    decision = run(command, mode, **more)
    if not decision.is_allowed:
        return decision.outcome
    return "outside" if decision.run_in == "host" else decision.run_in


TRIED = ["pytest -q", "./run.sh", "ls -la", "python3 x.py", "$X", "for f in *; do cat $f; done"]
CHANGES = [
    "mkdir x", "git commit -m x", "ruff format .", "rm -rf src", "git reset --hard",
    "git restore a.py", "find . -name '*.orig' -delete",
]  # fmt: skip
STAYS = [
    "kill $!", "env", "ls /tmp", "pytest > /tmp/out; tail /tmp/out",
    "curl -s http://127.0.0.1:8000/x", "curl --retry 3 localhost:8000",
    "echo x > /dev/tcp/127.0.0.1/80", "python3 -m http.server & wget -qO- http://[::1]:8000/",
]  # fmt: skip
ASKED = [
    "git push", "curl http://x.test", "rm -rf ~/x", "sudo ls", "cat .env", "cat /etc/passwd",
    # Imitations of the sandbox's own network, and what is the machine's
    "curl http://x.test/127.0.0.1", "curl http://127.0.0.1.x.test", "curl http://localhost@x.test",
    "curl http://x.test http://localhost", "git push http://localhost/x", "docker ps",
    "git config --global user.name x",
]  # fmt: skip
READS = ["ls -la | head -3", "ls src && wc -l a.py"]
NOT_PLAIN = ["ls $X", "ls > a", "echo `id`", "cat *", "A=1 ls", "ls &", "pytest"]


@for_each(
    ("commands", "sandbox", "expected"),
    [
        (TRIED, "layered", "read_only sandbox sandbox"),
        (CHANGES, "layered", "deny sandbox sandbox"),
        (CHANGES, "plain", "deny ask ask"),
        (CHANGES, "none", "deny ask ask"),
        (STAYS, "layered", "read_only sandbox sandbox"),
        (STAYS, "plain", "inside inside inside"),
        (ASKED, "layered", "inside ask ask"),
        (READS, "none", "outside outside outside"),
        (NOT_PLAIN, "none", "deny ask ask"),
        (STAYS, "none", "deny ask ask"),
        (READS, "unknown", "outside outside outside"),
        (["echo x > a.txt", "pytest -q", "make", "ls $X"], "unknown", "deny deny deny"),
    ],
)
def test_modes_and_sandboxes_decide_where_a_command_runs(commands, sandbox, expected):
    for command in commands:
        for mode, wanted in zip(("plan", "ask", "auto-edit"), expected.split(), strict=True):
            outcome = place(command, mode, sandbox=sandbox)
            assert outcome == wanted or (wanted == "inside" and outcome != "outside"), command


def test_an_unknown_sandbox_is_no_reason_to_offer_more():
    decision = run("make", sandbox="unknown")
    assert (decision.by, decision.consent.flag, decision.consent.rules) == ("sandbox", "", ())


RULES = {"allow": ["shell(git push:*)", "shell(pytest:*)"]}
PUSH, CURL = {"allow": ["shell(git push:*)"]}, {"deny": ["shell(curl:*)"]}
FORCED = {"sandbox_forced": True}


@for_each(
    ("command", "more", "expected"),
    [
        ("echo x > a.txt", {}, "sandbox"),
        ("echo x > a.txt", {"sandbox": "plain"}, "ask"),
        ("make", {"sandbox": "unknown", "allow": ["shell(make:*)"]}, "outside"),
        ("git push", {"sandbox": "unknown"}, "ask"),
        # Rules for every risky part free a line.
        ("git push origin main", RULES, "outside"),
        ("ls && pytest -q && git push", RULES, "outside"),
        ("git push", {"approved": RULES["allow"]}, "outside"),
        # A rule does not cover what runs beside its command.
        ("./x.sh && git push", PUSH, "ask"),
        ("git push $(cat x)", PUSH, "ask"),
        ("git push; rm -rf src", PUSH, "ask"),
        ("pytest; rm -rf src", PUSH, "sandbox"),
        ("pytest -q; ./x.sh", RULES, "sandbox"),
        # A deny rule asks about what is not fully known.
        *(("$X http://x.test", CURL | {"mode": mode}, "ask") for mode in ("ask", "full")),
        ("c=curl; $c x", CURL | {"mode": "auto-edit"}, "ask"),
        *(("curl http://x.test", CURL | {"mode": mode}, "deny") for mode in ("ask", "full")),
        ("python x.py", {"ask": ["shell(python:*)"]}, "ask"),
        # Mode `full` runs commands outside, unless sandboxing is wanted.
        ("./x.sh", {"mode": "full"}, "outside"),
        ("./x.sh", {"mode": "full"} | FORCED, "sandbox"),
        ("./x.sh", {"mode": "full", "sandbox": "none"} | FORCED, "deny"),
        # Neither memory nor settings of kode are for a command.
        *(
            (command, {"mode": mode, "allow": ["shell"]}, "deny")
            for mode in ("plan", "ask", "auto-edit", "full")
            for command in ("kode memory add user x", "ls && kode init --force")
        ),
        ("kode memory search x", {}, "sandbox"),
    ],
)
def test_rules_mode_and_sandbox_decide_where_a_line_runs(command, more, expected):
    assert place(command, **more) == expected


@for_each("command", ["git push", "rm -rf src", "sudo ls", "cat .env"])
def test_mode_plan_refuses_with_the_reason(command):
    assert f"`{command}`" in run(command, "plan").reason


def test_a_question_names_risky_parts_and_irreversible_effects():
    decision = run("git push && rm -rf src && ls && curl http://x.test")

    assert "`git push`" in decision.reason
    assert "stays pushed" in decision.reason
    assert "`curl http://x.test`" in decision.reason
    assert "`ls`" not in decision.reason
    assert any("rm -rf src" in danger for danger in decision.consent.dangers)


@for_each(
    ("command", "decisive"),
    [
        ("for i in 1 2; do ./x.sh; break; done; wait $p; git push", "`git push`"),
        ("for f in $(ls -d /home/other/notes); do echo $f; done", "`ls -d /home/other/notes`"),
    ],
)
def test_a_refusal_names_only_the_part_that_leaves(command, decisive):
    assert run(command).consent.decisive.startswith(decisive)


@for_each(
    ("command", "more", "is_outside"),
    [
        ("curl http://x.test", {"mode": "full"}, True),
        ("cat /etc/passwd", {"mode": "full"}, True),
        ("cat README.md", {}, False),
        ("curl -s http://127.0.0.1:8000/page", {}, False),
        ("curl -s http://127.0.0.1:8000/page", {"sandbox_network": True}, True),
    ],
)
def test_outside_text_that_a_command_read_marks_the_session(command, more, is_outside):
    assert bool(run(command, **more).untrusted) is is_outside


# Everyday lines of development: in the sandbox nothing asks but what leaves it.


@for_each("row", EVERYDAY)
def test_an_everyday_line_is_asked_about_only_if_it_leaves(row):
    command, leaves = row["command"], row["leaves"]
    for mode in ("ask", "auto-edit"):
        decision = run(command, mode)
        parts = [part.leaves for part in decision.line.parts if part.leaves]
        assert parts[:1] == ([leaves] if leaves else [])
        assert decision.run_in == ("host" if leaves else "sandbox")
        assert decision.outcome == ("ask" if leaves else "allow")
        assert bool(decision.consent.decisive) is bool(decision.consent.instead) is bool(leaves)


def test_few_of_the_everyday_lines_are_asked_about():
    assert sum(bool(row["leaves"]) for row in EVERYDAY) / len(EVERYDAY) <= 0.15

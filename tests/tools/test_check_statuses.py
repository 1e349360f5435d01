"""bash tells how each check in a line ended, and the line is none the wiser."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from kode.permissions.shell.judge import ShellLine, judge_line
from kode.permissions.shell.parse import CheckPart
from kode.tool import ALLOWED, ToolContext, ToolOutput
from kode.tools import check_statuses
from kode.tools.shell import shell
from tests.workplaces import ground, workplace


@pytest.fixture
def traced(context: ToolContext, project: Path) -> ToolContext:
    """A project with the programs `pytest STATUS` and `mypy STATUS`."""
    programs = project / "bin"
    programs.mkdir()
    for name in ("pytest", "mypy"):
        program = programs / name
        program.write_text(f"#!/bin/bash\necho {name}; [[ $1 == [0-9] ]] && exit $1; exit 0\n")
        program.chmod(0o755)
    (project / "given.txt").write_text("0\n")
    environment = dict(context.place.environment)
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    home = context.place.home
    return replace(context, place=workplace(project, home=home, environment=environment))


def find_checks(line: str) -> tuple[CheckPart, ...]:
    return judge_line(line, ground(Path("/srv/project"), Path("/srv"))).checks


def judged(context: ToolContext, checks: tuple[CheckPart, ...]) -> ToolContext:
    line = ShellLine(parts=(), only_reads=False, known=True, checks=checks)
    return replace(context, decision=replace(ALLOWED, line=line))


async def run(context: ToolContext, line: str, *, watched: bool = True) -> ToolOutput:
    checks = find_checks(line) if watched else ()
    output = await shell.run(judged(context, checks), {"command": line})
    return output


STATUSES: list[tuple[str, dict[str, int | None]]] = [
    ("pytest 1", {"pytest 1": 1}),
    ("pytest 1 2>&1 | tail -3", {"pytest 1": 1}),
    ("pytest 2>&1 | tail -3", {"pytest": 0}),
    ("cd missing && pytest | tail -3", {"pytest": None}),
    ("pytest 1; echo done", {"pytest 1": 1}),
    ("pytest 1 || true", {"pytest 1": 1}),
    ("true || pytest 1", {"pytest 1": None}),
    ("mypy && pytest 2 | tail -1", {"mypy": 0, "pytest 2": 2}),
    ("mypy; pytest 1\necho done", {"mypy": 0, "pytest 1": 1}),
    ("pytest 1 |& tee log | tail -1; git diff --stat", {"pytest 1": 1}),
    ("echo a | pytest 4 | cat", {"pytest 4": 4}),
    ("{ pytest 1; mypy; } 2>&1 | tail", {"pytest 1": 1, "mypy": 0}),
    ('out=$(pytest 1 2>&1); echo "$out"', {"pytest 1": 1}),
    ("if ! pytest 1; then echo no; fi; echo on", {"pytest 1": 1}),
    ("while pytest 1; do :; done; echo on", {"pytest 1": 1}),
    ("! pytest 1; echo on", {"pytest 1": 1}),
    ("case $(pytest 1) in a) ;; esac; echo on", {"pytest 1": 1}),
    ("pytest 1 | cat; [[ a == b ]] || true", {"pytest 1": 1}),
    ("eval 'pytest 1 | cat'", {}),
    ("for i in 0 1 0; do pytest $i | tail -1; done", {"pytest $i": 1}),
    ("pytest 1 | while read -r one; do echo $one; done; true", {"pytest 1": 1}),
    ("t() { pytest 1 | cat; mypy; }; t; t", {"pytest 1": 1, "mypy": 0}),
    ("timeout 9 pytest 1 | cat", {"timeout 9 pytest 1": 1}),
    ("time pytest 1 | cat", {"pytest 1": 1}),
    ("set -e; pytest 1; echo never", {"pytest 1": 1}),
    ("pytest 1 | cat; exit 3", {"pytest 1": 1}),
    ("pytest 1 | cat; exec true", {"pytest 1": 1}),
    ("cat <<EOF | cat\npytest\nEOF\npytest 1 | cat", {"pytest 1": 1}),
    ("pytest 1; pytest 1 | cat", {"pytest 1": None}),
    # Here nothing tells, and a guess would be worse.
    ("pytest 1 &", {"pytest 1": None}),
    ("cd . && pytest 1 | cat & wait", {"pytest 1": None}),
    ("pytest 1; (exit 0); true", {"pytest 1": None}),
    ("exec pytest 1 >&2 | cat; kill -9 $$", {"exec pytest 1": 1}),
    ("true; exec pytest 1", {"exec pytest 1": None}),
    ("trap 'echo bye' EXIT; pytest 1 | cat", {"pytest 1": None}),
    ("(pytest 1)", {"pytest 1": None}),
    ("bash -c 'pytest 1 | cat'", {}),
    ("echo pytest", {}),
    ("pytest --version | cat", {}),
    ("if pytest; then", {"pytest": None}),
]


async def test_a_subshell_that_speaks_first_leaves_a_status_unknown(traced: ToolContext) -> None:
    ran = await run(traced, "pytest 1 && mypy; (exit 0) | cat; f() { :; }")

    # Which shell writes first is up to the machine: unknown is true, any other status is not.
    assert dict(ran.checks)["pytest 1"] in (1, None)
    assert dict(ran.checks)["mypy"] is None


async def test_the_model_learns_of_hidden_failures_and_only_those(traced: ToolContext) -> None:
    hidden = await run(traced, "pytest 2 | tail -3; mypy")
    shown = await run(traced, "mypy && pytest 2")
    passed = await run(traced, "pytest | tail -3")

    assert hidden.summary == "exit status 0; `pytest 2` 2"
    assert shown.summary == "exit status 2; `mypy` 0"
    assert passed.summary == "exit status 0"


async def test_a_check_outliving_the_time_limit_is_unknown(traced: ToolContext) -> None:
    line = "mypy 1; sleep 60; pytest | tail -1"
    watching = judged(traced, find_checks(line))

    output = await shell.run(watching, {"command": line, "timeout_s": 0.5})

    assert output.checks == (("mypy 1", 1), ("pytest", None))


async def test_the_persons_bash_env_runs_first_and_in_children(
    traced: ToolContext, tmp_path: Path
) -> None:
    own = tmp_path / "own.sh"
    own.write_text("greet() { echo hello; }\n")
    environment = {**traced.place.environment, "BASH_ENV": "$HOME/own.sh"}
    place = replace(traced.place, environment=environment)
    line = "greet; pytest 1 | cat; bash -c greet; echo $BASH_ENV"

    output = await run(replace(traced, place=place), line)

    assert output.text == "hello\npytest\nhello\n$HOME/own.sh"
    assert output.checks == (("pytest 1", 1),)


@pytest.mark.parametrize(
    ("before", "statuses"),
    [
        ("for i in {1..3000}; do :; done", [None]),
        ("head -c 3000 /dev/urandom >&251; printf 'a\\0b\\0.\\0end\\0' >&251", [None, 1]),
    ],
)
async def test_an_untraceable_line_breaks_nothing(
    traced: ToolContext, before: str, statuses: list[int | None]
) -> None:
    output = await run(traced, f"{before}; pytest 1 | cat")

    assert output.exit_status == 0
    assert dict(output.checks)["pytest 1"] in statuses


SAME = [
    "echo a b; echo $_; pytest | cat; echo $_ ${PIPESTATUS[@]}; false; echo $?",
    "set -x; pytest; (echo b); x=$(echo c); mypy",
    "set -e; ! pytest; if false; then :; fi; echo on; false; echo never",
    "f() { return 3; }; f | cat; f; echo $? ${PIPESTATUS[*]}; pytest",
    "pytest | cat; cat; read -r x; echo $?; readlink /proc/self/fd/0",
    "pytest | cat; bash -c 'pytest; echo $BASH_ENV $-'; env | grep -c BASH_ENV",
    "pytest | cat; nonsense; echo $LINENO\necho $LINENO $0 $#; nonsense",
    "pytest | cat; kill -TERM $$",
    "trap 'echo err' ERR; trap 'echo bye $?' EXIT; f() { false; }; f; pytest 1 | cat; trap",
    "pytest | cat; exec 3>&1; echo three >&3; exec >/dev/null; echo gone",
    "pytest | cat; printf() { echo mine; }; builtin() { echo mine; }; printf x",
    "shopt -s lastpipe; pytest 1 | read -r x; echo $x; mapfile -t lines < given.txt; echo $lines",
    "pytest | cat; echo ${x?gone}; echo never",
    "set -f; IFS=; pytest | cat; echo *; IFS=0; false | true; echo ${PIPESTATUS[@]}",
    "pytest | cat; coproc cat; exec {COPROC[1]}>&-; wait; echo $?",
    "set -o noclobber; pytest > new.txt; pytest > new.txt; echo $?; rm -f new.txt",
    "pytest | cat; cat <<EOF; cat <<<x\n$(echo in) EOF\nEOF\n",
    "pytest | cat; . /dev/null; eval 'false | true; echo ${PIPESTATUS[@]}'; ((1 > 2)) || [[ a ]]",
    "pytest | cat; export A=1; declare -r B=2; local x; unset A; echo ${A-none} $B",
    "pytest | cat; unset -f __kode; unset __kode_left; set +T; true",
]


@pytest.mark.parametrize(("line", "statuses"), [*STATUSES, *((line, {}) for line in SAME)])
async def test_a_watched_line_ends_the_same_with_its_statuses(
    traced: ToolContext, line: str, statuses: dict[str, int | None]
) -> None:
    watched = await run(traced, line)

    assert line in SAME or dict(watched.checks) == statuses
    if "kill -9" not in line and line[-1] != "&":  # what is killed, or goes on, prints at will
        plain = await run(traced, line, watched=False)
        assert watched.exit_status == plain.exit_status
        assert _printed(watched) == _printed(plain)


def _printed(output: ToolOutput) -> str:
    """Without how it ended, process ids and times."""
    return re.sub(r"\b\d{3,}\b|\dm[\d.]+s", "N", output.text)


@pytest.mark.parametrize("status", ["²", "9" * 5_000, "-1", "x"])
def test_a_number_forged_among_the_events_is_not_believed(status: str) -> None:
    checks = find_checks("pytest | tail -3")
    channel, _ = check_statuses.begin_reporting(checks, {})
    for command in ("cpytest", "ctail -3", "cend"):
        os.write(channel, "\0".join(("1", "1", command, status, "0", ".", "")).encode())
    os.write(channel, b"1\x001\x00ctrue\x000\x00.\x00" * check_statuses.MAX_EVENTS)

    events = check_statuses.read_events(channel)

    assert [event.command for event in events[:3]] == ["pytest", "tail -3", "end"]
    assert len(events) == check_statuses.MAX_EVENTS
    assert check_statuses.find_statuses(checks, events, 0) == (("pytest", None),)

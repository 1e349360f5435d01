"""What a command can and cannot do in each kind of sandbox that this machine has."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kode.errors import SandboxUnknownError
from kode.permissions.shell import CheckPart, Line
from kode.sandbox import limits, reach, trial
from kode.sandbox.sandbox import Sandbox
from kode.tool import ALLOWED, ToolContext
from tests.needs import lacking, lacking_sandbox, needs
from tests.sandbox.conftest import in_shell, kinds_of, need
from tests.sandbox.sandboxed import (
    KINDS,
    SOURCES,
    Kind,
    Run,
    attempted_in,
    begun,
    end_of_all,
    fault,
    opened,
    ran,
    running,
)


@pytest.fixture
def any_kind(made: Sandbox) -> Sandbox:
    if made.support().kind == "none":
        lacking("a sandbox", made.support().why)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_memory_shows_its_log_alone_and_moved_parts_are_hidden(
    home: Path, work: Path, place: Path, kind: Kind
) -> None:
    journal, moved = home / ".kode" / "memory" / "journal" / "0123456789abcdef", place / "moved"
    log, waits, facts = (
        journal / "HISTORY-03.md",
        journal / "approval" / "x.json",
        moved / "user.md",
    )
    for path, text in ((log, "moved the parser"), (waits, "waits"), (facts, "likes tabs")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    made = opened(home, work, elsewhere=(moved,), readable=(journal / "HISTORY*.md",))
    if why := fault(opened(home, work), kind):
        lacking_sandbox(kind, why)

    done = attempted_in(made, kind, f"cat '{journal}'/HISTORY*.md '{waits}' '{facts}'", apply=True)
    attempted_in(made, kind, f"echo x >> '{log}'; echo x >> '{facts}'", apply=True)

    assert fault(made, kind) == "", "what may be read must not spoil the self-test"
    assert done.out == "moved the parser"
    assert (log.read_text(), facts.read_text()) == ("moved the parser", "likes tabs")


def test_a_missing_bubblewrap_comes_with_the_gaps(
    made: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(made, "landlock")
    monkeypatch.setattr("kode.sandbox.reach.SYSTEM_PATH", "/nowhere")
    found = made.support()
    assert (found.kind, made.kind()) == ("landlock", "plain")
    assert "not installed" in found.why


@pytest.mark.parametrize("version", [0, 1, 5])
def test_an_old_landlock_is_no_sandbox(
    made: Sandbox, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr("kode.sandbox.reach.SYSTEM_PATH", "/nowhere")
    monkeypatch.setattr("kode.sandbox.launcher.landlock_version", lambda: version)
    support = made.support()
    assert (support.kind, made.kind()) == ("none", "none")
    assert "Install bubblewrap" in support.why
    assert made.unavailable_reason()


def test_a_self_test_that_finds_a_leak_fails_the_sandbox(
    made: Sandbox, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(made, "plain")
    real = reach.to_bubblewrap

    def leaky(*given: Any, **named: Any) -> list[str]:
        return [*real(*given, **named), "--ro-bind", str(home / ".ssh"), str(home / ".ssh")]

    monkeypatch.setattr(reach, "to_bubblewrap", leaky)
    assert "reads" in fault(made, "plain")


def test_simultaneous_askers_share_one_self_test(
    made: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, go_on = [], threading.Event()

    def find(made: Sandbox, kind: Kind) -> str:
        tried.append(kind)
        go_on.wait(20)
        return ""

    monkeypatch.setattr(trial, "find_fault", find)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(made.support) for _ in range(2)]
        while not tried:
            time.sleep(0.001)
        time.sleep(0.05)  # in which the other would begin its own
        go_on.set()

        assert asked[0].result() is asked[1].result()
    assert tried == ["layered"]


@pytest.mark.parametrize("late", [False, True])
def test_a_self_test_out_of_time_is_no_answer(
    made: Sandbox, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    tried, hangs = [], True

    def find_faults(made: Sandbox, kind: Kind, trials: Any) -> dict[str, None]:
        tried.append(kind)
        if hangs and not (late and kind == "layered"):
            raise subprocess.TimeoutExpired(["bwrap"], trial.TIMEOUT_S)
        return {"leaks": None} if hangs else {}

    monkeypatch.setattr("kode.sandbox.sandbox.find_program", lambda name: name)
    monkeypatch.setattr(trial, "find_faults", find_faults)
    with pytest.raises(SandboxUnknownError, match=f"took over {trial.TIMEOUT_S:g} s"):
        made.support()
    tries = len(tried)
    assert (made.kind(), made.private_tmp()) == ("unknown", None)
    assert len(tried) == tries, "what is not known must not be tried where somebody waits"

    hangs = False
    assert made.support().kind == "layered"
    assert made.kind() == "layered"


def test_the_launcher_refuses_rather_than_run_unlimited(
    made: Sandbox, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = kinds_of(made)
    monkeypatch.setattr(limits, "seccomp_filter", lambda machine, **more: b"not a program..")
    for kind in kinds:
        done = attempted_in(made, kind, "touch made; echo ran")
        assert (done.code, done.out) == (126, ""), done.err
        assert "could not be entered" in done.err


def test_a_missing_program_is_named_and_the_sandbox_not_blamed(made: Sandbox, work: Path) -> None:
    for kind in kinds_of(made):
        attempt = begun(made, kind)
        done = ran(attempt.wrap(("no-such-program",)), work)
        attempt.close()
        assert done.code == 126
        assert done.err == "kode: no-such-program could not be started: No such file or directory\n"


def test_a_user_without_an_entry_has_a_sandbox_too(
    home: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(uid: int) -> object:
        raise KeyError(uid)

    monkeypatch.setattr(reach.pwd, "getpwuid", unknown)
    assert reach.own_homes() == (home,)


@pytest.mark.parametrize("where", ["a home inside", "a mount inside"])
def test_paths_a_copy_would_hide_are_not_copied(home: Path, where: str) -> None:
    folder = home if where == "a home inside" else Path("/dev")
    made = opened(home, folder)
    assert fault(made, "layered")
    assert made.kind() != "layered"


def test_the_temporary_folder_is_writable_and_lasts_for_the_session(made: Sandbox) -> None:
    for kind in kinds_of(made):
        assert attempted_in(made, kind, 'cd "$TMPDIR"; echo y > t; cat t').out == "y\n"
        assert attempted_in(made, kind, 'cd "$TMPDIR"; cat t; stat -c %a .').out == "y\n700\n"


def test_variables_naming_unreachable_places_are_left_out(made: Sandbox) -> None:
    for kind in kinds_of(made):
        attempt = begun(made, kind)
        given = {"SSH_AUTH_SOCK": "/tmp/agent", "DISPLAY": ":0", "KEPT": "1", "TMPDIR": "/nowhere"}
        done = ran(attempt.wrap(("/usr/bin/env",)), made.place.cwd, given)
        attempt.close()
        assert "KEPT=1" in done.out
        assert "/nowhere" not in done.out
        assert done.out.count("TMPDIR=") == 1
        assert "SSH_AUTH_SOCK" not in done.out
        assert "DISPLAY" not in done.out


@needs("git")
def test_git_works_and_its_settings_are_seen(run: Run) -> None:
    (run.work / "f").write_text("x")
    done = run("git status --porcelain; git config user.name; git log 2>&1 | head -1")
    assert done.out.startswith("?? f\nMe\n"), done.err


def test_programs_that_a_person_has_on_their_path_are_seen(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "bin").mkdir()
    program = home / "bin" / "mine"
    program.write_text("#!/bin/sh\necho mine\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}/bin:{home}:{os.environ['PATH']}")
    assert run("mine").out == "mine\n"
    assert "PRIVATE" not in run("cat ~/.ssh/id_rsa").out


def test_links_a_command_made_lead_no_later_one_out(run_layered: Run, home: Path) -> None:
    run_layered(f"ln -s {home}/.ssh d; ln -s {home}/.ssh/id_rsa f", apply=True)
    (run_layered.work / "planted").symlink_to(home / ".ssh")
    done = run_layered("cat d/id_rsa f planted/id_rsa; echo over >> f; echo x > planted/y")
    assert "PRIVATE" not in done.out
    assert os.listdir(home / ".ssh") == ["id_rsa"]


def test_a_work_folder_turned_into_a_link_is_not_used(home: Path, place: Path) -> None:
    (place / "other").mkdir()
    made = opened(home, place / "other")
    kinds = kinds_of(made)
    (place / "other").rename(place / "gone")
    (place / "other").symlink_to(home / ".ssh")
    for kind in kinds:
        attempt = begun(made, kind)
        try:
            wrapped = attempt.wrap(("/bin/bash", "-c", f"cat {place}/other/*; echo x > planted"))
            assert "PRIVATE" not in ran(wrapped, Path("/")).out
        finally:
            attempt.close()
        assert os.listdir(home / ".ssh") == ["id_rsa"]


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("machine", HEADERS)
def test_system_calls_have_the_numbers_of_the_kernels_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        lacking("linux-libc-dev", "apt install linux-libc-dev")
    defined = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text())
    known = {name: int(number) for name, number in defined}

    ours = limits._numbers(machine)

    assert len(ours.keys() & known.keys()) > 60
    assert {name: ours[name] for name in ours.keys() & known.keys()} == {
        name: known[name] for name in ours.keys() & known.keys()
    }


async def test_the_shell_tool_runs_in_it(context: ToolContext, any_kind: Sandbox) -> None:
    command = "pwd; cat ~/.ssh/id_rsa; touch ~/x; exit 3"
    output = await in_shell(context, any_kind, command)
    assert str(any_kind.place.cwd) in output.text
    assert "PRIVATE" not in output.text
    assert output.summary == "exit status 3"
    assert not (any_kind.place.cwd.parent / "x").exists()


async def test_bash_tells_how_a_check_ended_in_it_too(
    context: ToolContext, any_kind: Sandbox
) -> None:
    (any_kind.place.cwd / "pytest.sh").write_text("exit 3")
    line = "true; sh pytest.sh | cat; cat"
    checks = (CheckPart(command="sh pytest.sh", of=2, behind=1),)
    judged = replace(ALLOWED, line=Line(parts=(), only_reads=False, known=True, checks=checks))
    output = await in_shell(replace(context, decision=judged), any_kind, line)
    assert output.checks == (("sh pytest.sh", 3),)
    assert "exit status 0; `sh pytest.sh` 3" in output.summary


@pytest.mark.parametrize("start", ["", "env -i ", "setsid ", "env -i setsid "])
async def test_all_that_a_command_started_in_it_ends_with_it(
    context: ToolContext, any_kind: Sandbox, start: str
) -> None:
    mark = f"{40_000 + os.getpid()}.25"
    output = await in_shell(context, any_kind, f"({start}sleep {mark} &) ; sleep 30", timeout_s=0.5)
    assert "timed out" in output.summary
    assert end_of_all(f"sleep {mark}")


@pytest.mark.parametrize("kind", KINDS)
async def test_processes_that_left_their_session_end_with_the_command(
    context: ToolContext, made: Sandbox, kind: Kind
) -> None:
    need(made, kind)
    mark = f"{60_000 + os.getpid()}.75"
    hides = f'trap "" TERM; : > "$0/begun"; sleep {mark}; :'
    start = f"setsid -f env -i sh -c '{hides}' \"$TMPDIR\" > /dev/null 2>&1"
    begins = 'until [ -e "$TMPDIR/begun" ]; do sleep 0.01; done'
    output = await in_shell(context, made, f"{start}; {begins}; exit 4", kind)
    assert output.summary == "exit status 4"
    assert end_of_all(f"sleep {mark}")


async def test_the_sandbox_itself_is_not_reported_as_left_running(
    context: ToolContext, any_kind: Sandbox
) -> None:
    for _ in range(8):
        output = await in_shell(context, any_kind, "true")
        assert (output.text, output.notes) == ("(no output)", ("[exit status 0]",))


def test_killing_kode_ends_its_command_and_applies_nothing(
    made: Sandbox, home: Path, work: Path
) -> None:
    need(made, "layered")
    mark = f"{50_000 + os.getpid()}.5"
    code = (
        "from pathlib import Path; from tests.sandbox.sandboxed import *\n"
        f"attempted_in(opened(Path({str(home)!r}), Path({str(work)!r})), 'layered', "
        f"'echo x > made; echo started >&2; sleep {mark}', apply=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=SOURCES, start_new_session=True)
    while f"sleep {mark}" not in running():
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert end_of_all(f"sleep {mark}")
    assert os.listdir(work) == [".git"]

"""What a command can and cannot do in each kind of sandbox that this machine has."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from kode.cli.commands import doctor
from kode.errors import SandboxUnknownError
from kode.sandbox import kernel, reach, trial
from kode.sandbox.sandbox import Attempt, Sandbox, open_store, remove_abandoned
from kode.tool import ToolContext
from tests.needs import lacking, needs, skip_without
from tests.sandbox.conftest import in_shell
from tests.sandbox.sandboxed import SOURCES, Run, end_of_all, opened, put, running

# ── which kind there is ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", [0, 1, 5])
def test_an_old_landlock_alone_is_no_sandbox(
    made: Sandbox, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(reach, "SYSTEM_PATH", "/nowhere")
    monkeypatch.setattr("kode.sandbox.launcher.landlock_version", lambda: version)
    support = made.support()
    assert (support.kind, made.kind()) == ("none", "none")
    assert "Install bubblewrap" in support.why


def test_a_self_test_out_of_time_is_no_answer(
    made: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_faults = Mock(side_effect=subprocess.TimeoutExpired(["bwrap"], trial.TIMEOUT_S))
    monkeypatch.setattr("kode.sandbox.reach.find_program", lambda name: name)
    monkeypatch.setattr(trial, "find_faults", find_faults)
    with pytest.raises(SandboxUnknownError, match=f"took over {trial.TIMEOUT_S:g} s"):
        made.support()
    assert (made.kind(), made.private_tmp()) == ("unknown", None)
    assert find_faults.call_count == 1, "it must not be tried again where somebody waits"

    monkeypatch.setattr(trial, "find_faults", Mock(return_value={}))
    assert made.support().kind == made.kind() == "layered"
    monkeypatch.setattr(trial, "find_faults", Mock(side_effect=OSError("Too many open files")))
    assert "nstall bubblewrap" not in trial.find_support(made).why


@pytest.mark.parametrize("where", ["a home inside", "a mount inside"])
def test_paths_a_copy_would_hide_are_not_copied(home: Path, where: str) -> None:
    made = opened(home, home if where == "a home inside" else Path("/dev"))
    assert trial.find_fault(made, "layered")
    assert made.kind() != "layered"


def test_the_launcher_refuses_rather_than_run_unlimited(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "seccomp_filter", lambda machine, **more: b"not a program..")
    done = run("touch made; echo ran")
    assert (done.code, done.out) == (126, ""), done.err
    assert "not be entered" in done.err


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("machine", HEADERS)
def test_system_calls_have_the_numbers_of_the_kernels_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        lacking("linux-libc-dev", "apt install linux-libc-dev")
    defined = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text())
    known = {(name, int(number)) for name, number in defined}
    names = {name for name, _ in known}
    ours = {(name, number) for name, number in kernel._numbers(machine).items() if name in names}
    assert len(ours) > 60
    assert ours <= known


def test_memory_shows_its_log_alone_and_moved_parts_are_hidden(run: Run, place: Path) -> None:
    journal = run.home / ".kode" / "memory" / "journal" / "0123456789abcdef"
    log, waits = journal / "HISTORY-03.md", journal / "approval" / "x.json"
    facts = place / "moved" / "user.md"
    texts = {log: "moved the parser", waits: "waits", facts: "likes tabs"}
    put(place, {str(path): text for path, text in texts.items()})
    run = run.again(
        protected=(run.home / ".kode", facts.parent), readable=(journal / "HISTORY*.md",)
    )

    done = run(f"cat '{journal}'/HISTORY*.md '{waits}' '{facts}'", apply=True)
    run(f"echo x >> '{log}'; echo x >> '{facts}'", apply=True)

    assert trial.find_fault(run.made, run.kind) == "", "what may be read must pass the self-test"
    assert done.out == "moved the parser"
    assert {path: path.read_text() for path in texts} == texts


def test_a_missing_program_is_named_and_the_sandbox_not_blamed(run: Run) -> None:
    done = run(("no-such-program",))
    assert done.code == 126
    assert done.err == "kode: no-such-program could not be started: No such file or directory\n"


def test_a_place_that_others_could_write_in_is_no_store(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = [place / name for name in ("open", "link", "own")]
    monkeypatch.setattr("kode.sandbox.sandbox.store_places", lambda home: stores)
    stores[0].mkdir()
    stores[0].chmod(0o777)
    stores[1].symlink_to(place)
    store = open_store(place)
    assert store.folder.parent == stores.pop()
    store.close()
    with pytest.raises(OSError, match="for you alone"):
        open_store(place)


def test_variables_name_what_can_be_reached_and_one_tmp_lasts(run: Run) -> None:
    variables = {"SSH_AUTH_SOCK": "/tmp/agent", "DISPLAY": ":0", "KEPT": "1", "TMPDIR": "/nowhere"}
    show = 'echo "$SSH_AUTH_SOCK$DISPLAY$KEPT"; cd "$TMPDIR" && : > x && stat -c %a .'
    with run.attempt(show, variables) as (_, done):
        assert done.out == "1\n700\n"
    assert run('cd "$TMPDIR"; ls').out == "x\n"


def test_no_command_runs_in_a_folder_turned_into_a_link(run: Run, place: Path) -> None:
    keys, other = run.home / ".ssh", place / "other"
    other.mkdir()
    made = run.again(work=other).made
    made.begin(kind=run.kind).close()
    other.rename(place / "gone")
    other.symlink_to(keys)
    attempt = made.begin(kind=run.kind)
    with contextlib.closing(attempt), pytest.raises(OSError, match="become a link"):
        attempt.wrap(("/bin/bash", "-c", f"cat {other}/*; echo x > planted"))
    assert os.listdir(keys) == ["id_rsa"]


@pytest.mark.parametrize(("end", "summary"), [("exit 4", "status 4"), ("sleep 60", "timed out")])
async def test_all_that_a_command_started_ends_with_it(
    context: ToolContext, run: Run, end: str, summary: str
) -> None:
    mark = f"{40_000 + os.getpid()}.25"
    hides = f'trap "" TERM; : > "$0/begun"; sleep {mark}; :'
    starts = "; ".join(f"({how} sleep {mark} &)" for how in ("", "env -i", "setsid"))
    starts += f"; setsid -f env -i sh -c '{hides}' \"$TMPDIR\" > /dev/null 2>&1"
    begins = 'until [ -e "$TMPDIR/begun" ]; do sleep 0.01; done'
    output = await in_shell(context, run, f"{starts}; {begins}; {end}", timeout_s=2)
    assert summary in output.summary
    assert end_of_all(f"sleep {mark}")


async def test_the_sandbox_itself_is_not_reported_as_left_running(
    context: ToolContext, run: Run
) -> None:
    for _ in range(3):
        output = await in_shell(context, run, "true")
        assert (output.text, output.notes) == ("(no output)", ("[exit status 0]",))


def test_killing_kode_ends_its_command_and_applies_nothing(layered: Run) -> None:
    store = layered.made.store()
    assert store is not None
    mark = f"{50_000 + os.getpid()}.5"
    code = (
        "from pathlib import Path; from tests.sandbox.sandboxed import *\n"
        f"made = opened(Path({str(layered.home)!r}), Path({str(layered.work)!r}))\n"
        f"Run('layered', made)('mkdir -m 0 d; echo x > made; sle' 'ep {mark}', apply=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=SOURCES, start_new_session=True)
    while f"sleep {mark}" not in running():
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert end_of_all(f"sleep {mark}")
    assert os.listdir(layered.work) == [".git"]
    # The next kode removes the copy that was left behind, and no copy that is in use.
    assert len(list(store.parent.iterdir())) > 1
    remove_abandoned(layered.home / ".kode")
    assert [*store.parent.iterdir()] == [store]


# ── `kode doctor --sandbox` ─────────────────────────────────────────────────────────────────────


def proved(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the findings by name."""
    code = doctor.main(["--sandbox", "--json"])
    return code, {finding["what"]: finding for finding in json.loads(capsys.readouterr().out)}


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_a_sandbox_passes_every_check_of_its_kind(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "bubblewrap":
        skip_without("bwrap")
    else:
        monkeypatch.setattr("kode.sandbox.reach.SYSTEM_PATH", "/nowhere")
    code, found = proved(capsys)
    if kind == "landlock" and found["sandbox"]["state"] == "missing":
        pytest.skip(found["sandbox"]["detail"])
    assert {finding["state"] for finding in found.values()} == {"ok"}
    assert ("git" in found) is (kind == "bubblewrap")
    assert code == 0


@needs("bwrap")
def test_a_sandbox_that_limits_nothing_fails_with_each_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Attempt, "_launcher_arguments", lambda attempt: ())
    code, found = proved(capsys)
    assert (code, list(found)) == (1, ["sandbox"])
    for fault in ("/kode/config.json", "writes git's", "sees other", "unix sockets", "a network"):
        assert fault in found["sandbox"]["detail"]
    assert "bubblewrap" in found["sandbox"]["detail"]  # the next step

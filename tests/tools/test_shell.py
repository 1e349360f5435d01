import asyncio
import dataclasses
import os
import re
import stat
import tracemalloc
from pathlib import Path

import pytest

from kode.errors import ToolError
from kode.events import Event, ToolOutput
from kode.tool import ToolContext, ToolOutput as Output
from kode.tools import processes
from kode.tools.output import MAX_CHARS
from kode.tools.shell import shell
from tests.needs import needs
from tests.tools.conftest import Call, lives, until


def _pids(folder: Path) -> list[int]:
    return [int(path.read_text()) for path in sorted(folder.glob("pid*"))]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("echo one; echo two >&2; echo three; exit 3", "one\ntwo\nthree\n[exit status 3]"),
        ("true", "(no output)\n[exit status 0]"),
        ("kill -9 $$", "(no output)\n[killed by SIGKILL]"),
        ("exit 139", "(no output)\n[exit status 139, as of SIGSEGV]"),
        ("cat; (: < /dev/tty) 2>/dev/null || echo none", "none\n[exit status 0]"),
    ],
)
async def test_output_comes_in_order_with_how_it_ended(
    call: Call, command: str, shown: str
) -> None:
    output = await call(shell, command=command, timeout_s=-1)  # counts as left out

    assert output.for_model == shown
    assert shown.endswith(f"[{output.summary}]")


async def test_the_environment_is_the_contexts_plus_quiet_settings(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")

    output = await call(shell, command="env -u _ | cut -d= -f1 | sort")

    assert set(output.text.split("\n")) == {
        "PATH", "HOME", "PWD", "SHLVL", "PAGER", "GIT_PAGER", "MANPAGER", "GIT_TERMINAL_PROMPT",
        "TERM", "NO_COLOR", "KODE_SHELL_ID",
    }  # fmt: skip


async def test_a_command_runs_in_the_working_directory_while_there(
    call: Call, project: Path
) -> None:
    assert (await call(shell, command="pwd")).text.split("\n")[0] == str(project)
    project.rmdir()

    with pytest.raises(ToolError, match="is gone"):
        await call(shell, command="pwd")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"command": " "}, "empty"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "x" * 3_000_000}, r"could not be started.*write it to a file"),
    ],
    ids=["blank", "NUL", "long"],
)
async def test_a_command_that_cannot_run_is_an_error(
    call: Call, arguments: dict[str, object], reason: str
) -> None:
    with pytest.raises(ToolError, match=reason):
        await call(shell, **arguments)


async def test_escapes_progress_and_broken_bytes_are_cleaned(
    call: Call, events: list[Event]
) -> None:
    output = await call(
        shell,
        command=r"printf '\033[1;31mred\033[0m\n10%%\r50%%\r100%%\r\ncrlf\r\nbold b\bb\b"
        r"\n\033]0;title\007x\n\377\000y\n'",
    )

    assert output.text == "red\n100%\ncrlf\nbold \nx\n\ufffdy"
    assert "\x1b" not in "".join(e.text for e in events if isinstance(e, ToolOutput))


async def test_a_long_output_keeps_both_ends_and_a_file(call: Call, context: ToolContext) -> None:
    key, outputs = "sk-ant-" + "a1B2" * 10, context.place.outputs

    output = await call(shell, command=f"echo {key}; seq 1 100000")

    assert output.text.endswith("99999\n100000")
    assert len(output.text) < 16_000
    [whole] = outputs.iterdir()
    assert f"is in {whole}: read" in output.text
    first, *lines = whole.read_text().split("\n")
    assert key not in first
    assert lines == [*map(str, range(1, 100_001)), ""]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (whole, outputs)] == [0o600, 0o700]

    whole.unlink()
    outputs.rmdir()
    outputs.write_text("in the way")
    output = await call(shell, command="seq 1 20000")
    assert "be kept whole" in output.text
    assert output.exit_status == 0


async def test_lines_like_errors_survive_in_long_output(call: Call) -> None:
    output = await call(
        shell,
        command="seq 1 100000; echo 'src/a.py:3: error: no such name'; echo cc -Wno-error a.c; "
        "seq 1 100000; "
        'for i in $(seq 400); do echo "E   assert $i"; done; seq 1 100000',
    )

    assert "\nsrc/a.py:3: error: no such name\n" in output.text
    assert "\nE   assert 1\n" in output.text
    assert "\nE   assert 400\n" in output.text
    assert "-Wno-error" not in output.text
    assert len(output.text) < MAX_CHARS

    output = await call(shell, command=f"printf '%0{MAX_CHARS}d' 0")
    assert output.text == "0" * MAX_CHARS


async def test_output_shrinks_to_the_room_that_the_result_has(context: ToolContext) -> None:
    stopped: list[Output] = []
    narrow = dataclasses.replace(context, room=2_000, keep_output=stopped.append)
    output = await shell.run(narrow, {"command": "seq 5000; echo an error; seq 5000"})

    assert len(output.text) < 2_300
    assert "an error" in output.text
    (kept,) = context.place.outputs.iterdir()
    assert str(kept) in output.text
    assert stopped == []  # it ended by itself


@pytest.mark.slow
async def test_one_line_of_ten_megabytes_is_cut_in_bounded_memory(call: Call) -> None:
    tracemalloc.start()
    try:
        output = await call(shell, command="head -c 10000000 /dev/zero | tr '\\0' x")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert "of 10,000,000 characters" in output.text
    assert peak < 5_000_000


@pytest.mark.parametrize(
    "start",
    [
        "sleep 300 & echo $! > pid1",
        "nohup sleep 300 >/dev/null 2>&1 & echo $! > pid1",
        "setsid sh -c 'echo $$ > pid1; exec sleep 300' &",
        "(setsid sh -c 'echo $$ > pid1; exec sleep 300' >/dev/null 2>&1 &)",
        "(trap '' TERM; sleep 300; sleep 300) & echo $! > pid1",
    ],
)
@pytest.mark.slow
async def test_a_background_process_neither_holds_up_nor_outlives_the_command(
    call: Call, project: Path, start: str
) -> None:
    output = await call(
        shell, command=f"{start}\nuntil [ -s pid1 ]; do sleep 0.01; done; echo started"
    )

    assert (output.text, output.exit_status, len(output.notes)) == ("started", 0, 2)
    assert not any(map(lives, _pids(project)))


@pytest.mark.slow
async def test_the_time_limit_ends_the_tree_and_keeps_output(call: Call, project: Path) -> None:
    output = await call(
        shell,
        command="echo $$ > pid1; (setsid sh -c 'echo $$ > pid2; trap \"\" TERM; sleep 300' &)\n"
        "trap 'echo bye; exit 0' TERM\n"
        "sh -c 'echo $$ > pid3; sleep 300' & echo before; sleep 300 & wait",
        timeout_s=2,
    )

    assert (output.text, output.exit_status) == ("before\nbye", -1)
    assert len(_pids(project)) == 3
    assert not any(map(lives, _pids(project)))


@pytest.mark.parametrize(
    ("command", "count", "times"),
    [
        ("echo $$ > pid1; setsid sh -c 'echo $$ > pid2; exec sleep 300' & sleep 300", 2, 1),
        ("trap '' TERM; echo $$ > pid1; while :; do sleep 300; done", 1, 2),
    ],
    ids=["once", "twice, which kills"],
)
async def test_cancellation_ends_the_whole_tree(
    call: Call, project: Path, command: str, count: int, times: int
) -> None:
    task = asyncio.ensure_future(call(shell, command=command))
    await until(lambda: sum(bool(path.read_text()) for path in project.glob("pid*")) == count)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0.05)

    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(map(lives, _pids(project)))


async def test_a_command_inside_another_s_is_found_by_both_marks(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(processes.MARK, "outer")

    output = await call(shell, command=f"echo ${processes.MARK}")

    assert re.match(r"outer:[0-9a-f]{24}", output.text)


async def test_no_descriptor_is_left_open(call: Call) -> None:
    await call(shell, command="true")
    folder = Path("/proc/self/fd" if Path("/proc/self/fd").exists() else "/dev/fd")
    before = len(list(folder.iterdir()))

    for _ in range(5):
        await call(shell, command="sleep 300 & true")

    assert len(list(folder.iterdir())) == before


@needs("ps")
@pytest.mark.slow
async def test_processes_are_found_without_proc(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_read_proc", lambda since: processes._ask_ps())

    output = await call(
        shell, command="sleep 300 & echo $! > pid1; setsid sleep 300 & echo $! > pid2; sleep 300",
        timeout_s=1.5,
    )  # fmt: skip

    assert output.exit_status == -1
    assert not any(map(lives, _pids(project)))


async def test_a_shell_needs_neither_bash_nor_variables(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != "/bin/bash")
    monkeypatch.delattr(os, "pidfd_open", raising=False)  # macOS has neither
    bare = dataclasses.replace(context, place=dataclasses.replace(context.place, environment={}))

    assert (await shell.run(bare, {"command": "echo $0"})).text == "/bin/sh"

import asyncio
import os
import subprocess
import time

from kode.cli.shell_line import MAX_KEPT_CHARACTERS, run_shell_line
from kode.tools.orphans import WATCH


async def test_output_is_shown_as_it_comes_and_given_back(tmp_path):
    shown = []

    code, output = await run_shell_line("echo a; echo b >&2; exit 3", tmp_path, shown.append)

    assert code == 3
    assert "\n".join(shown).split() == ["a", "b"]
    assert output == "a\nb\n"


async def test_it_runs_in_the_working_directory_and_reads_nothing(tmp_path):
    code, output = await run_shell_line("pwd; cat", tmp_path, lambda line: None)

    assert (code, output.strip()) == (0, os.path.realpath(tmp_path))


async def test_only_the_end_of_a_long_output_is_kept(tmp_path):
    _, output = await run_shell_line("seq 100000", tmp_path, lambda line: None)

    assert len(output) == MAX_KEPT_CHARACTERS
    assert output.endswith("100000\n")


async def test_stopping_it_stops_all_that_it_started(tmp_path):
    shown = []
    running = asyncio.ensure_future(
        run_shell_line("sleep 60 & echo $!; wait", tmp_path, shown.append)
    )
    while not shown:
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait([running])

    assert running.cancelled()
    assert gone(int(shown[0]))


def gone(process_id):
    """Whether a process ends; one that only waits to be reaped has ended."""
    for _ in range(200):
        done = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(process_id)], stdout=subprocess.PIPE, text=True
        )
        if done.stdout.strip()[:1] in ("", "Z"):
            return True
        time.sleep(0.01)
    return False


async def test_it_is_watched_while_it_runs_so_that_it_ends_should_kode_be_killed(tmp_path):
    shown = []

    await run_shell_line("echo $$", tmp_path, lambda line: shown.append((line, dict(WATCH.open))))

    ((group, watched),) = shown
    assert group in watched.values()
    assert group not in WATCH.open.values()

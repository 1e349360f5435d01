"""A `kode` that was forked is the one that the script starts: `tests/warm.py`."""

import os
import signal
import subprocess

import pytest

from tests.e2e.command import Place
from tests.warm import KODE, Warm


@pytest.mark.parametrize(
    "line",
    [
        ("--version",),
        ("run", "--help"),
        ("run", "x", "--no-such-flag"),
        ("config", "show"),
        ("session", "list"),
    ],
)
def test_a_fork_answers_as_the_script_does(place: Place, line: tuple[str, ...]) -> None:
    told = {"cwd": place.project, "env": place.environ, "capture_output": True, "text": True}
    script = subprocess.run([KODE, *line], stdin=subprocess.DEVNULL, **told)

    fork = place.run(*line)

    assert (fork.code, fork.out, fork.err) == (script.returncode, script.stdout, script.stderr)


def test_a_signal_is_reported_as_of_any_process(place: Place) -> None:
    with place.start("run", "-", stdin=subprocess.PIPE, start_new_session=True) as process:
        assert isinstance(process, Warm)
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        assert os.getsid(process.pid) == process.pid
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL

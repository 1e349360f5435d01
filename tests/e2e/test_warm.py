"""A `kode` that was forked is the one that the script starts: `tests/warm.py`."""

import subprocess

import pytest

from tests.e2e.command import Place
from tests.warm import KODE


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

"""What a newcomer meets before there is a model, and what wrong words on the command line say."""

import subprocess

import pytest

from tests.e2e.command import KODE, Place
from tests.e2e.terminal import Terminal


def keyless(place: Place, *arguments: str) -> Terminal:
    environ = {"HOME": str(place.folder), "KODE_HOME": str(place.home)}
    return Terminal(KODE, list(arguments), cwd=place.project, env=environ)


@pytest.mark.parametrize(
    ("key", "task", "status"),
    [("esc", [], 0), ("ctrl-c", [], 0), ("ctrl-d", [], 0), ("esc", ["fix the tests"], 3)],
)
def test_leaving_the_set_up_tells_how_to_come_back(
    place: Place, key: str, task: list[str], status: int
) -> None:
    with keyless(place, *task) as terminal:
        terminal.until("Esc cancels")
        terminal.type(key)
        text = terminal.until("Nothing was set up", "kode demo")
        assert terminal.ended() == status
    assert "Traceback" not in text
    assert not (place.home / "config.json").exists()


@pytest.mark.parametrize("words", ["run x", "config check", "config show", "doctor"])
def test_a_working_directory_that_is_gone_is_one_sentence(place: Place, words: str) -> None:
    line = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@"'
    done = subprocess.run(
        ["bash", "-c", line, KODE, *words.split()],
        cwd=place.project,
        env=place.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 3
    assert "the working directory does not exist" in done.stdout + done.stderr
    assert not (place.home / "logs").exists()

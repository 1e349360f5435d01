"""The installed command where little is as it should be: streams, encodings, folders, names."""

import json
import os
import subprocess

import pytest

from kode.cli.prompt.editor import ERASE_DOWN
from tests.e2e.command import KODE, Place
from tests.scripted_server import ScriptedServer

LATIN = "Größe 💡"


def script(place: Place, *replies: dict[str, object]) -> str:
    path = place.folder / "script.json"
    path.write_text(json.dumps(list(replies)))
    return str(path)


def run_raw(place: Place, shell: str) -> "subprocess.CompletedProcess[bytes]":
    """A line of shell, in the project; `kode` is the installed one."""
    environ = {**place.environ, "K": KODE, "S": script(place, {"match": ".", "text": LATIN})}
    return subprocess.run(
        ["sh", "-c", shell], cwd=place.project, env=environ, capture_output=True, timeout=60
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["session list", "--help", "run --script $S hi"])
def test_an_output_that_cannot_be_written_is_one_sentence(place: Place, command: str) -> None:
    run_raw(place, "$K run --script $S hi")

    done = run_raw(place, f"$K {command} >/dev/full")

    assert done.returncode == 1
    assert b"could not be written (No space left on device)" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("closed", "code"), [("<&-", 0), (">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 0)]
)
def test_closed_streams_stop_nothing(place: Place, closed: str, code: int) -> None:
    done = run_raw(place, f"$K run --script $S hi {closed}")

    assert (done.returncode, done.stderr) == (code, b"")
    (session,) = place.session_files
    assert session.read_text().count('"type":"turn"') == 1


def test_a_narrow_terminal_may_change_its_size_in_a_stream(
    place: Place, server: ScriptedServer
) -> None:
    words = [f"word{number}" for number in range(60)]
    server.play([{"text": " ".join(words), "wire": {"chunk_delay_s": 0.1}}])
    with place.terminal(width=20, height=5) as terminal:
        terminal.until("kode in", "ask")
        terminal.type("hi", "enter")
        for word, height, width in ((b"word2", 10, 40), (b"word6", 5, 20)):
            while word not in terminal.raw and terminal.read():
                pass
            terminal.process.setwinsize(height, width)
            terminal.screen.resize(height, width)
            terminal.read()
        while b"word59" not in terminal.raw and terminal.read():
            pass
        terminal.until_gone("Answering")
        terminal.type("ctrl-d")
        assert terminal.ended() == 0
        shown = terminal.raw.decode()

    assert "Traceback" not in shown
    assert shown.count("\x1b[J") == shown.count(ERASE_DOWN)
    assert [word for word in words if word not in shown] == []

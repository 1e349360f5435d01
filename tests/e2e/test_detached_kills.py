"""Sessions in the background are killed at random moments: their holder, their prompt, both, or the
terminal that is attached. No process is left, the session resumes, and nothing is done twice.

`make test-all` has 100 moments, CI draws some of 30.
"""

import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.background import (
    LONGEST_S,
    Background,
    background,
    clients_of,
    holder_of,
    processes,
    prompt_of,
    until,
    working_in,
)
from tests.e2e.command import Place
from tests.e2e.terminal import Terminal
from tests.effort import EVERYTHING
from tests.scripted_server import ScriptedServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning"),
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

KILLS = 100 if EVERYTHING else 30
TARGETS = ("holder", "prompt", "both", "client", "window", "holder seen", "prompt seen")
"""What is killed; "seen": while a terminal is attached. A window that is closed hangs up."""
TEXT = "\n".join(map(str, range(50_000)))
LONGEST_RUN_S = 4.0
"""Within this time a session opens, makes its calls and ends, on a machine that is not idle."""


@pytest.fixture
def sessions(place: Place) -> Iterator[Background]:
    with background(place) as found:
        yield found


def step(number: int) -> dict[str, object]:
    command = f"echo {number} >> log; sleep 0.3"
    return {"calls": [{"name": "shell", "arguments": {"command": command}}]}


WRITE = {"calls": [{"name": "write_file", "arguments": {"path": "made.txt", "content": TEXT}}]}


def kill(target: str, folder: Path, attached: Terminal | None) -> None:
    if attached is not None and target in ("client", "window"):
        if target == "client":
            attached.process.kill(signal.SIGKILL)
        attached.process.ptyproc.fileobj.close()  # hangs up
        attached.process.wait()
    for name, of in (("holder", holder_of), ("prompt", prompt_of)):
        if target.startswith((name, "both")):
            with contextlib.suppress(StopIteration, ProcessLookupError):  # it has ended
                os.kill(of(folder), signal.SIGKILL)


@pytest.mark.sampled(of=6)
@pytest.mark.parametrize("seed", range(KILLS))
def test_a_kill_loses_and_repeats_nothing(sessions: Background, seed: int) -> None:
    chance, target = random.Random(seed), TARGETS[seed % len(TARGETS)]
    place = sessions.place
    replies: list[dict[str, object]] = [step(0), WRITE, step(1), step(2), {"text": "done"}]
    with ScriptedServer(replies, repeat_last=True) as server:
        place.url = server.openai_url
        id = sessions.start("do it", "--permission-mode", "full")
        folder = sessions.folder(id)
        seen = target not in ("holder", "prompt", "both")
        attached = sessions.attach(id) if seen else None
        if attached is not None:  # later it would resume what was killed
            attached.until("detaches", timeout_s=LONGEST_S)
        kill_at = time.monotonic() + chance.uniform(0, LONGEST_RUN_S)
        while time.monotonic() < kill_at:
            time.sleep(0.02)
            if attached is not None:
                attached.read(0)
        kill(target, folder, attached)
        if attached is not None and target.endswith("seen"):
            # Its terminal gets the shell back, and says how it stands.
            assert attached.ended() in (0, 1)
            assert id in attached.text
        until(lambda: not processes(folder) and not clients_of(id))
        one = sessions.listed("--done")[id]
        assert one["state"] in ("ended", "killed")
        if target in ("client", "window"):
            assert (one["state"], one["status"]) == ("ended", "success"), one["error"]
        said = place.run("ps").out
        assert (f"{id} was killed: `kode attach {id}` resumes it." in said) == (
            one["state"] == "killed"
        )
        made = place.project / "made.txt"
        assert not made.exists() or made.read_text() == TEXT

        server.play([{"text": "went on"}])
        if (place.home / "sessions" / f"{id}.jsonl").exists():
            resumed = place.run("continue", "go on", "--id", id, "--no-memory")
            assert resumed.code == 0, resumed.err
            sent = json.dumps(server.requests[-1].json["messages"])
            assert sent.count("do it") <= 1
        log = place.project / "log"
        done = log.read_text().split() if log.exists() else []
        assert done == [str(number) for number in range(len(done))]
        until(lambda: not working_in(place.project))

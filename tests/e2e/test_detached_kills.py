"""Sessions in the background are killed at random moments: their holder, their prompt, both, or the
terminal that is attached. No process is left, the session resumes, and nothing is done twice.

The suite has 30 moments; `KODE_TEST_KILLS=100` has 100.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from tests.e2e.background import (
    Background,
    background,
    holder_of,
    processes,
    prompt_of,
    until,
    working_in,
)
from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning"),
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

KILLS = int(os.environ.get("KODE_TEST_KILLS") or 30)
TARGETS = ("holder", "prompt", "both", "terminal")
LONGEST_RUN_S = 4.0
"""Within this time a session opens, makes its calls and ends, on a machine that is not idle."""


@pytest.fixture
def sessions(place: Place) -> Iterator[Background]:
    with background(place) as found:
        yield found


def step(number: int) -> dict[str, object]:
    command = f"echo {number} >> log; sleep 0.3"
    return {"calls": [{"name": "shell", "arguments": {"command": command}}]}


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_kill_loses_and_repeats_nothing(sessions: Background, seed: int) -> None:
    chance, target = random.Random(seed), TARGETS[seed % len(TARGETS)]
    place = sessions.place
    with ScriptedServer([*map(step, range(3)), {"text": "done"}], repeat_last=True) as server:
        place.url = server.openai_url
        id = sessions.start("do it", "--permission-mode", "full")
        folder = sessions.folder(id)
        attached = sessions.attach(id) if target == "terminal" else None
        kill_at = time.monotonic() + chance.uniform(0, LONGEST_RUN_S)
        until(lambda: time.monotonic() > kill_at)
        if attached is not None:
            attached.process.kill(signal.SIGKILL)
            attached.__exit__()
        for of in {"holder": [holder_of], "prompt": [prompt_of]}.get(
            target, [holder_of, prompt_of] if target == "both" else []
        ):
            try:
                os.kill(of(folder), signal.SIGKILL)
            except (StopIteration, ProcessLookupError):
                pass  # it has ended
        until(lambda: not processes(folder))
        one = sessions.listed("--done")[id]
        assert one["state"] in ("ended", "killed")
        if target == "terminal":
            assert (one["state"], one["status"]) == ("ended", "success")

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

"""A long session in one process: nothing grows with its turns. The real conversation, the real SDK
over HTTP, memory on, tools in some turns; now and then the server says 429, the stream breaks, or
the person interrupts. The server is a process of its own, so that what grows here is kode's.

`make soak` runs 2,000 turns and looks at memory too, which says nothing of a short session.
"""

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kode import paths
from kode.config.load import load_config
from kode.conversation import Settings, open_conversation
from kode.events import Event, TextDelta
from kode.messages import ToolCall
from kode.session.entries import MessageEntry
from kode.session.log import Session
from tests.effort import EVERYTHING
from tests.faults.lives import call
from tests.scripted_server import ScriptedServer, last_user_text

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc/self"),
    pytest.mark.timeout(1800 if EVERYTHING else 180),
]
TURNS = 2000 if EVERYTHING else 100
WINDOW = 40_000 if EVERYTHING else 14_000
"""Tokens: a session of 2,000 turns is compacted a few times, one of 100 once."""
MB = 1_000_000
MAX_GROWTH_MB = 5.0
"""For 1,000 turns, beyond what was said itself."""
SAMPLES = 20
COUNTED = ("files", "tasks", "threads")

KINDS = ("plain", "read", "plain", "remember", "plain", "shell")
RARE = {17: "limited", 23: "broken", 31: "interrupted"}
"""Every so many turns."""

Leak = Callable[[int], None]
"""A stand-in for a fault of kode: called with the number of each turn."""


@dataclass(kw_only=True)
class Soak:
    """What was measured."""

    samples: list[Counter[str]] = field(default_factory=list)
    """What was there after so many `turns`: bytes of memory and of text, and what is counted."""
    kinds: Counter[str] = field(default_factory=Counter)
    compactions: int = 0

    def find_counted(self) -> list[str]:
        """What is counted and grows; the least of a few samples on either side, since background
        work comes and goes."""
        warm = len(self.samples) // 3
        early, late = self.samples[warm : warm + 3], self.samples[-3:]
        return [n for n in COUNTED if min(s[n] for s in late) > min(s[n] for s in early)]

    def find_growth(self) -> list[str]:
        """All that grows more than it may."""
        late = self.samples[len(self.samples) // 3 :]
        beyond = [sample["memory"] - sample["text"] for sample in late]
        slope, _ = statistics.linear_regression([sample["turns"] for sample in late], beyond)
        print(f"\n{slope * 1000 / MB:.2f} MB for 1,000 turns, {self.kinds}")
        return self.find_counted() + ["memory"] * (slope * 1000 / MB > MAX_GROWTH_MB)


def kind_of(number: int) -> str:
    rare = [kind for every, kind in RARE.items() if number % every == every - 1]
    return rare[0] if rare else KINDS[number % len(KINDS)]


def task_of(number: int) -> str:
    words = f"Say a sentence or two about the number {number}, and nothing else at all. "
    return f"[{kind_of(number)} {number}] {words * 3}"


def make_model() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What the model says: depends on the turn's kind, and on how often it was asked."""
    asked: Counter[str] = Counter()

    def reply(request: dict[str, Any]) -> dict[str, Any]:
        if request["messages"][-1]["role"] == "tool":
            return {"text": "Done as you asked, and nothing else was touched."}
        task = last_user_text(request).rpartition("[")[2]
        kind, _, number = task.partition("]")[0].rpartition(" ")
        if not number.isdigit() or "to be shortened" in str(request["messages"][-1]):
            return {"text": "The person asks about numbers; the answers were short."}
        asked[task] += 1
        answer = {"text": "It is a number like any other, and yet not the same. " * 4}
        if kind == "limited" and asked[task] == 1:
            return {"error": {"status": 429, "retry_after_s": 0}}
        if kind == "broken" and asked[task] == 1:
            return {**answer, "wire": {"drop_after": 4}}
        if kind == "interrupted":
            return {**answer, "wire": {"stall_after": 3, "stall_s": 60}}
        fact = f"Asked about number {int(number) % 40}" if number.isdigit() else ""
        calls = {
            "read": [call("read_file", path="notes.txt")],
            "remember": [call("memory", action="add", target="env", content=fact)],
            "shell": [call("shell", command="echo a few words")],
        }
        return {"calls": calls[kind]} if kind in calls else answer

    return reply


async def soak(url: str, folder: Path, turns: int, leak: Leak | None = None) -> Soak:
    """Runs the turns in a project, against a server that plays."""
    (folder / "notes.txt").write_text("one note\n" * 20)
    flags: dict[str, Any] = {"provider": "openai", "model": "soak-model", "base_url": url}
    flags |= {"api_key": "k" * 20, "permissions.mode": "full", "context.window": WINDOW}
    loaded = load_config(paths.kode_home(), folder, environ={}, flags=flags)
    measured = Soak()
    arrived = asyncio.Event()

    def emit(event: Event) -> None:
        if isinstance(event, TextDelta):
            arrived.set()
        measured.compactions += event.type == "context_reduced"

    talk = await open_conversation(Settings(loaded, emit=emit), cwd=folder)
    every = max(1, turns // SAMPLES)
    for number in range(turns):
        kind = kind_of(number)
        arrived.clear()
        turn = asyncio.ensure_future(talk.turn(task_of(number)))
        if kind == "interrupted":
            await arrived.wait()
            turn.cancel()
        ended = await turn
        if leak is not None:
            leak(number)
        expected = "interrupted" if kind == "interrupted" else "success"
        assert ended.status == expected, f"turn {number} ({kind}): {ended.error}"
        measured.kinds[kind] += 1
        if number % every == every - 1:
            measured.samples.append(take_sample(number + 1, talk.session))
    await talk.close()
    return measured


def take_sample(turns: int, session: Session) -> Counter[str]:
    gc.collect()
    parts = (p for e in session.entries if isinstance(e, MessageEntry) for p in e.parts)
    texts = (p.arguments if isinstance(p, ToolCall) else getattr(p, "text", "") for p in parts)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Counter(
        turns=turns,
        memory=pages * os.sysconf("SC_PAGE_SIZE"),
        text=sum(map(len, texts)),
        files=len(os.listdir("/proc/self/fd")),
        tasks=len(asyncio.all_tasks()),
        # Those of the loop's pool stay, and come when several are busy: on a machine under load.
        threads=sum("asyncio_" not in thread.name for thread in threading.enumerate()),
    )


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("kode.engine.reply.FIRST_DELAY_S", 0.001)
    argv = [sys.executable, "-m", "tests.faults.test_soak"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        process.terminate()


@contextmanager
def leaks() -> Iterator[Leak]:
    """Leaves behind memory, a file, a task and a thread with each turn."""
    memory: list[bytearray] = []
    files: list[int] = []
    tasks: list[asyncio.Task[None]] = []
    over = threading.Event()

    def leak(number: int) -> None:
        memory.append(bytearray(os.urandom(1000) * 100))
        files.append(os.open(os.devnull, os.O_RDONLY))
        tasks.append(asyncio.get_running_loop().create_task(asyncio.sleep(600)))
        threading.Thread(target=over.wait, daemon=True).start()

    yield leak
    over.set()
    for file in files:
        os.close(file)


def test_a_fault_of_each_kind_is_found(url: str, project: Path) -> None:
    with leaks() as leak:
        measured = asyncio.run(soak(url, project, 50, leak))

    assert measured.find_growth() == [*COUNTED, "memory"]


def test_no_resource_grows_with_the_turns(url: str, project: Path) -> None:
    measured = asyncio.run(soak(url, project, TURNS))

    assert set(RARE.values()) <= set(measured.kinds)
    assert measured.compactions > 0
    assert (measured.find_growth() if EVERYTHING else measured.find_counted()) == []


if __name__ == "__main__":
    asyncio.run(ScriptedServer(make_model(), keep=1).serve(lambda port: print(port, flush=True)))

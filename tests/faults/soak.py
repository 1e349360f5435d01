"""One session of thousands of turns in one process: `python -m tests.faults.soak [--turns N]`.

The real conversation, the real SDK over HTTP, memory on, tools in some turns; now and then the
server says 429, the stream breaks, or the person interrupts. The server plays in a process of its
own, so that what grows here is kode's. Printed are memory, open files, tasks, threads and the time
of a turn; the exit code is 1 when one of them grows more than it may.

    memory      at most 5 MB for 1,000 turns, beyond what was said itself
    files, tasks, threads   none more than after the warm-up
    time        of a plain turn late in the session, to one early: at most 1.5
"""

import argparse
import asyncio
import contextlib
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kode import paths
from kode.engine import reply
from kode.messages import Message, ToolCall
from kode.session.entries import MessageEntry
from kode.session.log import Session
from tests.scripted_server import ScriptedServer, last_user_text

MB = 1_000_000
MAX_GROWTH_MB = 5.0
"""For 1,000 turns, beyond the text."""
MAX_LATE_RATIO = 1.5
PAGE = os.sysconf("SC_PAGE_SIZE")
SAMPLES = 20
COUNTED = ("files", "tasks", "threads")
WINDOW, SMALL_WINDOW = 40_000, 14_000
"""Tokens: a session of 2,000 turns is compacted a few times, one of 100 once."""

Leak = Callable[[int], None]
"""A stand-in for a fault of kode: called with the number of each turn."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What was there after so many turns."""

    turns: int
    memory_bytes: int
    text_bytes: int
    """Of all that was said: messages, calls, results."""
    files: int
    tasks: int
    threads: int


@dataclass(kw_only=True)
class Soak:
    """What was measured."""

    samples: list[Sample] = field(default_factory=list)
    plain_ms: list[float] = field(default_factory=list)
    """Processor time of each turn without tools and faults, in order."""
    kinds: Counter[str] = field(default_factory=Counter)
    compactions: int = 0

    @property
    def growth_mb(self) -> float:
        """Memory for 1,000 turns beyond the text, after the first third: the slope of the line
        that lies nearest to the samples."""
        late = self.samples[len(self.samples) // 3 :]
        beyond = [sample.memory_bytes - sample.text_bytes for sample in late]
        slope, _ = statistics.linear_regression([sample.turns for sample in late], beyond)
        return slope * 1000 / MB

    @property
    def late_ratio(self) -> float:
        """The median time of the last fifth to that of the second fifth."""
        fifth = len(self.plain_ms) // 5
        early, late = self.plain_ms[fifth : 2 * fifth], self.plain_ms[-fifth:]
        return statistics.median(late) / statistics.median(early)

    def grown(self, name: str) -> int:
        """How many more of them at the end than after the warm-up; the least of a few samples on
        either side, since background work comes and goes."""
        counts = [getattr(sample, name) for sample in self.samples]
        warm = len(counts) // 3
        return int(min(counts[-3:]) - min(counts[warm : warm + 3]))

    def counted_faults(self) -> list[str]:
        """What is counted and grows, which shows in a short session too."""
        return [
            f"{name}: {grown} more than after the warm-up"
            for name in COUNTED
            if (grown := self.grown(name)) > 0
        ]

    def faults(self) -> list[str]:
        """All that grows more than it may."""
        found = self.counted_faults()
        if self.growth_mb > MAX_GROWTH_MB:
            found.append(f"memory grows by {self.growth_mb:.1f} MB for 1,000 turns")
        if self.late_ratio > MAX_LATE_RATIO:
            found.append(f"a late turn takes {self.late_ratio:.2f} times as long as an early one")
        return found


KINDS = ("plain", "read", "plain", "remember", "plain", "two calls", "plain", "shell")
RARE = {17: "limited", 23: "broken", 31: "interrupted"}
"""Every so many turns."""


def kind_of(number: int) -> str:
    rare = [kind for every, kind in RARE.items() if number % every == every - 1]
    return rare[0] if rare else KINDS[number % len(KINDS)]


def task_of(number: int) -> str:
    words = f"Say a sentence or two about the number {number}, and nothing else at all. "
    return f"[{kind_of(number)} {number}] {words * 3}"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def make_script() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What the model says: depends on the turn's kind, and on how often it was asked."""
    asked: Counter[str] = Counter()

    def script(request: dict[str, Any]) -> dict[str, Any]:
        task = last_user_text(request).rpartition("[")[2]
        kind, _, rest = task.partition("]")[0].rpartition(" ")
        answer = {"text": "It is a number like any other, and yet not the same. " * 4}
        if not rest.isdigit() or "to be shortened" in str(request["messages"][-1]):
            return {"text": "The person asks about numbers; the answers were short."}
        asked[task] += 1
        match kind:
            case "limited" if asked[task] == 1:
                return {"error": {"status": 429, "retry_after_s": 0}}
            case "broken" if asked[task] == 1:
                return {**answer, "wire": {"drop_after": 4}}
            case "interrupted":
                return {**answer, "wire": {"stall_after": 3, "stall_s": 60}}
            case "read":
                return {"calls": [call("read_file", path="notes.txt")]}
            case "two calls":
                found = call("search_files", pattern="note")
                return {"text": "I look.", "calls": [call("list_files"), found]}
            case "remember":
                fact = f"Asked about number {int(rest) % 40}"
                return {"calls": [call("memory", action="add", target="env", content=fact)]}
            case "shell":
                return {"calls": [call("shell", command="echo a few words")]}
        return answer

    def play(request: dict[str, Any]) -> dict[str, Any]:
        if request["messages"][-1]["role"] == "tool":
            return {"text": "Done as you asked, and nothing else was touched."}
        return script(request)

    return play


async def soak(url: str, folder: Path, turns: int, leak: Leak | None = None) -> Soak:
    """Runs the turns in a home and a project of their own, against a server that plays."""
    from kode.config.load import load_config
    from kode.conversation import Settings, open_conversation
    from kode.events import Event, TextDelta

    (folder / "notes.txt").write_text("one note\n" * 20)
    flags: dict[str, Any] = {
        "provider": "openai",
        "model": "soak-model",
        "base_url": url,
        "api_key": "k" * 20,
    }
    flags |= {
        "permissions.mode": "full",
        "context.window": WINDOW if turns >= 1000 else SMALL_WINDOW,
    }
    loaded = load_config(paths.home(), folder, environ={}, flags=flags)
    measured = Soak()
    every = max(1, turns // SAMPLES)
    arrived = asyncio.Event()

    def emit(event: Event) -> None:
        if isinstance(event, TextDelta):
            arrived.set()
        measured.compactions += event.type == "context_reduced" and event.kind == "compaction"

    conversation = await open_conversation(Settings(loaded, emit=emit), cwd=folder)
    for number in range(turns):
        kind = kind_of(number)
        arrived.clear()
        began = time.process_time()
        turn = asyncio.ensure_future(conversation.turn(task_of(number)))
        if kind == "interrupted":
            await arrived.wait()
            turn.cancel()
        ended = await turn
        if leak is not None:
            leak(number)
        took_ms = (time.process_time() - began) * 1000
        expected = "interrupted" if kind == "interrupted" else "success"
        assert ended.status == expected, f"turn {number} ({kind}): {ended.error}"
        measured.kinds[kind] += 1
        if kind == "plain":
            measured.plain_ms.append(took_ms)
        if number % every == every - 1:
            measured.samples.append(sample(number + 1, conversation.session))
    await conversation.close()
    return measured


def sample(turns: int, session: Session) -> Sample:
    gc.collect()
    messages = [entry for entry in session.entries if isinstance(entry, MessageEntry)]
    return Sample(
        turns=turns,
        memory_bytes=int(Path("/proc/self/statm").read_text().split()[1]) * PAGE,
        text_bytes=sum(map(text_size, messages)),
        files=len(os.listdir("/proc/self/fd")),
        tasks=len(asyncio.all_tasks()),
        threads=threading.active_count(),
    )


def can_run() -> bool:
    """Whether this system tells memory and open files the way they are read here."""
    return Path("/proc/self/statm").exists()


def text_size(message: Message) -> int:
    return sum(
        len(part.arguments if isinstance(part, ToolCall) else getattr(part, "text", ""))
        for part in message.parts
    )


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The URL of a server that plays the script in a process of its own."""
    argv = [sys.executable, "-m", "tests.faults.soak", "--serve"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


def run(turns: int, leak: Leak | None = None) -> Soak:
    """A soak of so many turns in a folder that goes with it; Linux only."""
    with served() as url, tempfile.TemporaryDirectory(prefix="kode-soak-") as folder:
        before, delay_s = dict(os.environ), reply.FIRST_DELAY_S
        reply.FIRST_DELAY_S = 0.001
        os.environ["KODE_HOME"] = str(Path(folder) / "home")
        os.environ["HOME"] = folder
        project = Path(folder) / "project"
        project.mkdir()
        try:
            return asyncio.run(soak(url, project, turns, leak))
        finally:
            reply.FIRST_DELAY_S = delay_s
            os.environ.clear()
            os.environ.update(before)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.serve:
        server = ScriptedServer(make_script(), keep=1)
        asyncio.run(server.serve(lambda port: print(port, flush=True)))
        return 0
    if not can_run():
        print("The soak reads /proc/self and needs Linux.", file=sys.stderr)
        return 1
    measured = run(options.turns)
    found = measured.faults()
    figures = {
        "turns": options.turns,
        "memory_growth_mb_per_1000_turns": round(measured.growth_mb, 2),
        "late_turn_ratio": round(measured.late_ratio, 3),
        **{f"{name}_more": measured.grown(name) for name in COUNTED},
        "compactions": measured.compactions,
        "plain_turn_ms": round(statistics.median(measured.plain_ms), 2),
        "memory_mb": [round(sample.memory_bytes / MB, 1) for sample in measured.samples],
        "text_mb": round(measured.samples[-1].text_bytes / MB, 2),
        "kinds": dict(measured.kinds),
        "faults": found,
    }
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:<32} {value}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

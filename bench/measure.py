"""How benchmarks measure: pairs of runs, one of the baseline and one of kode, side by side, so that
a machine that is slow today is slow for both; the ratio is the median over the pairs.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from kode.messages import Message, Text, Usage, user_message
from kode.session import log
from kode.session.entries import Header, SystemEntry, TurnEntry, new_session_id

T = TypeVar("T")
KODE = str(Path(sys.executable).parent / "kode")
LOOP = str(Path(__file__).with_name("baseline_loop.py"))
FORMATS = {
    "chat": ("openai", "gpt-4o"),
    "responses": ("openai", "gpt-4o"),
    "messages": ("anthropic", "claude-sonnet-4-5"),
}
"""Wire format → vendor and model."""


def by_size(full: T, small: T) -> T:
    """How much is measured: `small` with BENCH=small, which asks only whether a benchmark runs."""
    return small if os.environ.get("BENCH") == "small" else full


@dataclass(frozen=True)
class Pair:
    baseline_ms: float
    kode_ms: float

    @property
    def ratio(self) -> float:
        return self.kode_ms / self.baseline_ms


def compare(baseline: Callable[[], float], kode: Callable[[], float], runs: int = 7) -> list[Pair]:
    """`runs` pairs after one that warms the caches; each function returns milliseconds."""
    for _ in range(by_size(1, 0)):
        baseline(), kode()
    return [Pair(baseline(), kode()) for _ in range(by_size(runs, 1))]


def median_ratio(pairs: Sequence[Pair]) -> float:
    return round(statistics.median(pair.ratio for pair in pairs), 3)


def median_baseline(pairs: Sequence[Pair]) -> float:
    return round(statistics.median(pair.baseline_ms for pair in pairs), 2)


@dataclass(frozen=True)
class Run:
    """What a command took, with the processes it waited for. Processor time is nearly the same on a
    busy machine."""

    wall_ms: float
    processor_ms: float
    rss_kb: float


def run(command: Sequence[str], environ: Mapping[str, str], cwd: Path) -> Run:
    """Runs a command. Raises: RuntimeError if it fails."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        env=dict(environ),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall_ms = (time.perf_counter() - started) * 1000
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[:2]} ended with {process.returncode}")
    return Run(
        wall_ms=wall_ms,
        processor_ms=(usage.ru_utime + usage.ru_stime) * 1000,
        rss_kb=usage.ru_maxrss / (1024 if sys.platform == "darwin" else 1),
    )


def measure_answer_ms(
    command: Sequence[str],
    messages: Sequence[Mapping[str, Any]],
    last: int,
    environ: Mapping[str, str],
    cwd: Path,
) -> float:
    """Processor time of a server on stdin and stdout, from its start to its answer to the message
    with the id `last`, in milliseconds; it is killed then."""
    process = subprocess.Popen(
        command,
        env=dict(environ),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()
            while message.get("id", last + 1) <= last:
                answer = json.loads(process.stdout.readline())
                if "method" not in answer and answer["id"] == message["id"]:
                    break
            if message.get("id") == last:
                break
        process.kill()
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if "result" not in answer:
        raise RuntimeError(f"{command[0]}: {answer}")
    return (usage.ru_utime + usage.ru_stime) * 1000


@contextmanager
def workplace(base_url: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """A project folder and an environment that reach nothing but `base_url`, which ends in /v1."""
    with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
        project = Path(folder) / "project"
        project.mkdir()
        environ = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": folder,
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "KODE_HOME": str(Path(folder) / "kode"),
            "OPENAI_API_KEY": "bench",
            "OPENAI_BASE_URL": base_url,
            "ANTHROPIC_API_KEY": "bench",
            "ANTHROPIC_BASE_URL": base_url.removesuffix("/v1"),
        }
        yield project, environ


def configure(environ: Mapping[str, str], **settings: Any) -> None:
    """Writes the settings of a workplace."""
    config = Path(environ["KODE_HOME"]) / "config.json"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(json.dumps(settings), encoding="utf-8")


def loop_and_kode(
    environ: Mapping[str, str], api: str, task: str, *flags: str
) -> tuple[list[str], list[str]]:
    """The commands of the plainest loop and of kode for a task, in a wire format, which is set."""
    vendor, model = FORMATS[api]
    configure(environ, providers={vendor: {"api": api}})
    named = ["--provider", vendor, "--model", model]
    return [sys.executable, LOOP, api, task], [KODE, "run", task, *named, *flags]


def fill_with_sessions(home: Path, project: Path, count: int, size: int = 0) -> None:
    """Makes sessions of this many bytes or more, each with a usual beginning and end. The middle,
    which a list never looks at, is a hole in the file, so that no gigabytes are written."""
    with patch("os.fsync"):
        for number in range(count):
            own_id = f"{new_session_id()[:-6]}{number:06x}"  # a random one comes twice among 10,000
            header = Header(id=own_id, cwd=str(project), model="m", provider="openai")
            with contextlib.closing(log.create(home, header)) as session:
                session.append(SystemEntry(sections={"kode": "instructions " * 500}))
                session.append_message(user_message(f"task number {number}"))
                assert session.path is not None
                if size:
                    os.truncate(session.path, size - 4_000)
                    with session.path.open("ab") as file:
                        file.write(b"\n")
                answer = Text(text="word " * 600)
                session.append_message(
                    Message(role="assistant", parts=(answer,), stop="end", model="m")
                )
                usage = Usage(input_tokens=10, output_tokens=5)
                session.append(
                    TurnEntry(
                        number=1,
                        status="success",
                        steps=1,
                        usage=usage,
                        duration_ms=1,
                        total_usage=usage,
                        total_cost_usd=0.0,
                    )
                )


def report(figures: Mapping[str, Any], *, as_json: bool) -> int:
    """Prints one JSON object, or a line a figure, or a table of rows of figures with
    a column for each row. Returns 0."""
    if as_json:
        print(json.dumps(figures))
        return 0
    rows = figures if all(isinstance(row, Mapping) for row in figures.values()) else {"": figures}
    names = list(next(iter(rows.values())))
    width = max(map(len, names))
    print(" " * width, *(f"{name:>14}" for name in rows) if len(rows) > 1 else ())
    for name in names:
        values = (row[name] for row in rows.values())
        texts = (f"{value:,}" if isinstance(value, int) else str(value) for value in values)
        print(f"{name:<{width}} ", *(f"{text:>14}" for text in texts))
    return 0

"""How benchmarks measure: pairs of runs, one of the baseline and one of kode, side by side, so that
a machine that is slow today is slow for both; the ratio is the median over the pairs.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KODE = str(Path(sys.executable).parent / "kode")


@dataclass(frozen=True)
class Pair:
    baseline_ms: float
    kode_ms: float

    @property
    def ratio(self) -> float:
        return self.kode_ms / self.baseline_ms


def paired(baseline: Callable[[], float], kode: Callable[[], float], runs: int = 7) -> list[Pair]:
    """`runs` pairs after one that warms the caches; each function returns milliseconds."""
    baseline(), kode()
    return [Pair(baseline(), kode()) for _ in range(runs)]


def median_ratio(pairs: Sequence[Pair]) -> float:
    return round(statistics.median(pair.ratio for pair in pairs), 3)


def median_baseline(pairs: Sequence[Pair]) -> float:
    return round(statistics.median(pair.baseline_ms for pair in pairs), 2)


def run_ms(command: Sequence[str], environ: Mapping[str, str], cwd: Path) -> float:
    """Wall time of a command that must succeed, in milliseconds."""
    started = time.perf_counter()
    subprocess.run(
        command,
        env=dict(environ),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
    )
    return (time.perf_counter() - started) * 1000


def peak_rss_kb(command: Sequence[str], environ: Mapping[str, str], cwd: Path) -> float:
    """Peak memory of a command that must succeed, in KB."""
    return _kilobytes(_usage_of(command, environ, cwd))


def processor_ms(command: Sequence[str], environ: Mapping[str, str], cwd: Path) -> float:
    """Processor time of a command that must succeed and of the processes it waited for, in
    milliseconds: nearly the same on a busy machine."""
    usage = _usage_of(command, environ, cwd)
    return (usage.ru_utime + usage.ru_stime) * 1000


def answered_ms(
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


def _usage_of(
    command: Sequence[str], environ: Mapping[str, str], cwd: Path
) -> resource.struct_rusage:
    process = subprocess.Popen(
        command,
        env=dict(environ),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}")
    return usage


def _kilobytes(usage: resource.struct_rusage) -> float:
    return usage.ru_maxrss / (1024 if sys.platform == "darwin" else 1)


@contextmanager
def workplace(base_url: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """A project folder and an environment that reach nothing but `base_url`."""
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
        }
        yield project, environ


def speak(environ: Mapping[str, str], api: str) -> None:
    """Sets the wire format in which kode asks the server of a workplace."""
    config = Path(environ["KODE_HOME"]) / "config.json"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(json.dumps({"providers": {"openai": {"api": api}}}), encoding="utf-8")


def report(name: str, figures: Mapping[str, Any], argv: Sequence[str]) -> None:
    """One JSON object with `--json`, else a line a figure."""
    if "--json" in argv:
        print(json.dumps(figures))
        return
    width = max(map(len, figures))
    for key, value in figures.items():
        print(f"{key:<{width}}  {value}")

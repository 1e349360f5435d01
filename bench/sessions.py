"""Listing many sessions: `python -m bench.sessions [--json]`.

list_ratio   `kode session list` over 1,000 sessions of 1 MB, to the same over 10: whole commands
all_ratio    the same with `--all`, which shows every one
open_ratio   the list alone, inside a process: 1,000 sessions to 10, the newest 20 of each
"""

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.measure import KODE, median_baseline, median_ratio, paired, report, run_ms
from kode.messages import Message, Text, Usage, user_message
from kode.session import log
from kode.session.entries import SystemEntry, TurnEntry
from kode.session.index import list_sessions

FEW, MANY = 10, 1_000
BYTES = 1_000_000
RUNS = 5


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
        project = Path(folder) / "project"
        project.mkdir()
        homes = {count: _fill(Path(folder) / str(count), project, count) for count in (FEW, MANY)}
        environ = {"PATH": os.environ.get("PATH", ""), "HOME": folder, "LANG": "C.UTF-8"}

        def command(count: int, *flags: str) -> float:
            place = {**environ, "KODE_HOME": str(homes[count])}
            return run_ms([KODE, "session", "list", *flags], place, project)

        def opening(count: int) -> float:
            started = time.perf_counter()
            list_sessions(homes[count], limit=20)
            return (time.perf_counter() - started) * 1000

        newest = paired(lambda: command(FEW), lambda: command(MANY), runs=RUNS)
        every = paired(lambda: command(FEW, "--all"), lambda: command(MANY, "--all"), runs=RUNS)
        alone = paired(lambda: opening(FEW), lambda: opening(MANY), runs=RUNS)
    figures = {
        "list_ratio": median_ratio(newest),
        "all_ratio": median_ratio(every),
        "open_ratio": median_ratio(alone),
        "list_10_ms": median_baseline(newest),
        "open_10_ms": median_baseline(alone),
    }
    report("sessions", figures, argv)
    return 0


def _fill(home: Path, project: Path, count: int) -> Path:
    """`count` sessions of 1 MB each, with a usual beginning and end. The middle, which a list never
    looks at, is a hole in the file, so that the benchmark does not write a gigabyte."""
    for number in range(count):
        session = log.create(home, cwd=project, model="m", provider="openai")
        session.append(SystemEntry(text="instructions " * 500))
        session.append_message(user_message(f"task number {number}"))
        path = session.path
        assert path is not None
        os.truncate(path, BYTES - 4_000)
        with path.open("ab") as file:
            file.write(b"\n")
        session.append_message(
            Message(role="assistant", parts=(Text(text="word " * 600),), stop="end", model="m")
        )
        session.append(
            TurnEntry(
                number=1,
                status="success",
                steps=1,
                usage=Usage(input_tokens=10, output_tokens=5),
                duration_ms=1,
                total_usage=Usage(input_tokens=10, output_tokens=5),
                total_cost_usd=0.0,
            )
        )
        session.close()
    return home


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

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

from bench.measure import (
    KODE,
    by_size,
    compare,
    fill_with_sessions,
    median_baseline,
    median_ratio,
    report,
    run,
)
from kode.session.index import list_sessions

FEW, MANY = by_size(10, 2), by_size(1_000, 4)
BYTES = 1_000_000
RUNS = 5


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
        project = Path(folder) / "project"
        project.mkdir()
        homes = {count: Path(folder) / str(count) for count in (FEW, MANY)}
        for count, home in homes.items():
            fill_with_sessions(home, project, count, BYTES)
        environ = {"PATH": os.environ.get("PATH", ""), "HOME": folder, "LANG": "C.UTF-8"}

        def command(count: int, *flags: str) -> float:
            place = {**environ, "KODE_HOME": str(homes[count])}
            return run([KODE, "session", "list", *flags], place, project).wall_ms

        def opening(count: int) -> float:
            started = time.perf_counter()
            list_sessions(homes[count], limit=20)
            return (time.perf_counter() - started) * 1000

        newest = compare(lambda: command(FEW), lambda: command(MANY), runs=RUNS)
        every = compare(lambda: command(FEW, "--all"), lambda: command(MANY, "--all"), runs=RUNS)
        alone = compare(lambda: opening(FEW), lambda: opening(MANY), runs=RUNS)
    figures = {
        "list_ratio": median_ratio(newest),
        "all_ratio": median_ratio(every),
        "open_ratio": median_ratio(alone),
        "list_10_ms": median_baseline(newest),
        "open_10_ms": median_baseline(alone),
    }
    return report(figures, as_json="--json" in argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

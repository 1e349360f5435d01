"""Listing many sessions: `python -m bench.sessions [--json]`.

list_ratio   `kode session list --all` over 1,000 sessions of 1 MB, to the same over 10
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.measure import KODE, median_baseline, median_ratio, paired, report, run_ms
from kode.messages import user_message
from kode.session import log

FEW, MANY = 10, 1_000
BYTES = 1_000_000


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
        project = Path(folder) / "project"
        project.mkdir()
        homes = {count: _fill(Path(folder) / str(count), project, count) for count in (FEW, MANY)}
        environ = {"PATH": os.environ.get("PATH", ""), "HOME": folder, "LANG": "C.UTF-8"}

        def listing(count: int) -> float:
            place = {**environ, "KODE_HOME": str(homes[count])}
            return run_ms([KODE, "session", "list", "--all"], place, project)

        pairs = paired(lambda: listing(FEW), lambda: listing(MANY), runs=5)
    figures = {"list_ratio": median_ratio(pairs), "list_10_ms": median_baseline(pairs)}
    report("sessions", figures, argv)
    return 0


def _fill(home: Path, project: Path, count: int) -> Path:
    """`count` sessions of 1 MB each."""
    for number in range(count):
        session = log.create(home, cwd=project, model="m", provider="openai")
        session.append_message(user_message(f"task number {number}"))
        path = session.path
        assert path is not None
        session.loaded = True
        session.close()
        line = b'{"type":"future","id":"00000000","text":"' + b"x" * (BYTES - 600) + b'"}\n'
        with path.open("ab") as file:
            file.write(line)
    return home


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

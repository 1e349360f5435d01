"""What undo adds to a command: `python -m bench.undo [--files N ...] [--json]`.

For a repository of each size, in milliseconds, the median of runs side by side:

survey      one look at the whole repository
first       before and after the first command of a session outside the sandbox
full        before and after a later one, which changes a committed file
commit      before and after one that commits
layer       looking at what the same command changed in the sandbox's copy, applying it, and what
            undo keeps of it; null where no copy can be made
bare        the command alone
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bench.measure import by_size, report
from kode.sandbox.sandbox import Sandbox
from kode.undo.journal import TurnId
from kode.undo.outside import survey_tree
from kode.undo.store import MEGABYTE
from kode.undo.undo import Undo, open_undo
from tests.workplaces import workplace

SIZES = by_size((500, 5_000, 50_000), (10,))
ROUNDS = by_size(7, 1)
TURN = TurnId("a message", 1)
GIT = "git -c user.name=bench -c user.email=b@example.test"


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the figures; exits 0 whatever they are."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, nargs="+", default=SIZES)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    figures = {}
    for files in options.files:
        with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
            figures[f"{files} files"] = _measure(Path(folder), files)
    return report(figures, as_json=options.json)


def _measure(folder: Path, files: int) -> dict[str, float | None]:
    root = _repository(folder / "project", files)
    sandbox = Sandbox(place=workplace(root, home=folder / "home"))
    layered = sandbox.kind() == "layered"
    times: dict[str, list[float]] = {name: [] for name in ("survey", "first", "full", "commit")}
    times |= {"layer": [], "bare": []}
    for number in range(ROUNDS):
        times["survey"].append(_timed(lambda: survey_tree(root)))
        session = _session(folder / f"session{number}", root)
        for name in ("first", "full"):
            times[name].append(_outside(session, root, f"echo {name} >> d1/e0/f1.txt"))
        times["commit"].append(_outside(session, root, f"{GIT} commit -qam {number}"))
        times["bare"].append(_timed(lambda: _run(root, "echo bare >> d1/e0/f1.txt")))
        if layered:
            times["layer"].append(_inside(sandbox, session, "echo layer >> d1/e0/f1.txt"))
    sandbox.close()
    return {name: round(statistics.median(ms), 1) if ms else None for name, ms in times.items()}


def _repository(root: Path, files: int) -> Path:
    for number in range(files):
        folder = root / f"d{number % 97}" / f"e{number // 97 % 20}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}.txt").write_text(f"file {number}\n" * 20)
    _run(root, f"git init -q && git add -A && {GIT} commit -qm first")
    return root.resolve()


def _session(folder: Path, root: Path) -> Undo:
    undo = open_undo(folder, max_file_bytes=5 * MEGABYTE, max_bytes=200 * MEGABYTE)
    return replace(undo, roots=(root,))


def _outside(session: Undo, root: Path, command: str) -> float:
    """What undo adds."""
    started = time.perf_counter()
    backup = session.begin(TURN, writes=())
    before = time.perf_counter() - started
    _run(root, command)
    assert not backup.problem
    return before * 1000 + _timed(lambda: session.end(backup))


def _inside(sandbox: Sandbox, session: Undo, command: str) -> float:
    """What the copy adds after the command; `python -m bench.wall` has what it adds before."""
    attempt = sandbox.begin()
    wrapped = attempt.wrap(("/bin/sh", "-c", command))
    try:
        subprocess.run(
            wrapped.argv, cwd=sandbox.place.cwd, pass_fds=wrapped.descriptors, check=True
        )
    finally:
        wrapped.settle()

    def settle() -> None:
        changes = attempt.changes()
        backup = session.begin(TURN, [path for change in changes for path in attempt.files(change)])
        assert changes
        assert not attempt.apply(changes)
        session.end(backup)

    added = _timed(settle)
    attempt.close()
    return added


def _run(root: Path, command: str) -> None:
    subprocess.run(["/bin/sh", "-c", command], cwd=root, check=True)


def _timed(do: Callable[[], object]) -> float:
    """Milliseconds."""
    started = time.perf_counter()
    do()
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    raise SystemExit(main())

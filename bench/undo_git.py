"""Would git keep what undo needs, in a bare repository: `python -m bench.undo_git`.

For 1, 100 and 2,000 files of 2 KB, each time in a fresh session: ratio of git's time to kode's to
keep them durably and to read them back, and of the bytes on disk. git is asked in its best way: one
process for all files, one sync for a batch of objects, then a tree and a commit that name them.
"""

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.measure import report
from kode.session.content_store import MEGABYTE, Contents

COUNTS = (1, 100, 2_000)
ROUNDS = 5
GIT = ["git", "-c", "core.fsync=all", "-c", "core.fsyncMethod=batch", "-c", "gc.auto=0"]
GIT += ["-c", "user.name=bench", "-c", "user.email=b@example.test"]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the figures; exits 0 whatever they are."""
    figures: dict[str, object] = {}
    for count in COUNTS:
        rounds = []
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
                rounds.append(_round(Path(folder), count))
        middle = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        figures[f"{count} files"] = {
            what: {
                "kode": round(middle[f"kode_{what}"], 1),
                "git": round(middle[f"git_{what}"], 1),
                "ratio": round(middle[f"git_{what}"] / middle[f"kode_{what}"], 2),
            }
            for what in ("keep_ms", "read_ms", "kb")
        }
    report("undo_git", figures, argv or [])
    return 0


def _round(folder: Path, count: int) -> Mapping[str, float]:
    work = folder / "work"
    work.mkdir()
    for number in range(count):
        (work / f"f{number}.py").write_text(f"value_{number} = {number}\n" * (2048 // 20))
    paths = [str(work / f"f{number}.py") for number in range(count)]

    contents = Contents(folder / "kode", max_file_bytes=5 * MEGABYTE, max_bytes=200 * MEGABYTE)
    found = {"kode_keep_ms": _timed(lambda: contents.keep_all(paths))}
    states = sorted(path.name for path in (folder / "kode").iterdir())
    found["kode_read_ms"] = _timed(lambda: [contents.data(state) for state in states])

    bare = folder / "bare"
    found["git_keep_ms"] = _timed(lambda: _keep(bare, paths))
    ids = _git(bare, "ls-tree", "-r", "--object-only", "HEAD").decode()
    found["git_read_ms"] = _timed(lambda: _git(bare, "cat-file", "--batch", given=ids))
    return found | {"kode_kb": _kb(folder / "kode"), "git_kb": _kb(bare)}


def _keep(bare: Path, paths: Sequence[str]) -> None:
    subprocess.run([*GIT, "init", "-q", "--bare", str(bare)], check=True)
    _git(bare, "config", "core.bare", "false")
    (bare / "info").mkdir(exist_ok=True)
    (bare / "info/attributes").write_text("* -text -filter -ident -working-tree-encoding\n")
    names = "".join(f"{path.removeprefix('/')}\n" for path in paths)
    _git(bare, "--work-tree=/", "update-index", "--add", "--stdin", given=names)
    commit = _git(bare, "commit-tree", "-m", "1", _git(bare, "write-tree").decode().strip())
    _git(bare, "update-ref", "HEAD", commit.decode().strip())


def _git(bare: Path, *words: str, given: str = "") -> bytes:
    command = [*GIT, f"--git-dir={bare}", *words]
    done = subprocess.run(command, input=given.encode(), stdout=-1, check=True, cwd="/")
    return done.stdout


def _kb(folder: Path) -> float:
    paths = [Path(top) / name for top, _, names in os.walk(folder) for name in names]
    return sum(path.stat().st_blocks for path in paths) / 2


def _timed(do: Callable[[], object]) -> float:
    """Milliseconds."""
    started = time.perf_counter()
    do()
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    raise SystemExit(main())

"""Small stores with known defects, and one without, to prove that the tests find what they seek.

Each keeps facts (a file that is replaced whole) or lines (a file that grows) in a folder, and says
`done N` on standard output when number N is kept. Run as a program:

    python -m tests.faults.stand_ins STORE FOLDER FIRST LAST [wait]

With `wait` it begins when a line comes on standard input.
"""

import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

FACTS, LINES = "facts", "lines"


def in_place(folder: Path, number: int) -> None:
    """Defect: the old content is gone before the new one is there."""
    with _lock(folder):
        facts = _facts(folder)
        descriptor = os.open(folder / FACTS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(descriptor, b"".join(b"%d\n" % n for n in [*facts, number]))
        os.fsync(descriptor)
        os.close(descriptor)
        _sync_folder(folder)


def rename_without_fsync(folder: Path, number: int) -> None:
    """Defect: after a power cut the new name may stand for an empty file."""
    with _lock(folder):
        _write_new(folder, [*_facts(folder), number], sync=False)
        os.rename(folder / "new", folder / FACTS)
        _sync_folder(folder)


def rename_without_folder_fsync(folder: Path, number: int) -> None:
    """Defect: a power cut may undo the rename. A process that is killed never shows it."""
    with _lock(folder):
        _write_new(folder, [*_facts(folder), number], sync=True)
        os.rename(folder / "new", folder / FACTS)


def append_on_torn_tail(folder: Path, number: int) -> None:
    """Defect: a line is glued to the half of one that a crash left."""
    with _lock(folder):
        descriptor = os.open(folder / LINES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, b"line %d.\n" % number)
        os.fsync(descriptor)
        os.close(descriptor)
        _sync_folder(folder)


def append_without_fsync(folder: Path, number: int) -> None:
    """Defect: the line is confirmed while only the page cache has it."""
    with _lock(folder):
        _cut_torn(folder)
        descriptor = os.open(folder / LINES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, b"line %d.\n" % number)
        os.close(descriptor)
        _sync_folder(folder)


def no_lock(folder: Path, number: int) -> None:
    """Defect: two processes read the same old content, and one overwrites the other."""
    facts = _facts(folder)
    time.sleep(0.001)  # so that another has its turn, however busy the machine is
    _write_new(folder, [*facts, number], sync=True, name=f"new{os.getpid()}")
    os.rename(folder / f"new{os.getpid()}", folder / FACTS)
    _sync_folder(folder)


def pid_file(folder: Path, number: int) -> None:
    """Defect: a lock that outlives the process that was killed."""
    held = folder / "pid"
    deadline = time.monotonic() + 0.05
    while True:
        try:
            os.close(os.open(held, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            break
        except FileExistsError:
            if time.monotonic() > deadline:
                raise SystemExit("another process holds the lock") from None
            time.sleep(0.01)
    _write_new(folder, [*_facts(folder), number], sync=True)
    os.rename(folder / "new", folder / FACTS)
    _sync_folder(folder)
    os.unlink(held)


def sound_facts(folder: Path, number: int) -> None:
    """No defect: what kode does."""
    from kode import durable

    with durable.locked(folder):
        facts = [*_facts(folder), number]
        durable.replace(folder / FACTS, b"".join(b"%d\n" % n for n in facts))


def sound_lines(folder: Path, number: int) -> None:
    """No defect: what kode does."""
    from kode import durable

    durable.append_lines(folder / LINES, [b"line %d." % number])


STORES: dict[str, Callable[[Path, int], None]] = {
    store.__name__: store
    for store in (
        in_place,
        rename_without_fsync,
        rename_without_folder_fsync,
        append_on_torn_tail,
        append_without_fsync,
        no_lock,
        pid_file,
        sound_facts,
        sound_lines,
    )
}


def kept(folder: Path) -> set[int]:
    """The numbers that can be read back, from whichever file there is."""
    numbers = set()
    with contextlib.suppress(FileNotFoundError):
        numbers |= {int(n) for n in (folder / FACTS).read_bytes().split(b"\n") if n.isdigit()}
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / LINES).read_bytes().split(b"\n")[:-1]:
            if line.startswith(b"line ") and line.endswith(b".") and line[5:-1].isdigit():
                numbers.add(int(line[5:-1]))
    return numbers


def _facts(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / FACTS).read_bytes().splitlines() if line.isdigit()]
    except FileNotFoundError:
        return []


def _write_new(folder: Path, facts: list[int], *, sync: bool, name: str = "new") -> None:
    descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(descriptor, b"".join(b"%d\n" % n for n in facts))
    if sync:
        os.fsync(descriptor)
    os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _cut_torn(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        data = (folder / LINES).read_bytes()
        os.truncate(folder / LINES, data.rfind(b"\n") + 1)


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def main() -> None:
    store, folder = STORES[sys.argv[1]], Path(sys.argv[2])
    if sys.argv[5:] == ["wait"]:
        sys.stdin.readline()
    for number in range(int(sys.argv[3]), int(sys.argv[4])):
        store(folder, number)
        os.write(1, b"done %d\n" % number)


if __name__ == "__main__":
    main()

"""Trees with links at every component, swapped in by a process beside while kode writes.

Every function that writes below a folder which others change: nothing may come to be elsewhere.
"""

import contextlib
import itertools
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kode import beneath, durable
from kode.errors import StorageError
from kode.sandbox.layer import Layer, apply_changes
from kode.sandbox.reach import Reach, VisiblePlace
from kode.tool import FileChange
from kode.undo.store import LINK, Seen
from kode.undo.undo import change_file
from tests.effort import share
from tests.undo.changes import save, tree, undo_in

SWAPPER = """
import ctypes, os, sys
folder, to = sys.argv[1:]
link, count, exchange = folder + ".link", 0, ctypes.CDLL(None).renameat2
names = os.fsencode(folder), os.fsencode(link)
os.symlink(to, link)
while not os.path.exists(folder + ".stop"):
    if exchange(-100, names[0], -100, names[1], 2) == 0:
        count += 1
        if count == 1:
            print("swaps", flush=True)
        if count == 50:
            open(folder + ".often", "x").close()
    else:  # what was there has been removed
        try:
            os.mkdir(folder)
        except OSError:
            pass
if os.path.islink(folder):
    exchange(-100, names[0], -100, names[1], 2)
if os.path.islink(link):
    os.unlink(link)
"""


@contextlib.contextmanager
def swapped(folder: Path, to: Path) -> Iterator[Path]:
    """Meanwhile a process swaps the folder for a link to another, and back, from before the first
    write to after the last. Yields a file that is there once it has done so often."""
    words = (sys.executable, "-I", "-S", "-c", SWAPPER, str(folder), str(to))
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    stop, often = Path(f"{folder}.stop"), Path(f"{folder}.often")
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "swaps\n"
        yield often
        while not often.exists():
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        stop.touch()
        process.communicate(timeout=30)
        stop.unlink()
    often.unlink()


STEPS = ("a", "b", "c")
NAMES = ("f0", "f1", "f2", "f3")
Writer = Callable[["Ground", int], None]


class Ground:
    """`work/a/b/c` with files in every folder, and `elsewhere` with the same folders."""

    def __init__(self, top: Path) -> None:
        self.work, self.elsewhere, self.kept = (top / n for n in ("work", "elsewhere", "kept"))
        for root in (self.work, self.elsewhere):
            root.joinpath(*STEPS).mkdir(parents=True)
        self.kept.mkdir()
        self.before = tree(self.elsewhere)

    def targets(self, depth: int) -> Iterator[Path]:
        """Files at and below the folder of this depth."""
        for steps in (STEPS[:depth], STEPS, (*STEPS, "new", "newer")):
            for name in NAMES:
                yield self.work.joinpath(*steps, name)


def by_apply(ground: Ground, depth: int) -> None:
    layer = Layer(root=ground.work, holder=ground.kept / secrets.token_hex(4), made_ns=2**62)
    reach = Reach(places=(VisiblePlace(Path("/"), "readable"),), temporary="/tmp", network="none")
    paths = list(ground.targets(depth))
    for path in paths:
        file = layer.upper / path.relative_to(ground.work)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("new")
    wanted = [FileChange(path=str(path), change="added") for path in paths]
    apply_changes(layer, wanted, reach)
    gone = [FileChange(path=str(path), change="deleted") for path in paths]
    apply_changes(layer, gone, reach)


def by_undo(ground: Ground, depth: int) -> None:
    """As undo, and a replay's copy, do."""
    contents = undo_in(ground.kept).contents
    states = (None, save(contents, b"new"), f"{LINK}/etc", None)
    for before, goal in itertools.pairwise(states):
        for path in ground.targets(depth):
            with contextlib.suppress(OSError, StorageError):
                change_file(contents, str(path), Seen(before), Seen(goal))


def by_tools(ground: Ground, depth: int) -> None:
    """As file tools do, and a fleet with its trees, locks and results."""
    for path in ground.targets(depth):
        with contextlib.suppress(OSError, StorageError):
            with beneath.open_folder(path.parent, make=beneath.folder_mode) as folder:
                beneath.make_link("/etc", folder, f"{path.name}.link")
                beneath.remove_entry(folder, f"{path.name}.link")
            durable.replace_file(path, b"new", mode=0o644, follow=False)
        with contextlib.suppress(OSError), beneath.open_folder(path.parent) as folder:
            os.unlink(path.name, dir_fd=folder)
        with contextlib.suppress(StorageError), durable.hold_lock(path.parent, follow=False):
            pass
        with contextlib.suppress(OSError), beneath.open_folder(path.parent.parent) as above:
            beneath.remove_entry(above, path.parent.name)


def by_name(ground: Ground, depth: int) -> None:
    for path in ground.targets(depth):
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("new")


WRITERS = (by_apply, by_undo, by_tools)


def came_elsewhere(writer: Writer, depth: int, rounds: int) -> bool:
    """Whether a writer, while the folder of that depth is swapped, has written elsewhere."""
    with tempfile.TemporaryDirectory() as top:
        ground = Ground(Path(top).resolve())
        swap = ground.work.joinpath(*STEPS[:depth])
        with swapped(swap, ground.elsewhere.joinpath(*STEPS[:depth])) as often:
            found = False
            while rounds > 0 or not often.exists():
                writer(ground, depth)
                found = found or tree(ground.elsewhere) != ground.before
                rounds = 0 if found else rounds - 1
        return found


@pytest.mark.parametrize("writer", WRITERS)
@settings(max_examples=share(3), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(depth=st.integers(1, len(STEPS)))
def test_no_writer_writes_elsewhere_while_folders_are_swapped(writer: Writer, depth: int) -> None:
    assert not came_elsewhere(writer, depth, rounds=6)


def test_a_write_by_name_comes_elsewhere() -> None:
    """Else no swap was ever in the way."""
    assert came_elsewhere(by_name, len(STEPS), 2000)

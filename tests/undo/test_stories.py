"""Generated stories: a turn changes files, folders, links and modes, and is undone and redone. kode
dies at any write, sync, rename or removal of it, and is started again: no state is half way.

Here a sample; `KODE_TEST_EFFORT` and `python -m tests.undo.test_stories 2000` take more.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from kode.undo.undo import Undo
from tests.effort import share
from tests.undo.changes import tree, turn_id, undo_in

STORIES = 200
KINDS = ("known", "known", "known", "walked", "git")
NAMES = "a b d/a d/b d/e/a new/er/a new/b out.log link empty d/empty".split()
EVENTS = ("fsync", "write", "rename", "unlink", "mkdir", "rmdir", "symlink", "fchmod")

Operation = Callable[[], None]


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@contextmanager
def killed_at(number: int) -> Iterator[list[str]]:
    """Ends the process at the n-th event; whatever it does afterwards has no effect. Yields the
    events."""
    events: list[str] = []

    def killable(name: str, function: Callable[..., object]) -> Callable[..., object]:
        def run(*given: object, **named: object) -> object:
            events.append(name)
            if len(events) >= number:
                raise Killed
            return function(*given, **named)

        return run

    patches = {name: killable(name, getattr(os, name)) for name in EVENTS}
    with mock.patch.multiple(os, **patches), suppress(Killed):
        yield events


def remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        for inner in path.iterdir():
            remove(inner)
        path.rmdir()


def operation(dice: random.Random, path: Path, modes: tuple[int, ...]) -> Operation:
    def write() -> None:
        if path.is_symlink() or path.is_dir():
            remove(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        data = dice.randbytes(dice.choice((0, 3, 300)))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(data)

    def link() -> None:
        remove(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.symlink("a", path)

    def folder() -> None:
        if not path.is_dir() or path.is_symlink():
            remove(path)
        path.mkdir(parents=True, exist_ok=True)

    def chmod() -> None:
        if path.exists() and not path.is_symlink():
            path.chmod(dice.choice(modes))

    # Nobody looks into a folder that git ignores.
    others = [] if path.suffix == ".log" else [folder]
    return dice.choice((write, write, write, lambda: remove(path), link, chmod, *others))


class Story:
    def __init__(self, folder: Path, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        self.folder, self.project = folder, folder / "project"
        self.kind = dice.choice(KINDS if shutil.which("git") else KINDS[:-1])
        # Of a file as committed, git knows only whether it is a program.
        self.modes = (0o755,) if self.kind == "git" else (0o700, 0o755, 0o600)
        self.project.mkdir()
        for name in ("a", "b", "d/a", "d/e/a", "d/e/kept"):
            path = self.project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"first {name}")
        (self.project / "link").symlink_to("b")
        (self.project / "empty").mkdir()
        if self.kind == "git":
            (self.project / ".gitignore").write_text("*.log\n")
            who = ("-c", "user.name=n", "-c", "user.email=e@x")
            for words in (("init", "-q"), ("add", "a", "d/e"), (*who, "commit", "-qm", "1")):
                subprocess.run(["git", *words], cwd=self.project, check=True)

    def undo(self) -> Undo:
        marker = self.folder / "unfinished" / "a session"
        return replace(undo_in(self.folder / "undo"), marker=marker, roots=(self.project,))

    def start(self) -> None:
        undo = self.undo()
        undo.remove_stale_temporaries()
        undo.finish()
        undo.confirm()

    def turn(self, number: int) -> None:
        """Several steps of one turn."""
        undo = self.undo()
        for _ in range(self.dice.randint(1, 3)):
            names = self.dice.sample(NAMES, self.dice.randint(1, 4))
            paths = [self.project / name for name in names]
            if any(map(has_no_folder, paths)):
                continue
            if self.kind == "known":
                named = {
                    above
                    for path in (self.project / name for name in NAMES)
                    for above in (path, *path.parents)
                    if self.project in above.parents
                }
                known = sorted({*map(str, named), *map(str, self.project.rglob("*"))})
                backup = undo.begin(turn_id(number), known)
            else:
                backup = undo.begin(turn_id(number), writes=())
            for path in paths:
                if not has_no_folder(path):
                    operation(self.dice, path, self.modes)()
            undo.end(backup)

    def play(self) -> int:
        """Returns how often it was killed. Raises: AssertionError for a half state."""
        kills = 0
        before = tree(self.project)
        number = self.dice.randint(1, 60) if self.kind == "known" else 10**9
        with killed_at(number) as events:
            self.turn(1)
        kills += len(events) >= number
        self.start()
        after = tree(self.project)
        for _ in range(self.dice.randint(1, 3)):
            for goal, other, name in ((before, after, "undo"), (after, before, "redo")):
                number = self.dice.randint(1, 40)
                with killed_at(number) as events:
                    undo = self.undo()
                    getattr(undo, name)()
                    undo.confirm()
                kills += len(events) >= number
                self.start()
                if before != after and tree(self.project) == other:  # it had not begun
                    getattr(self.undo(), name)()
                    self.undo().confirm()
                now = tree(self.project)
                wrong = {path for path in {*now, *goal} if now.get(path) != goal.get(path)}
                assert not wrong, f"{self.kind}, {name}: {sorted(wrong)}"
        return kills


def has_no_folder(path: Path) -> bool:
    """Whether it is below a link or a file."""
    above = [parent for parent in path.parents if parent.is_symlink() or parent.exists()]
    return any(parent.is_symlink() or not parent.is_dir() for parent in above)


def tell(seed: int) -> int:
    folder = Path(tempfile.mkdtemp(prefix="story-")).resolve()
    try:
        return Story(folder, seed).play()
    except AssertionError as error:
        raise AssertionError(f"story {seed}: {error}") from error
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("part", range(4))
def test_a_story_with_kills_has_no_half_state(part: int) -> None:
    count = share(STORIES // 4)
    kills = sum(tell(part * count + number) for number in range(count))
    assert kills >= count


if __name__ == "__main__":
    print(sum(map(tell, range(int(sys.argv[1])))), "kills, no half state")

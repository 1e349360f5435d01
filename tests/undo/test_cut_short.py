"""An undo that meets a full disk, or is killed while a person edits on, is completed and loses
nothing. Kills at every event are in `test_stories`."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kode.errors import StorageError
from kode.undo.store import Contents
from kode.undo.undo import Undo
from tests.undo.changes import change, step, undo_in

FILES = 6


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@contextmanager
def after(count: int, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets so many files be written; each later one ends in `error`."""
    restore, done = Contents.restore, []

    def some(self: Contents, path: Path, *args: object, **more: object) -> None:
        if len(done) >= count:
            raise error
        done.append(path)
        restore(self, path, *args, **more)

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(Contents, "restore", some)
        yield


class Work:
    """A project of which a turn changed, created and deleted files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir()
        for number in range(FILES):
            (self.project / f"{number}.txt").write_text("before")
        self.before = self.tree()
        for number in range(FILES):
            path = self.project / f"{number}.txt"
            change(self.opened(), 1, path, None if number % 3 == 0 else "after")
        new = self.project / "deep" / "er" / "new.txt"
        with step(self.opened(), 1, new):
            new.parent.mkdir(parents=True)
            new.write_text("new")
        self.after = self.tree()

    def opened(self) -> Undo:
        marker = self.folder / "unfinished" / "a session"
        return replace(undo_in(self.folder / "undo"), marker=marker)

    def tree(self) -> dict[str, str | None]:
        return {
            str(path.relative_to(self.project)): path.read_text() if path.is_file() else None
            for path in self.project.rglob("*")
        }


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path)


@pytest.mark.parametrize("count", [0, 3])
def test_an_undo_on_a_full_disk_is_completed_by_another(
    work: Work, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    full = StorageError("Could not write. The disk is full.")
    full.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    with after(count, full, monkeypatch):
        for _ in range(2):
            with pytest.raises(StorageError, match=r"/undo"):
                work.opened().undo()

    done = work.opened().undo()

    assert (done.turn, done.resumed, done.left_alone) == (1, True, ())
    assert work.tree() == work.before
    assert work.opened().redo().turn == 1
    assert work.tree() == work.after


def test_an_edit_after_a_kill_is_left_alone(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    with after(2, Killed(), monkeypatch):
        work.opened().undo()
    mine = work.project / "5.txt"
    mine.write_text("mine")
    (work.project / ".kode-tmp-0123").write_text("half a file")

    done = work.opened().finish()

    assert done is not None
    assert [path for path, _ in done.left_alone] == [str(mine)]
    assert work.tree() == {**work.before, "5.txt": "mine"}


def test_a_session_learns_of_an_undo_after_a_kill(work: Work) -> None:
    done, again = work.opened().undo(), work.opened().finish()

    assert again is not None
    assert (again.step.id, {*again.touched}) == (done.step.id, {*done.touched})
    work.opened().confirm()
    assert work.opened().finish() is None


def test_a_redo_of_some_files_keeps_the_others_redoable(work: Work) -> None:
    work.opened().undo()
    held = work.project / "1.txt"
    held.write_text("mine")
    assert [path for path, _ in work.opened().redo().left_alone] == [str(held)]
    work.opened().undo()
    held.write_text("before")

    work.opened().redo()

    assert work.tree() == work.after


def test_folders_made_for_a_file_go_with_it(work: Work) -> None:
    (work.project / "deep" / "mine.txt").write_text("mine")

    undone = work.opened().undo()

    assert [path for path, _ in undone.left_alone] == [str(work.project / "deep")]
    assert work.tree() == {**work.before, "deep": None, "deep/mine.txt": "mine"}
    work.opened().redo()
    assert work.tree() == {**work.after, "deep/mine.txt": "mine"}

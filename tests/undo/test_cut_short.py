"""An undo or a redo that is killed, or meets a full disk, is completed and loses nothing."""

import contextlib
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kode import beneath
from kode.errors import StorageError
from kode.undo.store import Contents
from kode.undo.undo import Undo
from tests.undo.changes import change, step, turn_id, undo_in

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

    with monkeypatch.context() as patch:
        patch.setattr(Contents, "restore", some)
        yield


def full_disk() -> StorageError:
    error = StorageError("Could not write. The disk is full.")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    return error


class Work:
    """A project of which a turn changed, created and deleted files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir()
        for number in range(FILES):
            (self.project / f"{number}.txt").write_text("before")
        self.before = self.tree()
        kept = self.opened()
        for number in range(FILES):
            path = self.project / f"{number}.txt"
            change(kept, 1, path, None if number % 3 == 0 else "after")
        new = self.project / "deep" / "er" / "new.txt"
        with step(kept, 1, new):
            new.parent.mkdir(parents=True)
            new.write_text("new")
        self.after = self.tree()

    def opened(self) -> Undo:
        marker = self.folder / "unfinished" / "a session"
        return replace(undo_in(self.folder / "undo"), marker=marker)

    def finish(self) -> None:
        """As a start does."""
        undo = self.opened()
        undo.finish()
        undo.confirm()

    @property
    def marked(self) -> bool:
        return (self.folder / "unfinished" / "a session").exists()

    def tree(self) -> dict[str, str | None]:
        return {
            str(path.relative_to(self.project)): path.read_text() if path.is_file() else None
            for path in self.project.rglob("*")
        }


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path)


@pytest.mark.parametrize("count", range(FILES + 2))
def test_a_killed_undo_is_completed_at_the_next_start(
    work: Work, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    with after(count, Killed(), monkeypatch):
        try:
            work.opened().undo()
        except Killed:
            assert work.marked

    work.finish()

    assert work.tree() == work.before
    assert not work.marked
    assert work.opened().finish() is None
    work.opened().redo()
    assert work.tree() == work.after


@pytest.mark.parametrize("left", ["deep", "deep/er"])
def test_a_killed_undo_leaves_no_folders_of_files_it_removed(
    work: Work, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    def killed(path: Path) -> None:
        if path == work.project / left:
            raise Killed
        remove(path)

    remove = beneath.remove_folder
    with monkeypatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(beneath, "remove_folder", killed)
        work.opened().undo()
    assert (work.project / left).is_dir()

    work.finish()

    assert work.tree() == work.before
    work.opened().redo()
    assert work.tree() == work.after


@pytest.mark.parametrize("count", range(FILES + 2))
def test_a_killed_redo_is_completed_at_the_next_start(
    work: Work, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    work.opened().undo()
    with after(count, Killed(), monkeypatch):
        try:
            work.opened().redo()
        except Killed:
            assert work.marked

    work.finish()

    assert work.tree() == work.after
    work.opened().undo()
    assert work.tree() == work.before
    work.opened().redo()
    assert work.tree() == work.after


@pytest.mark.parametrize("count", [0, 3])
def test_an_undo_on_a_full_disk_is_completed_by_another(
    work: Work, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    kept = work.opened()
    with after(count, full_disk(), monkeypatch):
        cut = kept.undo()
        again = kept.undo()

    assert (cut.turn, again.turn, again.resumed) == (1, 1, True)
    assert len(cut.touched) == count
    assert {path for path, _ in again.failed} == {path for path, _ in cut.failed}
    assert not cut.left_alone

    done = kept.undo()

    assert (done.turn, done.failed) == (1, ())
    assert work.tree() == work.before
    assert kept.redo().turn == 1
    assert work.tree() == work.after


def test_a_file_edited_after_the_kill_is_left_alone(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    with after(0, Killed(), monkeypatch), pytest.raises(Killed):
        work.opened().undo()
    mine = work.project / "1.txt"
    mine.write_text("mine")

    done = work.opened().finish()

    assert done is not None
    assert [path for path, _ in done.left_alone] == [str(mine)]
    assert work.tree() == {**work.before, "1.txt": "mine"}


def test_a_half_written_file_of_a_killed_undo_goes(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    with after(2, Killed(), monkeypatch), pytest.raises(Killed):
        work.opened().undo()
    (work.project / ".kode-tmp-0123").write_text("bef")

    work.finish()

    assert work.tree() == work.before


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
    work.opened().undo()
    assert (work.project / "deep").is_dir()
    assert not (work.project / "deep" / "er").exists()

    work.opened().redo()

    assert work.tree() == {**work.after, "deep/mine.txt": "mine"}


@pytest.mark.parametrize("made", ["other", "other/er"])
def test_folders_made_before_a_kill_go_without_their_file(work: Work, made: str) -> None:
    work.opened().begin(turn_id(2), [str(work.project / "other" / "er" / "new.txt")])
    (work.project / made).mkdir(parents=True)

    work.opened().undo()

    assert work.tree() == work.after

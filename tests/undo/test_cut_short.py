"""An undo that meets a full disk, or is killed while a person edits on, is completed and loses
nothing. Kills at every event are in `test_stories`."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kode.errors import StorageError
from kode.undo.store import Contents
from kode.undo.undo import Undo
from tests.undo.changes import change, step, tree, undo_in
from tests.undo.test_stories import Killed


@contextmanager
def after(count: int, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets so many files be written; each later one ends in `error`."""
    restore, done = Contents.restore, []

    def some(self: Contents, path: Path, *args: object) -> None:
        if len(done) >= count:
            raise error
        done.append(path)
        restore(self, path, *args)

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(Contents, "restore", some)
        yield


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    for number in range(6):
        (project / f"{number}.txt").write_text("before")
    return project


@pytest.fixture
def opened(project: Path) -> Callable[[], Undo]:
    """A turn has changed and deleted files of the project, and created one."""

    def open_again() -> Undo:
        marker = project.parent / "unfinished" / "a session"
        return replace(undo_in(project.parent / "undo"), marker=marker)

    for number in range(6):
        change(open_again(), 1, project / f"{number}.txt", None if number % 3 == 0 else "after")
    new = project / "deep" / "er" / "new.txt"
    with step(open_again(), 1, new):
        new.parent.mkdir(parents=True)
        new.write_text("new")
    return open_again


BEFORE = {f"{number}.txt": b"before" for number in range(6)}


def held(project: Path) -> dict[str, object]:
    return {name: what[0] for name, what in tree(project).items()}


@pytest.mark.parametrize("count", [0, 3])
def test_an_undo_on_a_full_disk_is_completed_by_another(
    project: Path, opened: Callable[[], Undo], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    changed = held(project)
    full = StorageError("Could not write. The disk is full.")
    full.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    with after(count, full, monkeypatch):
        for _ in range(2):
            with pytest.raises(StorageError, match=r"/undo"):
                opened().undo()

    done = opened().undo()

    assert (done.turn, done.is_continued, done.left_alone) == (1, True, ())
    assert held(project) == BEFORE
    assert opened().redo().turn == 1
    assert held(project) == changed


def test_an_edit_after_a_kill_is_left_alone(
    project: Path, opened: Callable[[], Undo], monkeypatch: pytest.MonkeyPatch
) -> None:
    with after(2, Killed(), monkeypatch):
        opened().undo()
    mine = project / "5.txt"
    mine.write_text("mine")
    (project / ".kode-tmp-0123").write_text("half a file")

    done = opened().finish()

    assert done is not None
    assert [path for path, _ in done.left_alone] == [str(mine)]
    assert held(project) == {**BEFORE, "5.txt": b"mine"}


def test_a_session_learns_of_an_undo_after_a_kill(opened: Callable[[], Undo]) -> None:
    done, again = opened().undo(), opened().finish()

    assert again is not None
    assert (again.step.id, {*again.changed_files}) == (done.step.id, {*done.changed_files})
    opened().confirm()
    assert opened().finish() is None


def test_a_redo_of_some_files_keeps_the_others_redoable(
    project: Path, opened: Callable[[], Undo]
) -> None:
    changed, mine = held(project), project / "1.txt"
    opened().undo()
    mine.write_text("mine")
    assert [path for path, _ in opened().redo().left_alone] == [str(mine)]
    opened().undo()
    mine.write_text("before")

    opened().redo()

    assert held(project) == changed


def test_folders_made_for_a_file_go_with_it(project: Path, opened: Callable[[], Undo]) -> None:
    (project / "deep" / "mine.txt").write_text("mine")

    undone = opened().undo()

    assert [path for path, _ in undone.left_alone] == [str(project / "deep")]
    assert held(project) == {**BEFORE, "deep": "folder", "deep/mine.txt": b"mine"}

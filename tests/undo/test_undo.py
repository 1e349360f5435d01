import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from kode.errors import StorageError
from kode.undo.journal import TurnId
from kode.undo.store import Contents, drop_oldest_of_all
from kode.undo.undo import Undo, file_diffs
from tests.undo.changes import change, save, step, tree, undo_in
from tests.undo.test_stories import Killed


@pytest.fixture
def undo(tmp_path: Path) -> Undo:
    return undo_in(tmp_path / "undo")


def test_undo_goes_back_turn_by_turn_and_redo_forward(undo: Undo, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    change(undo, 1, path, "two", "two and a half")
    change(undo, 2, path, "three")

    undone = undo.undo()
    assert (undone.turn, [*undone.changed_files]) == (2, [str(path)])
    assert (undone.step.turn.id, path.read_text()) == ("message 2", "two and a half")
    assert [group.turn.number for group in undone.history.undoable] == [1]
    assert undo.undo().history.undoable == []
    assert path.read_text() == "one"
    assert undo.undo().turn is None

    assert [group.turn.number for group in undo.redo().history.redoable] == [2]
    assert path.read_text() == "two and a half"
    assert undo.redo().history.redoable == []
    assert path.read_text() == "three"
    assert undo.redo().turn is None

    undo.undo()
    change(undo, 3, path, "other")  # ends what could be redone
    assert undo.redo().turn is None


def test_files_that_the_person_changed_are_left_and_named(undo: Undo, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    change(undo, 1, path, None)
    path.write_text("mine")
    assert [left for left, _ in undo.undo().left_alone] == [str(path)]

    path.unlink()
    undo.redo()
    undo.undo()
    path.write_text("mine")
    assert [left for left, _ in undo.redo().left_alone] == [str(path)]
    assert path.read_text() == "mine"


def test_undo_returns_to_the_persons_change_within_a_turn(undo: Undo, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    change(undo, 1, path, "two")
    path.write_text("mine")
    change(undo, 1, path, "three")

    undo.undo()
    assert path.read_text() == "mine"
    undo.redo()
    assert path.read_text() == "three"


def test_a_change_right_after_the_tools_is_the_persons(undo: Undo, tmp_path: Path) -> None:
    path, idle = tmp_path / "a.txt", tmp_path / "b.txt"
    with step(undo, 1, path) as backup:
        backup.written[str(path)] = hashlib.sha256(b"the tool's").hexdigest()
        path.write_text("mine")
    with step(undo, 1, idle):
        pass
    idle.write_text("mine")

    assert [left for left, _ in undo.undo().left_alone] == [str(path)]
    assert path.read_text() == idle.read_text() == "mine"


def test_a_file_below_a_linked_folder_is_left_alone(undo: Undo, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "a.txt").write_text("one")
    change(undo, 1, folder / "a.txt", "two")
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)

    assert [left for left, _ in undo.undo().left_alone] == [str(folder / "a.txt")]
    assert (elsewhere / "a.txt").read_text() == "two"


def test_a_damaged_content_and_one_deleted_for_space_differ(undo: Undo, tmp_path: Path) -> None:
    damaged, deleted = tmp_path / "a.txt", tmp_path / "b.txt"
    for turn, path in enumerate((damaged, deleted)):
        path.write_text(f"old {path.name}")
        change(undo, turn, path, "new")
    contents = undo.contents
    states = [
        hashlib.sha256(f"old {path.name}".encode()).hexdigest() for path in (damaged, deleted)
    ]
    (contents.folder / states[0]).write_text("damaged")
    (contents.folder / states[1]).unlink()
    assert contents.read_saved(states[0]) is contents.read_saved("../../etc/passwd") is None

    reasons = dict(undo.undo().left_alone + undo.undo().left_alone)

    (aside,) = contents.folder.glob(f"{states[0]}.damaged-*")
    assert aside.read_text() == "damaged"
    assert str(aside) in reasons[str(damaged)]
    assert "damaged" not in reasons[str(deleted)]
    assert damaged.read_text() == deleted.read_text() == "new"
    assert save(contents, b"old a.txt") == states[0]
    assert contents.read_saved(states[0]) == b"old a.txt"


def test_a_journal_that_lost_its_end_says_so_for_good(undo: Undo, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    for turn, path in enumerate(paths):
        path.write_text("before")
        change(undo, turn, path, "after")
    lines = undo.journal.read_bytes().splitlines(keepends=True)
    undo.journal.write_bytes(b"".join(lines[:2]))

    undone, again = undo_in(undo.folder).undo(), undo_in(undo.folder).undo()

    assert [*undone.changed_files] == [str(paths[0])]
    assert undone.history.damaged == again.history.damaged == 1


def test_a_file_too_large_is_left_alone_and_named(tmp_path: Path) -> None:
    undo, path = undo_in(tmp_path / "undo", max_bytes=20), tmp_path / "a.txt"
    path.write_text("more than ten bytes")
    with step(undo, 1, path) as backup:
        path.write_text("two")
    assert backup.not_saved == {str(path)}
    assert undo.undo().turn is None
    assert path.read_text() == "two"


def test_a_diff_compares_with_the_first_content(undo: Undo, tmp_path: Path) -> None:
    path, other = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_text("one\n")
    change(undo, 1, path, "two\n")
    change(undo, 2, path, "three\n")
    change(undo, 3, other, "mine\n", None)

    (diff,) = file_diffs(undo, tmp_path)

    assert (diff.path, diff.count("+"), diff.count("-")) == ("a.txt", 1, 1)
    assert diff.text.splitlines()[-2:] == ["-one", "+three"]


@contextmanager
def failing_from(count: int, error: BaseException, last: int = 99) -> Iterator[None]:
    """The files of these numbers are not written: each ends in `error`."""
    restore, numbers = Contents.restore, iter(range(99))

    def some(self: Contents, path: Path, *args: object) -> None:
        if count <= next(numbers) <= last:
            raise error
        restore(self, path, *args)

    with mock.patch.object(Contents, "restore", some), suppress(Killed):
        yield


def test_one_failing_file_of_an_undo_is_left_and_named(undo: Undo, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.txt" for number in range(3)]
    for path in paths:
        path.write_text("before")
        change(undo, 1, path, "after")

    with failing_from(1, OSError("the disk says no"), last=1):
        ((_, why),) = undo.undo().left_alone

    assert why == "the disk says no"
    assert sorted(path.read_text() for path in paths) == ["after", "before", "before"]


def test_the_turns_since_one_stop_at_dropped_ones(undo: Undo, tmp_path: Path) -> None:
    for place, number in enumerate((1, 2, 3, 2)):
        change(undo, TurnId(f"message {place}", number), tmp_path / "a.txt", f"{place}")

    past = undo.history()
    assert [group.turn.number for group in past.since(1)] == [2]
    undo.undo()
    assert [group.turn.number for group in undo.history().since(2)] == [3, 2]


# ── an undo that meets a full disk, or is killed while a person edits on ─────────────────────────

BEFORE = {f"{number}.txt": b"before" for number in range(6)}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    for name, text in BEFORE.items():
        (project / name).write_bytes(text)
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


def held(project: Path) -> dict[str, object]:
    return {name: what[0] for name, what in tree(project).items()}


@pytest.mark.parametrize("count", [0, 3])
def test_an_undo_on_a_full_disk_is_completed_by_another(
    project: Path, opened: Callable[[], Undo], count: int
) -> None:
    changed = held(project)
    full = StorageError("Could not write. The disk is full.")
    full.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    for _ in range(2):
        with failing_from(count, full), pytest.raises(StorageError, match=r"/undo"):
            opened().undo()

    done = opened().undo()

    assert (done.turn, done.is_continued, done.left_alone) == (1, True, ())
    assert held(project) == BEFORE
    assert opened().redo().turn == 1
    assert held(project) == changed


def test_an_edit_after_a_kill_is_left_alone(project: Path, opened: Callable[[], Undo]) -> None:
    with failing_from(2, Killed()):
        opened().undo()
    mine = project / "5.txt"
    mine.write_text("mine")
    (project / ".kode-tmp-0123").write_text("half a file")

    done, again = opened().finish(), opened().finish()

    assert done is not None
    assert again is not None, "a session learns of it until it has confirmed that"
    assert (again.step.id, {*again.changed_files}) == (done.step.id, {*done.changed_files})
    assert [path for path, _ in done.left_alone] == [str(mine)]
    assert held(project) == {**BEFORE, "5.txt": b"mine"}
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


# ── the store ────────────────────────────────────────────────────────────────────────────────


def test_the_oldest_contents_go_first_in_a_full_session(tmp_path: Path) -> None:
    contents = undo_in(tmp_path, max_bytes=1000).contents
    states = []
    for number in range(8):
        states.append(save(contents, bytes([number]) * 150))
        os.utime(contents.folder / states[-1], ns=(number, number))
        save(contents, bytes([0]) * 150)
    left = [contents.read_saved(state) is not None for state in states]
    assert left[0]  # used again each time
    assert left[1:] == sorted(left[1:])
    assert (left[1], left[-1]) == (False, True)
    assert sum(file.stat().st_size for file in contents.folder.iterdir()) <= 1000


def test_the_oldest_of_all_sessions_go_first(tmp_path: Path) -> None:
    saved = []
    for age, session in enumerate(("20260101-000000-aaaaaa", "20260102-000000-bbbbbb")):
        contents = undo_in(tmp_path / "sessions" / session / "undo").contents
        saved.append((contents, save(contents, session.encode() * 100)))
        os.utime(contents.folder / saved[-1][1], ns=(age, age))
    drop_oldest_of_all(tmp_path, 3000)
    assert [contents.read_saved(state) is not None for contents, state in saved] == [False, True]

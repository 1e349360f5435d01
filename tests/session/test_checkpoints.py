import hashlib
import os
from pathlib import Path

import pytest

from kode.session import moves
from kode.session.checkpoints import LOG, Checkpoints
from kode.session.content_store import Contents, Seen
from tests.session.stories import contents_in


def opened(folder: Path, **more: object) -> Checkpoints:
    return Checkpoints(folder=folder, contents=contents_in(folder), **more)


@pytest.fixture
def kept(tmp_path: Path) -> Checkpoints:
    return opened(tmp_path / "checkpoints")


def change(kept: Checkpoints, turn: int, path: Path, *texts: str) -> None:
    for text in texts:
        kept.keep(turn, str(path))
        path.write_text(text)
        kept.changed(str(path))
    kept.end_turn()


def test_undo_goes_back_turn_by_turn_and_redo_forward(kept: Checkpoints, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    change(kept, 1, path, "two")
    change(kept, 2, path, "three")

    undone = kept.undo()
    assert (undone.turn, undone.restored, undone.next_undo) == (2, (str(path),), 1)
    assert path.read_text() == "two"
    assert kept.undo().next_undo is None
    assert path.read_text() == "one"
    assert kept.undo().turn is None

    assert kept.redo().next_redo == 2
    assert path.read_text() == "two"
    assert kept.redo().next_redo is None
    assert path.read_text() == "three"
    assert kept.redo().turn is None


def test_a_turn_after_an_undo_ends_what_could_be_redone(kept: Checkpoints, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    change(kept, 1, path, "two")
    kept.undo()
    change(kept, 1, path, "other")

    assert kept.redo().turn is None
    kept.undo()
    assert path.read_text() == "one"


def test_a_second_turn_with_the_same_number_is_separate(kept: Checkpoints, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    change(kept, 1, path, "two")
    change(kept, 1, path, "three")
    kept.undo()
    assert path.read_text() == "two"


def test_undo_removes_made_files_and_restores_deleted_ones(
    kept: Checkpoints, tmp_path: Path
) -> None:
    made, deleted = tmp_path / "made", tmp_path / "deleted"
    deleted.write_text("kept")
    deleted.chmod(0o755)
    kept.keep(1, str(made))
    kept.keep(1, str(deleted))
    made.write_text("x")
    deleted.unlink()
    kept.end_turn()

    undone = kept.undo()

    assert (undone.restored, undone.removed) == ((str(deleted),), (str(made),))
    assert not made.exists()
    assert deleted.read_text() == "kept"
    assert deleted.stat().st_mode & 0o777 == 0o755
    assert kept.redo().touched == (str(made), str(deleted))
    assert made.read_text() == "x"
    assert not deleted.exists()


def test_undo_takes_back_a_mode_that_alone_was_changed(kept: Checkpoints, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo")
    script.chmod(0o600)
    before = kept.begin_changes(1, [str(script)])
    script.chmod(0o755)
    kept.end_command(1, before)
    kept.end_turn()

    assert kept.undo().restored == (str(script),)
    assert script.stat().st_mode & 0o777 == 0o600


def test_undo_leaves_and_names_files_the_person_changed(kept: Checkpoints, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    change(kept, 1, path, "two")
    path.write_text("mine")

    undone = kept.undo()

    assert undone.restored == ()
    assert [left for left, _ in undone.left_alone] == [str(path)]
    assert path.read_text() == "mine"


def test_redo_leaves_files_the_person_changed_after_undo(kept: Checkpoints, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    change(kept, 1, path, "two")
    kept.undo()
    path.write_text("mine")

    assert [left for left, _ in kept.redo().left_alone] == [str(path)]
    assert path.read_text() == "mine"


def test_undo_returns_to_the_persons_change_within_a_turn(
    kept: Checkpoints, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    kept.keep(1, str(path))
    path.write_text("two")
    kept.changed(str(path))
    path.write_text("mine")
    change(kept, 1, path, "three")

    undone = kept.undo()

    assert path.read_text() == "mine"
    assert undone.notes == (f"{path} has your own edit from during the turn.",)
    kept.redo()
    assert path.read_text() == "three"


def test_a_change_after_an_idle_tool_is_the_persons(kept: Checkpoints, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    kept.keep(1, str(path))
    kept.changed(str(path))
    path.write_text("mine")
    kept.end_turn()
    assert kept.undo().turn is None
    assert path.read_text() == "mine"


def test_several_edits_of_one_turn_are_taken_back_together(
    kept: Checkpoints, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    change(kept, 1, path, "two", "three", "four")
    kept.undo()
    assert path.read_text() == "one"


def test_a_deleted_file_that_the_person_remade_is_left_alone(
    kept: Checkpoints, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    kept.keep(1, str(path))
    path.unlink()
    kept.end_turn()
    path.write_text("mine")
    assert kept.undo().left_alone
    assert path.read_text() == "mine"


@pytest.mark.parametrize("was", ["nothing", "file", "link"])
def test_a_folder_turning_into_a_link_misleads_no_undo(
    kept: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was: str
) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "folder"
    for one in (elsewhere, folder):
        one.mkdir()
    (elsewhere / "a").write_text("mine")
    path = folder / "a"
    if was == "file":
        path.write_text("one")
    elif was == "link":
        path.symlink_to("b")
    kept.keep(1, str(path))
    path.unlink(missing_ok=True)
    path.write_text("two")
    kept.changed(str(path))
    kept.end_turn()
    see = Contents.see

    def see_and_swap(contents: Contents, seen: Path) -> Seen:
        state = see(contents, seen)
        if is_making:
            folder.rename(tmp_path / "moved")
            folder.symlink_to(elsewhere)
        return state

    is_making: list[bool] = []
    make = moves.make
    monkeypatch.setattr(Contents, "see", see_and_swap)
    monkeypatch.setattr(moves, "make", lambda *given: is_making.append(True) or make(*given))

    ((left, _),) = kept.undo().left_alone

    assert left == str(path)
    assert (elsewhere / "a").read_text() == "mine"
    assert (tmp_path / "moved" / "a").read_text() == "two"


@pytest.mark.parametrize("kind", ["file", "link"])
def test_undo_makes_no_folder_behind_a_dangling_link(
    kept: Checkpoints, tmp_path: Path, kind: str
) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "folder"
    elsewhere.mkdir()
    (folder / "sub").mkdir(parents=True)
    path = folder / "sub" / "a"
    path.symlink_to("b") if kind == "link" else path.write_text("one")
    kept.keep(1, str(path))
    path.unlink()
    kept.changed(str(path))
    kept.end_turn()
    (folder / "sub").rmdir()
    folder.rmdir()
    folder.symlink_to(elsewhere)

    assert [left for left, _ in kept.undo().left_alone] == [str(path)]
    assert list(elsewhere.iterdir()) == []


def test_a_file_below_a_linked_folder_is_left_alone(kept: Checkpoints, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "a.txt").write_text("one")
    change(kept, 1, folder / "a.txt", "two")
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)

    assert [left for left, _ in kept.undo().left_alone] == [str(folder / "a.txt")]
    assert (elsewhere / "a.txt").read_text() == "two"


def test_a_turn_that_a_crash_cut_short_can_be_undone(kept: Checkpoints, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    kept.keep(1, str(path))
    path.write_text("half done")

    again = opened(kept.folder)
    assert again.undo().restored == (str(path),)
    assert path.read_text() == "one"
    again.redo()
    assert path.read_text() == "half done"


def test_a_turn_after_a_crash_is_taken_back_alone(kept: Checkpoints, tmp_path: Path) -> None:
    path, other = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_text("one")
    kept.keep(1, str(path))
    path.write_text("half done")

    again = opened(kept.folder)
    change(again, 1, other, "new")
    again.undo()

    assert (path.read_text(), other.exists()) == ("half done", False)


def test_an_undo_that_a_crash_cut_short_loses_nothing(
    kept: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path in paths:
        path.write_text("before")
        kept.keep(1, str(path))
        path.write_text("after")
        kept.changed(str(path))
    kept.end_turn()
    put = Contents.restore

    def dies(self: Contents, path: Path, *args: object, **more: object) -> None:
        if path.name == "b":
            raise KeyboardInterrupt
        put(self, path, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Contents, "restore", dies)
        with pytest.raises(KeyboardInterrupt):
            kept.undo()
    assert {path.read_text() for path in paths} <= {"before", "after"}
    assert paths[1].read_text() == "after"

    again = opened(kept.folder)
    again.redo()
    assert [path.read_text() for path in paths] == ["after"] * 3
    again.undo()
    assert [path.read_text() for path in paths] == ["before"] * 3


def test_a_damaged_content_and_one_deleted_for_space_differ(
    kept: Checkpoints, tmp_path: Path
) -> None:
    damaged, deleted = tmp_path / "a.txt", tmp_path / "b.txt"
    for path in (damaged, deleted):
        path.write_text(f"old {path.name}")
        change(kept, 1, path, "new")
    one, other = (
        kept.folder / hashlib.sha256(f"old {path.name}".encode()).hexdigest()
        for path in (damaged, deleted)
    )
    one.write_text("damaged")
    other.unlink()

    reasons = dict(kept.undo().left_alone + kept.undo().left_alone)

    (aside,) = kept.folder.glob(f"{one.name}.damaged-*")
    assert aside.read_text() == "damaged"
    assert str(aside) in reasons[str(damaged)]
    assert "damaged" not in reasons[str(deleted)]
    assert damaged.read_text() == deleted.read_text() == "new"


def test_a_damaged_content_is_kept_again_when_seen(kept: Checkpoints, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    state = kept.contents.keep(path).state
    (kept.folder / str(state)).write_text("eno")

    kept.contents.keep(path)

    assert kept.contents.data(str(state)) == b"one"


def test_a_record_that_lost_its_end_says_so_for_good(kept: Checkpoints, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_text("before")
        change(kept, 1, path, "after")
    log = kept.folder / LOG
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:3]))
    lost = sum(map(len, lines[3:]))

    undone, again = opened(kept.folder).undo(), opened(kept.folder).undo()

    assert undone.restored == (str(paths[0]),)
    assert undone.lost_bytes == again.lost_bytes == lost


def test_a_record_whose_lines_are_doubled_counts_them_once(
    kept: Checkpoints, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    change(kept, 1, path, "two")
    kept.end_turn()
    change(kept, 2, path, "three")
    log = kept.folder / LOG
    log.write_bytes(log.read_bytes() * 2)

    first, second = opened(kept.folder).undo(), opened(kept.folder).undo()

    assert (first.turn, second.turn) == (2, 1)
    assert first.damaged
    assert path.read_text() == "one"


def test_a_file_too_large_is_left_alone_and_named(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    kept = Checkpoints(folder=folder, contents=contents_in(folder, max_file_bytes=10))
    path = tmp_path / "a.txt"
    path.write_text("more than ten bytes")
    change(kept, 1, path, "two")
    assert [left for left, _ in kept.undo().left_alone] == [str(path)]
    assert path.read_text() == "two"


def test_a_record_with_damaged_lines_is_partly_used(kept: Checkpoints, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    change(kept, 1, path, "two")
    log = kept.folder / "changes.jsonl"
    lines = b'{"kind": "change", "turn": "x"}\n{"kind": "taken", "group": 9}\nnot JSON\n'
    log.write_bytes(lines + log.read_bytes())

    undone = opened(kept.folder).undo()

    assert (undone.damaged, path.read_text()) == (2, "one")


def test_diffs_show_the_sessions_changes_and_mark_those_of_others(
    kept: Checkpoints, tmp_path: Path
) -> None:
    path, shared = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_text("one\n")
    change(kept, 1, path, "two\n")
    change(kept, 2, path, "three\n")
    change(kept, 3, shared, "mine\n")
    shared.write_text("yours\n")

    one, two = kept.diffs(tmp_path)

    assert (one.path, one.added, one.removed, one.by_others) == ("a.txt", 1, 1, False)
    assert "-one" in one.text
    assert "+three" in one.text
    assert "two" not in one.text
    assert (two.path, two.by_others) == ("b.txt", True)


def test_undone_changes_are_in_no_diff(kept: Checkpoints, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    change(kept, 1, path, "two\n")
    kept.undo()
    path.write_text("by hand\n")
    assert kept.diffs(tmp_path) == []


def test_a_change_that_failed_does_not_hide_the_one_before(
    kept: Checkpoints, tmp_path: Path
) -> None:
    path, other = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_text("one")
    other.write_text("same")
    change(kept, 1, path, "two")
    kept.keep(2, str(other))
    kept.end_turn()
    assert kept.undo().restored == (str(path),)


def test_a_turn_without_changes_has_nothing_to_undo(kept: Checkpoints) -> None:
    assert kept.undo().turn is None
    assert kept.redo().turn is None


def test_the_undo_of_many_files_syncs_each_folder_once(
    kept: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / "many" / f"{number}.txt" for number in range(30)]
    paths[0].parent.mkdir()
    for path in paths:
        path.write_text(f"before {path.name}")
    given = kept.begin_changes(1, list(map(str, paths)))
    for path in paths:
        path.write_text(f"after {path.name}")
    kept.end_command(1, given)
    kept.end_turn()
    synced: list[str] = []
    sync = os.fsync

    def seen(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    undone = kept.undo()

    assert sorted(undone.restored) == sorted(map(str, paths))
    assert [path.read_text() for path in paths] == [f"before {path.name}" for path in paths]
    assert synced.count(str(paths[0].parent)) == 1
    assert synced.count(str(kept.folder)) == 1
    assert sum(".kode-tmp-" in name for name in synced) == 2 * len(paths)
    assert not list(tmp_path.rglob(".kode-tmp-*"))


def test_one_failing_file_of_an_undo_is_left_and_named(
    kept: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / f"{number}.txt" for number in range(20)]
    for path in paths:
        path.write_text("before")
        kept.keep(1, str(path))
        path.write_text("after")
        kept.changed(str(path))
    kept.end_turn()
    put = Contents.restore

    def fails(self: Contents, path: Path, *args: object, **more: object) -> None:
        if path == paths[7]:
            raise OSError("the disk says no")
        put(self, path, *args, **more)

    monkeypatch.setattr(Contents, "restore", fails)
    undone = kept.undo()

    assert undone.left_alone == ((str(paths[7]), "the disk says no"),)
    assert [path.read_text() for path in paths].count("before") == 19


def three_turns(kept: Checkpoints, path: Path, *numbers: int) -> None:
    path.write_text("before")
    for at, number in enumerate(numbers):
        change(kept, number, path, f"{at}")


def test_undo_from_a_turn_includes_all_later_ones(kept: Checkpoints, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    three_turns(kept, path, 1, 2, 3)

    assert [undone.turn for undone in kept.undo_from(2)] == [3, 2]
    assert path.read_text() == "0"


def test_undo_from_a_turn_stops_at_dropped_turns(kept: Checkpoints, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    three_turns(kept, path, 1, 2, 1)

    assert [undone.turn for undone in kept.undo_from(1)] == [1]
    assert path.read_text() == "1"

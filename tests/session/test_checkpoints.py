from pathlib import Path

import pytest

from kode.session.checkpoints import Checkpoints


@pytest.fixture
def kept(tmp_path: Path) -> Checkpoints:
    return Checkpoints(folder=tmp_path / "checkpoints")


def change(kept: Checkpoints, turn: int, path: Path, text: str) -> None:
    kept.keep(turn, str(path))
    path.write_text(text)
    kept.end_turn()


def test_undo_restores_the_last_turn_and_undoing_again_brings_it_back(
    kept: Checkpoints, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    change(kept, 1, path, "two")
    change(kept, 2, path, "three")

    assert kept.undo().restored == (str(path),)
    assert path.read_text() == "two"
    assert kept.undo().restored == (str(path),)
    assert path.read_text() == "three"


def test_a_file_the_turn_made_goes_and_one_it_deleted_comes_back(
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


def test_what_a_person_changed_since_is_left_alone_and_named(
    kept: Checkpoints, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    change(kept, 1, path, "two")
    path.write_text("mine")

    undone = kept.undo()

    assert undone.restored == ()
    assert undone.left_alone[0][0] == str(path)
    assert path.read_text() == "mine"


def test_a_file_the_turn_deleted_and_a_person_made_anew_is_left_alone(
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


def test_a_turn_that_a_crash_cut_short_can_be_undone(kept: Checkpoints, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    kept.keep(1, str(path))
    path.write_text("half done")

    again = Checkpoints(folder=kept.folder)
    assert again.undo().restored == (str(path),)
    assert path.read_text() == "one"


def test_diff_shows_all_that_the_session_changed(kept: Checkpoints, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    change(kept, 1, path, "two\n")
    change(kept, 2, path, "three\n")
    shown = kept.diff(tmp_path)
    assert "--- a.txt" in shown
    assert "-one" in shown
    assert "+three" in shown
    assert "two" not in shown


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


def test_with_nothing_changed_there_is_nothing_to_undo(kept: Checkpoints) -> None:
    assert kept.undo().turn is None

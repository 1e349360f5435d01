"""What a write that was cut short left in the project goes when the session is opened again."""

from pathlib import Path

from tests.undo.changes import change, turn_id, undo_in


def test_leftovers_of_a_second_write_go_too(tmp_path: Path) -> None:
    undo = undo_in(tmp_path / "undo")
    path, left = tmp_path / "project" / "a.txt", tmp_path / "project" / ".kode-tmp-0123"
    path.parent.mkdir()
    change(undo, 1, path, "one")
    undo.begin(turn_id(1), [str(path)])
    left.write_text("tw")

    undo.remove_stale_temporaries()

    assert not left.exists()
    assert path.read_text() == "one"

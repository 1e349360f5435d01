"""What several agents changed in one turn is taken back together."""

from pathlib import Path

from tests.undo.changes import change, undo_in


def test_a_file_two_agents_changed_gets_its_first_content(tmp_path: Path) -> None:
    file, folder = tmp_path / "a.txt", tmp_path / "undo"
    file.write_text("first")
    for content in ("second", "third"):
        change(undo_in(folder), 1, file, content)

    undo_in(folder).undo()
    assert file.read_text() == "first"
    undo_in(folder).redo()
    assert file.read_text() == "third"

"""What several agents changed in one turn is taken back together."""

from pathlib import Path

from kode.session.checkpoints import Checkpoints
from tests.session.stories import contents_in


def opened(folder: Path, *, part_of_turn: bool = False) -> Checkpoints:
    return Checkpoints(folder=folder, contents=contents_in(folder), part_of_turn=part_of_turn)


def test_a_file_two_agents_changed_gets_its_first_content(
    tmp_path: Path,
) -> None:
    file, folder = tmp_path / "a.txt", tmp_path / "checkpoints"
    file.write_text("first")
    for content in ("second", "third"):
        agent = opened(folder, part_of_turn=True)
        agent.keep(1, str(file))
        file.write_text(content)
        agent.end_turn()

    parent = opened(folder)
    parent.end_turn()
    parent.undo()
    assert file.read_text() == "first"
    parent.redo()
    assert file.read_text() == "third"

"""What several agents changed in one turn is taken back together."""

from pathlib import Path

from kode.session.checkpoints import Checkpoints


def test_a_file_that_two_agents_changed_in_one_turn_gets_its_first_content_back(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("first")
    for content in ("second", "third"):
        agent = Checkpoints(folder=tmp_path / "checkpoints")
        agent.keep(1, str(file))
        file.write_text(content)
        agent.end_turn()

    checkpoints = Checkpoints(folder=tmp_path / "checkpoints")
    checkpoints.undo()
    assert file.read_text() == "first"
    checkpoints.undo()
    assert file.read_text() == "third"

"""What a write that was cut short left in the project goes when the session is opened again."""

from pathlib import Path

from kode.session.checkpoints import Checkpoints
from tests.session.stories import contents_in


def test_leftovers_of_a_second_write_go_too(tmp_path: Path) -> None:
    kept = Checkpoints(folder=tmp_path / "kept", contents=contents_in(tmp_path / "kept"))
    path, left = tmp_path / "project" / "a.txt", tmp_path / "project" / ".kode-tmp-0123"
    path.parent.mkdir()
    kept.keep(1, str(path))
    path.write_text("one")
    kept.changed(str(path))
    kept.keep(1, str(path))
    left.write_text("tw")

    kept.remove_stale_temporaries()

    assert not left.exists()
    assert path.read_text() == "one"

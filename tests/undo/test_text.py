"""What a person reads after an undo."""

from pathlib import Path

from kode.undo.journal import Step, TurnId
from kode.undo.text import MAX_NAMED, undo_text
from kode.undo.undo import Undone

STEP = Step(turn=TurnId("a message", 1))
LEFT = (("/work/a.py", "it has changed since"),)


def test_a_large_undo_names_some_files_and_counts_others() -> None:
    removed = tuple(f"/work/many/{number}.py" for number in range(3000))
    undone = Undone(step=STEP, removed=removed, left_alone=LEFT, next_redo=1)

    lines = undo_text(undone, Path("/work"), lambda turn: "make many").splitlines()

    assert lines[:2] == ["Undid turn 1 (make many)", "removed many/0.py"]
    assert "and 2,960 more" in lines
    assert "left alone a.py: it has changed since" in lines
    assert len(lines) == MAX_NAMED + 4


def test_an_undo_leaving_every_file_alone_claims_nothing() -> None:
    undone = Undone(step=STEP, left_alone=LEFT, next_redo=2)

    lines = undo_text(undone, Path("/work"), lambda turn: "edit").splitlines()

    assert lines[:2] == ["Undid nothing of turn 1 (edit)", "left alone a.py: it has changed since"]

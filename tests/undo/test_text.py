"""What a person reads after an undo."""

from pathlib import Path

from kode.undo.journal import Step, TurnId
from kode.undo.text import MAX_NAMED, undo_text
from kode.undo.undo import Undone


def test_a_large_undo_names_some_files_and_counts_others() -> None:
    undone = Undone(
        step=Step(turn=TurnId("a message", 1)),
        removed=tuple(f"/work/many/{number}.py" for number in range(3000)),
        left_alone=(("/work/a.py", "it has changed since"),),
        next_redo=1,
    )

    lines = undo_text(undone, Path("/work"), lambda turn: "make many").splitlines()

    assert lines[0] == "Undid turn 1 (make many)"
    assert lines[1] == "removed many/0.py"
    assert "and 2,960 more" in lines
    assert "left alone a.py: it has changed since" in lines
    assert len(lines) == MAX_NAMED + 4


def test_an_undo_leaving_every_file_alone_claims_nothing() -> None:
    undone = Undone(
        step=Step(turn=TurnId("a message", 2)),
        left_alone=(("/work/a.py", "it has changed since"),),
        next_redo=2,
    )

    lines = undo_text(undone, Path("/work"), lambda turn: "edit").splitlines()

    assert lines[:2] == [
        "Undid nothing of turn 2 (edit)",
        "left alone a.py: it has changed since",
    ]

"""What a person reads after an undo."""

from pathlib import Path

from kode.undo.journal import History, Step, TurnId
from kode.undo.store import Seen
from kode.undo.undo import MAX_NAMED, Undone, undo_text

CHANGE = Step(turn=TurnId("a message", 1), after={"/work/a.py": Seen("old")})
LEFT = (("/work/a.py", "it has changed since"),)


def undo_of_change(after: dict[str, Seen]) -> Undone:
    step = Step(turn=CHANGE.turn, kind="undo", of=CHANGE.id, after=after)
    return Undone(history=History([CHANGE, step]), step=step, left_alone=LEFT)


def test_a_large_undo_names_some_files_and_counts_others() -> None:
    removed = {f"/work/many/{number}.py": Seen(None) for number in range(3000)}
    undone = undo_of_change(removed)

    lines = undo_text(undone, Path("/work"), "make many").splitlines()

    assert lines[:2] == ["Undid turn 1 (make many)", "removed many/0.py"]
    assert "and 2,960 more" in lines
    assert "left alone a.py: it has changed since" in lines
    assert len(lines) == MAX_NAMED + 4


def test_an_undo_leaving_every_file_alone_claims_nothing() -> None:
    lines = undo_text(undo_of_change({}), Path("/work"), "edit").splitlines()

    assert lines[:2] == ["Undid nothing of turn 1 (edit)", "left alone a.py: it has changed since"]

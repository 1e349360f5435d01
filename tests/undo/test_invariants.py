"""Random lives of a few files: an agent, a person, undo and redo by turns.

A person's content is never lost: what a person wrote last stays where it is until an agent changes
it in a turn, and then it comes back when that turn is undone.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.effort import share
from tests.undo.changes import step, undo_in

NAMES = ("a.txt", "b.txt", "c.txt")
Disk = dict[str, str | None]


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.held = tempfile.TemporaryDirectory()
        self.folder = Path(self.held.name).resolve()
        self.open()
        self.turn = 1
        self.count = 0
        self.persons: dict[str, str | None] = {}
        """What a person left last, until an agent's turn changes it."""
        self.before_undos: list[Disk] = []
        """What the disk held before each undo that a redo can answer, while nobody else wrote."""

    def teardown(self) -> None:
        self.held.cleanup()

    def open(self) -> None:
        self.kept = undo_in(self.folder / "undo")

    def disk(self) -> Disk:
        paths = [self.folder / name for name in NAMES]
        return {p.name: p.read_text() if p.exists() else None for p in paths}

    def write(self, name: str, delete: bool) -> str | None:
        self.count += 1
        path = self.folder / name
        if delete:
            path.unlink(missing_ok=True)
            return None
        path.write_text(f"content {self.count}\n")
        return path.read_text()

    @rule(name=st.sampled_from(NAMES), delete=st.booleans())
    def agent_changes(self, name: str, delete: bool) -> None:
        with step(self.kept, self.turn, self.folder / name):
            self.write(name, delete)
        self.persons.pop(name, None)
        self.before_undos.clear()

    @rule(name=st.sampled_from(NAMES), delete=st.booleans())
    def person_changes(self, name: str, delete: bool) -> None:
        self.persons[name] = self.write(name, delete)
        self.before_undos.clear()

    @rule()
    def turn_ends(self) -> None:
        self.turn += 1

    @rule()
    def process_starts_anew(self) -> None:
        self.turn_ends()
        self.open()

    @rule()
    def undo(self) -> None:
        self.turn_ends()
        before = self.disk()
        undone = self.kept.undo()
        if undone.turn is None:
            assert self.disk() == before
            return
        self.before_undos.append(before)
        self.only_touched(before, undone.touched)

    @rule()
    def redo(self) -> None:
        self.turn_ends()
        before = self.disk()
        undone = self.kept.redo()
        self.only_touched(before, undone.touched)
        if undone.turn is not None and self.before_undos:
            assert self.disk() == self.before_undos.pop()

    def only_touched(self, before: Disk, touched: Iterable[str]) -> None:
        now = self.disk()
        changed = {str(self.folder / name) for name in NAMES if now[name] != before[name]}
        assert changed == set(touched)

    @invariant()
    def a_persons_content_is_there(self) -> None:
        now = self.disk()
        for name, content in self.persons.items():
            if content is not None:
                assert now[name] == content


Life.TestCase.settings = settings(max_examples=share(30), stateful_step_count=20, deadline=None)
TestLife = Life.TestCase

"""A person's edit of any file of memory: what is read back, what the history makes of it, and what
is written then. In all four systems; the notes are edited in their table.
"""

import contextlib
import re
import sqlite3
from dataclasses import dataclass
from difflib import SequenceMatcher

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kode.config import MemoryConfig
from kode.memory import make_system
from kode.memory.base import Addition, reconcile
from kode.memory.change import BY_HAND
from kode.memory.commands import memory_command
from tests.effort import share
from tests.memory.life import memory_context


@dataclass(frozen=True)
class Place:
    """A file of entries: where, how it is filled, and what separates its entries."""

    system: str
    target: str
    file: str
    parts: str = r"\n"
    joint: str = "\n"
    archived: bool = False

    def path(self, root):
        (found,) = (root / "memory").rglob(self.file)
        return found

    async def read(self, system, root):
        return self.path(root).read_text()

    async def write(self, system, root, text):
        self.path(root).write_text(text)


class Table(Place):
    """The table of the notes, as any program sees it: a line for each content."""

    def _opened(self, root):
        return contextlib.closing(sqlite3.connect(self.path(root)))

    def _rows(self, file):
        sql = "SELECT place, content FROM memory_notes WHERE kind = 'log' AND superseded_by IS NULL"
        return file.execute(f"{sql} ORDER BY place").fetchall()

    async def read(self, system, root):
        with self._opened(root) as file:
            return "".join(f"{content}\n" for _, content in sorted(self._rows(file), key=by_text))

    async def write(self, system, root, text):
        with self._opened(root) as file, file:
            rows = sorted(self._rows(file), key=by_text)
            old, new = [content for _, content in rows], text.splitlines()
            matcher = SequenceMatcher(None, old, new, autojunk=False)
            for tag, i1, i2, j1, j2 in matcher.get_opcodes():
                if tag == "replace":
                    for (place, _), content in zip(rows[i1:i2], new[j1:j2], strict=True):
                        sql = "UPDATE memory_notes SET content = ? WHERE place = ?"
                        file.execute(sql, (content, place))
                for place, _ in rows[i1:i2] if tag == "delete" else ():
                    file.execute("DELETE FROM memory_notes WHERE place = ?", (place,))
                for content in new[j1:j2] if tag == "insert" else ():
                    file.execute(INSERT, (content, rows[0][0]))


def by_text(row):
    return row[1]


INSERT = """INSERT INTO memory_notes (id, user, scope, kind, content, stability, sensitivity,
    created_at, who) SELECT lower(hex(randomblob(8))), user, scope, kind, ?, stability, sensitivity,
    created_at, who FROM memory_notes WHERE place = ?"""
PLACES = {
    "facts": Place("tiered", "user", "facts/user.md", r"\n§\n", "\n§\n"),
    "archive": Place("tiered", "user", "facts/archive/user.md", r"\n§\n", "\n§\n", archived=True),
    "vault": Place("vault", "tools", "facts/tools.md"),
    "months": Place("vault", "episodes", "episodes/*.md", r"\n\n(?=## )", "\n\n"),
    "memory": Place("journal", "memory", "MEMORY.md"),
    "table": Table("notes", "note", "notes.db"),
}


async def opened(root, place):
    system = make_system(MemoryConfig(system=place.system, merge_on_write=False))
    await system.open(memory_context(root, session_id=None, project_root=root), {})
    await reconcile(system)
    system.asked = "always do so"
    return system


async def filled(root, place, words):
    system = await opened(root, place)
    for word in words:
        text = f"## {word}\n- about {word}" if place.target == "episodes" else f"likes {word}"
        await system.add(Addition(target=place.target, text=text))
        if place.archived:
            await memory_command(system, ["archive", "user", "--scope", "global", word])
    return system


def words_in(system):
    """The word of each entry that stands → its statement."""
    standing = system.ledger.standing().values()
    found = ((re.search(r"word\d\w", one.text), one) for one in standing)
    return {word[0]: one for word, one in found if word}


KEEP, CHANGE, REMOVE, ADD = "keep", "change", "remove", "add"


@pytest.mark.parametrize("id", PLACES)
@settings(
    max_examples=share(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(edits=st.lists(st.sampled_from((KEEP, CHANGE, REMOVE, ADD)), min_size=1, max_size=4))
async def test_a_hand_edit_becomes_statements_and_loses_none(id, edits, tmp_path_factory):
    """Between two edited entries stands one that is not, so that which became which is clear."""
    root, place = tmp_path_factory.mktemp("memory"), PLACES[id]
    words = [f"word{at}{which}" for at in range(len(edits)) for which in "ab"]
    system = await filled(root, place, words)
    before, count = words_in(system), len(system.history.lines())
    assert sorted(before) == words
    text = await place.read(system, root)

    parts, expected = re.split(place.parts, text), {*words}
    for at, edit in enumerate(edits):
        old, new = f"word{at}b", f"word{at}c"
        where = max(n for n, part in enumerate(parts) if old in part)  # above is the summary
        if edit == CHANGE:
            parts[where] = parts[where].replace(old, new)
        elif edit == ADD:
            parts.insert(where, parts[where].replace(old, new))
        elif edit == REMOVE:
            del parts[where]
        expected -= {old} if edit in (CHANGE, REMOVE) else set()
        expected |= {new} if edit in (CHANGE, ADD) else set()
    wanted = place.joint.join(parts)
    if {*edits} != {KEEP}:
        await place.write(system, root, wanted)
    system = await opened(root, place)
    now = words_in(system)

    assert {*now} == expected
    made = system.history.lines()[count:]
    assert bool(made) == ({*edits} != {KEEP})
    assert {(one.kind, one.who) for one in made} <= {(BY_HAND, "user")}
    ended = {one.text: one for one in system.ledger.statements() if one.ended}
    for at, edit in enumerate(edits):
        (old,) = [one for text, one in ended.items() if f"word{at}b" in text] or [None]
        kept = now[f"word{at}a"]
        assert kept.change == before[f"word{at}a"].change
        if edit in (KEEP, ADD):
            assert old is None
            assert now[f"word{at}b"].change == before[f"word{at}b"].change
        elif edit == REMOVE:
            assert old.state == "withdrawn"
        else:
            assert [one.text for one in old.into] == [now[f"word{at}c"].text]
        if edit == ADD:
            assert now[f"word{at}c"].made_of == ()

    text = await place.read(system, root)
    assert sorted(text.split()) == sorted(wanted.split())
    again = await opened(root, place)
    assert len(again.history.lines()) == count + len(made)
    assert await place.read(again, root) == text
    if made:
        await memory_command(again, ["undo"])
        assert {*words_in(again)} == {*words}

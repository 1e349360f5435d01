"""Undoing a change with what was made from it, a session's changes as one, and redoing them."""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from kode.errors import MemoryRefused
from kode.memory import standing
from kode.memory.change import Author, Change
from kode.memory.command_line import CommandParser, add_commands
from kode.memory.commands import memory_command, run_command
from kode.memory.history import History
from kode.memory.notes import maintenance
from kode.memory.places import whole
from kode.memory.queue import Item
from kode.memory.tiered.episode_files import Episode, render
from kode.memory.tiered.episodes import open_queue
from kode.memory.tiered.merge import Plan
from kode.memory.tiered.system import Tiered
from tests.effort import share
from tests.memory.journal import life as journal_life
from tests.memory.life import NOON, SESSION, opened, settings, turn, use, user_file
from tests.memory.notes import life as notes_life
from tests.memory.test_why import Judge
from tests.memory.vault import life as vault_life


def facts(root):
    path = user_file(root)
    return path.read_text().split("\n§\n") if path.exists() and path.read_text() else []


def last_id(system):
    return system.history.tail(1).changes[0].id


async def add(system, text):
    await memory_command(system, ["add", "user", text])
    return last_id(system)


async def test_undo_names_derived_changes_and_takes_them_if_wanted(tmp_path):
    system = await opened(tmp_path)
    first = await add(system, "likes tabs")
    await memory_command(system, ["replace", "user", "likes tabs", "likes spaces"])
    second = last_id(system)
    await add(system, "lives in Lisbon")

    with pytest.raises(MemoryRefused) as error:
        await memory_command(system, ["undo", first])
    assert second in str(error.value)
    assert "--with-derived" in str(error.value)
    assert facts(tmp_path) == ["likes spaces", "lives in Lisbon"]

    told = await memory_command(system, ["undo", first, "--with-derived"])

    assert facts(tmp_path) == ["lives in Lisbon"]
    await memory_command(system, ["undo", told.split()[-1]])
    assert facts(tmp_path) == ["likes spaces", "lives in Lisbon"]


async def test_all_can_be_redone_and_undone_again(tmp_path):
    system = await opened(tmp_path)
    first = await add(system, "likes tabs")
    await memory_command(system, ["replace", "user", "likes tabs", "likes spaces"])
    told = await memory_command(system, ["undo", first, "--with-derived"])
    redone = await memory_command(system, ["undo", told.split()[-1]])
    with pytest.raises(MemoryRefused, match="redone already"):
        await memory_command(system, ["undo", told.split()[-1]])

    await memory_command(system, ["undo", redone.split()[-1]])

    assert facts(tmp_path) == []


async def test_a_person_is_asked(tmp_path, monkeypatch):
    system = await opened(tmp_path)
    first = await add(system, "likes tabs")
    await memory_command(system, ["replace", "user", "likes tabs", "likes spaces"])
    asked = []
    parser = CommandParser(prog="memory")
    add_commands(parser)
    arguments = parser.parse_args(["undo", first])

    with pytest.raises(MemoryRefused):
        await run_command(system, arguments, lambda question: bool(asked.append(question)))
    await run_command(system, arguments, lambda question: True)

    assert "likes tabs → likes spaces" in asked[0]
    assert facts(tmp_path) == []


async def test_undo_names_the_episode_of_the_facts_session(tmp_path):
    system = await opened(tmp_path)
    first = await add(system, "likes tabs")
    episode = Episode(
        session_id=SESSION,
        turns=4,
        created_at=NOON.isoformat(),
        updated_at=NOON.isoformat(),
        narrative="was told of tabs",
    )
    author = Author(who="extraction", session=SESSION, turn=4)
    name, state = f"episodes/{SESSION}.md", whole(render(episode))
    await standing.rewrite(system.history, name, lambda _: state, author, "episode")

    told = await memory_command(system, ["undo", first])

    assert f"episode episodes/{SESSION}.md" in told
    assert system._episodes.index.files.read(SESSION) is not None
    await memory_command(system, ["undo", last_id(system)])
    await memory_command(system, ["undo", first, "--with-derived"])
    assert system._episodes.index.files.read(SESSION) is None


async def test_undo_with_derived_is_refused_after_the_fact_was_removed(tmp_path):
    judge = Judge("update")
    system = await opened(tmp_path, model=judge)
    first = await add(system, "the port is 80")
    await system.recall(turn(1, "use port 81"))
    await use(system, action="add", target="user", content="the port is 81")
    await memory_command(system, ["remove", "user", "81"])

    with pytest.raises(MemoryRefused):
        await memory_command(system, ["undo", first, "--with-derived"])

    assert facts(tmp_path) == []


async def test_the_changes_of_a_session_go_and_come_as_one(tmp_path):
    here = await opened(tmp_path)
    await add(here, "likes tabs")
    await memory_command(here, ["add", "env", "runs on Linux"])
    await memory_command(here, ["replace", "user", "tabs", "likes tea"])
    other = await opened(tmp_path, session_id="20260302-000000-aaaaaa")
    await add(other, "lives in Lisbon")

    told = await memory_command(other, ["undo", "--session", SESSION])

    assert facts(tmp_path) == ["lives in Lisbon"]
    assert not (tmp_path / "memory" / "facts" / "env.md").read_text()
    await memory_command(other, ["undo", told.split()[-1]])
    assert sorted(facts(tmp_path)) == ["likes tea", "lives in Lisbon"]
    assert (tmp_path / "memory" / "facts" / "env.md").read_text() == "runs on Linux"


async def test_undoing_a_session_takes_later_ones_only_if_wanted(tmp_path):
    here = await opened(tmp_path)
    await add(here, "likes tabs")
    other = await opened(tmp_path, session_id="20260302-000000-aaaaaa")
    await memory_command(other, ["replace", "user", "likes tabs", "likes tea"])

    with pytest.raises(MemoryRefused, match="--with-derived"):
        await memory_command(other, ["undo", "--session", SESSION])
    assert facts(tmp_path) == ["likes tea"]

    await memory_command(other, ["undo", "--session", SESSION, "--with-derived"])
    assert facts(tmp_path) == []


async def test_a_session_that_changed_nothing_is_an_error(tmp_path):
    system = await opened(tmp_path)

    with pytest.raises(MemoryRefused):
        await memory_command(system, ["undo", "--session", "2026"])


async def test_where_one_of_several_cannot_be_undone_none_is(tmp_path):
    system = await opened(tmp_path)
    first = await add(system, "likes tabs")
    await memory_command(system, ["replace", "user", "likes tabs", "likes spaces"])
    await memory_command(system, ["replace", "user", "likes spaces", "likes tea"])
    user_file(tmp_path).write_text("likes tea a lot")

    with pytest.raises(MemoryRefused):
        await memory_command(system, ["undo", first, "--with-derived"])

    assert facts(tmp_path) == ["likes tea a lot"]


async def test_a_refused_undo_brings_back_its_whole_batch(tmp_path):
    system = await opened(tmp_path)
    await add(system, "likes tabs")
    await memory_command(system, ["replace", "user", "likes tabs", "likes tea"])
    await add(system, "lives in Lisbon")
    user_file(tmp_path).write_text("likes tea a lot\n§\nlives in Lisbon")

    with pytest.raises(MemoryRefused):
        await memory_command(system, ["undo", "--session", SESSION])

    assert facts(tmp_path) == ["likes tea a lot", "lives in Lisbon"]


async def test_a_beginning_that_names_two_sessions_undoes_none(tmp_path):
    await add(await opened(tmp_path), "likes tabs")
    other = await opened(tmp_path, session_id="20260302-000000-aaaaaa")
    await add(other, "lives in Lisbon")

    with pytest.raises(MemoryRefused):
        await memory_command(other, ["undo", "--session", "2026"])

    assert facts(tmp_path) == ["likes tabs", "lives in Lisbon"]


# ── a replay without it ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Node:
    """An entry as a replay has it: its text, and what it was made of."""

    text: str
    change: str
    """The id of the change that made it."""
    made_of: tuple["Node", ...] = ()

    def without(self, change):
        """What stands in its place where `change` was never made."""
        if self.change == change:
            return list(self.made_of)
        if not self.rests_on(change):
            return [self]
        return [node for part in self.made_of for node in part.without(change)]

    def rests_on(self, change):
        return self.change == change or any(part.rests_on(change) for part in self.made_of)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "replace", "merge", "remove"]),
        st.integers(min_value=0, max_value=99),
    ),
    min_size=1,
    max_size=12,
)


async def _replayed(life, operations):
    """Does the operations, and keeps beside them what a replay has."""
    nodes = []
    for number, (what, which) in enumerate(operations):
        text = f"item{number} word{number}"
        if what == "add" or not nodes:
            nodes.append(Node(text, await life.add(text)))
            continue
        at = which % len(nodes)
        old = nodes[at]
        if what == "remove":
            await life.remove(old.text)
            del nodes[at]
        elif what == "merge":
            merge = await life.merge(old.text, text)
            if merge is not None:
                kept, change, said = merge
                nodes[at] = Node(kept, change, (old, Node(text, said)))
        else:
            nodes[at] = Node(text, await life.replace(old.text, text), (old,))
    return nodes


def _changes(nodes):
    for node in nodes:
        yield node.change
        yield from _changes(node.made_of)


async def _check(life, operations):
    nodes = await _replayed(life, operations)
    before = life.texts()
    assert before == life.order(node.text for node in nodes)
    for change in dict.fromkeys(_changes(nodes)):
        expected = life.order(left.text for node in nodes for left in _without(node, change))
        told = await memory_command(life.system, ["undo", change, "--with-derived"])
        assert life.texts() == expected
        await memory_command(life.system, ["undo", told.split()[-1]])
        assert life.texts() == before


def _without(node, change):
    """A merge that is undone gives back the new text beside the old one."""
    if node.change == change and node.made_of and node.made_of[-1].change == change:
        return [*node.made_of[:-1], Node(node.made_of[-1].text, "")]
    if node.rests_on(change) and node.change != change:
        return [left for part in node.made_of for left in _without(part, change)]
    return node.without(change)


class TieredLife:
    order = staticmethod(list)

    async def open(self, root):
        self.root, self.judge = root, Judge("update")
        limits = {"facts_limit_user": 100_000}
        self.system = await opened(root, config=settings(merge_on_write=False, **limits))
        self.merging = await opened(root, model=self.judge, config=settings(**limits))
        return self

    async def add(self, text):
        return await add(self.system, text)

    async def replace(self, old, new):
        await memory_command(self.system, ["replace", "user", old, new])
        return last_id(self.system)

    async def merge(self, old, text):
        """A new text that a model found to be one with an entry."""
        writer = self.merging.writer
        plan = Plan(how="repeats", entry=old, reason="judged")
        outcome = await writer._put("facts/user.md", text, plan, Author(who="model"), wins=True)
        return text, outcome.change_id, outcome.change_id

    async def remove(self, text):
        await memory_command(self.system, ["remove", "user", text])

    def texts(self):
        return facts(self.root)


class NotesLife:
    async def open(self, root):
        self.clock = notes_life.Clock()
        self.system = await notes_life.opened(root, clock=self.clock)
        return self

    async def _id(self, text):
        return next(note.id for note in notes_life.active(self.system) if note.content == text)

    async def add(self, text):
        await notes_life.keep(self.system, text)
        return last_id(self.system)

    async def replace(self, old, new):
        self.clock.pass_(milliseconds=1)
        await self.system.writer.update(await self._id(old), new)
        return last_id(self.system)

    async def merge(self, old, text):
        """Two notes become one, as maintenance makes it."""
        said = await self.add(text)
        ids = [await self._id(old), await self._id(text)]
        self.clock.pass_(milliseconds=1)
        async with self.system.store.writing():
            found = self.system.store.by_ids(ids)
            notes = [found[id] for id in ids]
            note = maintenance.merge(self.system.store, notes, Author(who="merge"))
        return note.content, last_id(self.system), said

    async def remove(self, text):
        await self.system.writer.forget(await self._id(text), bring_back=False)

    def texts(self):
        return self.order(note.content for note in notes_life.active(self.system))

    order = staticmethod(sorted)


class JournalLife:
    order = staticmethod(list)

    async def open(self, root):
        self.root = root
        self.system = await journal_life.opened(root)
        return self

    async def add(self, text):
        await memory_command(self.system, ["add", "memory", f"- {text}"])
        return last_id(self.system)

    async def _update(self, make):
        target = self.system.folder.target("MEMORY.md")
        change = await standing.rewrite(
            self.system.history,
            target,
            lambda state: whole(make("".join(state))),
            Author(who="consolidation"),
            "consolidate",
        )
        return change.id if change else None

    async def replace(self, old, new):
        return await self._update(lambda memory: memory.replace(f"- {old}", f"- {new}"))

    async def merge(self, old, text):
        return None

    async def remove(self, text):
        await self._update(lambda memory: memory.replace(f"- {text}", "").replace("\n\n", "\n"))

    def texts(self):
        lines = self.system.files.read_memory().split("\n")
        return [line.removeprefix("- ") for line in lines if line.strip()]


class VaultLife:
    order = staticmethod(list)
    name = "facts/tools.md"

    async def open(self, root):
        self.system = await vault_life.opened(root)
        return self

    async def add(self, text):
        await memory_command(self.system, ["add", "tools", text])
        return last_id(self.system)

    async def _patch(self, old, new):
        patches = [{"oldText": old, "newText": new}]
        await vault_life.use(self.system, "memory_patch", path=self.name, patches=patches)
        return last_id(self.system)

    async def replace(self, old, new):
        return await self._patch(f"- {old}\n", f"- {new}\n")

    async def merge(self, old, text):
        return None

    async def remove(self, text):
        await self._patch(f"- {text}\n", "")

    def texts(self):
        return [e.text.removeprefix("- ") for e in self.system.entries()]


@pytest.mark.slow
@pytest.mark.parametrize("life", [TieredLife, NotesLife, JournalLife, VaultLife])
@examples(max_examples=share(15), deadline=None)
@given(operations=STEPS)
def test_undoing_any_entry_leaves_what_a_replay_without_it_gives(life, operations):
    async def check():
        with tempfile.TemporaryDirectory() as folder:
            one = await life().open(Path(folder))
            try:
                await _check(one, operations)
            finally:
                await one.system.close(1.0)

    asyncio.run(check())


async def test_undo_says_that_memory_is_not_finished_yet(tmp_path):
    system = await opened(tmp_path)
    queue = open_queue(tmp_path / "memory" / "episodes")
    queue.write(Item(id=f"{SESSION}.0003", session=SESSION, turn=3, at="", text="hi"))

    with pytest.raises(MemoryRefused, match="yet: memory is not finished with 1 session"):
        await memory_command(system, ["undo"])


async def test_undo_finds_what_another_process_finishes_just_then(tmp_path, monkeypatch):
    system = await opened(tmp_path)
    queue = open_queue(tmp_path / "memory" / "episodes")
    queue.write(Item(id=f"{SESSION}.0003", session=SESSION, turn=3, at="", text="hi"))
    other = await opened(tmp_path)

    def first_look(answer):
        """The other process finishes right after the first thing that undo looks at."""
        if queue.ids():
            path = user_file(tmp_path)
            author = Author(who="extraction")
            change = Change.by(author, "tiered", "add", "facts/user.md", after=("likes tabs",))
            with other.history.making(change):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("likes tabs")
            queue.remove(f"{SESSION}.0003")
        return answer

    standing, left = History.standing, Tiered.unfinished.fget
    monkeypatch.setattr(History, "standing", lambda *a: first_look(standing(*a)))
    monkeypatch.setattr(Tiered, "unfinished", property(lambda it: first_look(left(it))))

    await memory_command(system, ["undo"])

    assert facts(tmp_path) == []

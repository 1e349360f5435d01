"""Every operation on memory, in every layout. Each cell asks the same: which texts stand, their
state in the ledger, the place on disk, what `why` says, and what an undo leaves.
"""

import json
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest

from kode.config import MemoryConfig
from kode.errors import KodeError
from kode.memory import make_system, waiting
from kode.memory.base import BaseMemory, reconcile
from kode.memory.change import Author
from kode.memory.commands import memory_command
from kode.memory.ledger import PAIRS
from kode.memory.lineage import Entry, find
from kode.memory.places import fingerprint
from kode.memory.review import decide, items_of
from kode.registry import SYSTEMS
from tests.contracts import fifth_system
from tests.memory.life import memory_context, use_tool

LAYOUTS = [*SYSTEMS, fifth_system.NAME]
ALPHA, BETA, GAMMA = "alpha lies in the cellar", "beta is built with make", "gamma has port 7100"
GONE = {"superseded", "withdrawn"}


async def opened(root, name) -> BaseMemory:
    system = make_system(MemoryConfig(system=name, merge_on_write=False))
    await system.open(memory_context(root, session_id=None), {})
    await reconcile(system)
    return system


async def add(system: BaseMemory, *texts: str) -> None:
    for text in texts:
        await memory_command(system, ["add", SYSTEMS[system.name].about_user, text])


def entry_of(system: BaseMemory, text: str) -> Entry:
    (entry,) = find(system.facts(), text)
    return entry


def state_of(system: BaseMemory, text: str) -> str:
    """What the ledger says of the latest statement with this text; "" if it has none."""
    found = [one for one in system.ledger.statements() if text in one.text]
    return found[-1].state if found else ""


def on_disk(system: BaseMemory) -> list[tuple[str, tuple[str, ...]]]:
    """Each place with what a reader besides kode finds there."""
    places = system.history.places
    if system.name != "notes":
        return [(target, places.read(target)) for target in places.here()]
    with closing(sqlite3.connect(f"file:{system.database.path}?mode=ro", uri=True)) as file:
        rows = file.execute("SELECT content FROM memory_notes WHERE superseded_by IS NULL")
        return [("notes", tuple(content for (content,) in rows))]


def standing(system: BaseMemory) -> set[str]:
    """Which of the texts stand, among the entries, and on disk: the two have to agree."""
    disk = "\n".join(text for _, texts in on_disk(system) for text in texts)
    shown = "\n".join(entry.text for entry in system.entries())
    found = {text for text in (ALPHA, BETA, GAMMA) if text in shown}
    assert found == {text for text in (ALPHA, BETA, GAMMA) if text in disk}
    return found


def all_of(system: BaseMemory) -> Any:
    """Texts with their states, disputes, what waits, and each place."""
    return (
        {text: state_of(system, text) in GONE | {""} for text in (ALPHA, BETA, GAMMA)},
        [one.places for one in system.ledger.disputes()],
        [one.text for one in waiting.proposals(system.history)],
        {target: fingerprint(texts) for target, texts in on_disk(system)},
    )


# ── the operations: each returns what undoes it ──────────────────────────────────────────────

Undo = list[str]


def last(system: BaseMemory) -> Undo:
    return [system.history.tail(1).changes[0].id]


async def added(system, root) -> Undo:
    await add(system, GAMMA)
    return last(system)


async def replaced(system, root) -> Undo:
    entry = entry_of(system, BETA)
    tools = {tool.name: tool for tool in system.tools()}
    if system.name == "tiered":
        await memory_command(system, ["replace", "user", BETA, GAMMA])
    elif system.name == "vault":
        path = "facts/user.md"
        await use_tool(tools["memory_read"], path=path)
        patches = [{"oldText": BETA, "newText": GAMMA}]
        await use_tool(tools["memory_patch"], path=path, patches=patches)
    elif system.name == "notes":
        await use_tool(tools["recall"], query=BETA)
        await use_tool(tools["update_memory"], id=entry.id, content=GAMMA)
    else:
        return await edited(system, root, lambda text: text.replace(BETA, GAMMA))
    return last(system)


async def removed(system, root) -> Undo:
    await system.remove_entry(entry_of(system, BETA))
    return last(system)


async def confirmed(system, root) -> Undo:
    await system.confirm(entry_of(system, BETA), None)
    return last(system)


async def archived(system, root) -> Undo:
    await memory_command(system, ["archive", "user", BETA])
    return last(system)


async def disputed(system, root) -> Undo:
    sides = tuple(entry_of(system, text).place for text in (ALPHA, BETA))
    system.history.record(Author(who="merge"), system.name, "settle", PAIRS, against=(sides,))
    return last(system)


async def settled(system, root) -> Undo:
    await disputed(system, root)
    (item,) = await items_of(system)
    return [(await decide(system, item.id, "first")).change_id]


async def proposed(system, root) -> Undo:
    await waiting.propose(system.history, GAMMA, "user", client="another", project=root)
    return last(system)


async def approved(system, root) -> Undo:
    await proposed(system, root)
    (item,) = await items_of(system)
    return [(await decide(system, item.id, "approve")).change_id]


async def dropped(system, root) -> Undo:
    await proposed(system, root)
    (item,) = await items_of(system)
    return [(await decide(system, item.id, "drop")).change_id]


async def imported(system, root) -> Undo:
    other = await opened(root / "other", system.name)
    await add(other, GAMMA)
    rows = map(json.loads, (await memory_command(other, ["export"])).splitlines())
    file = root / "export.jsonl"
    kept = [{**row, "project": ""} if "project" in row else row for row in rows]
    file.write_text("\n".join(json.dumps(row) for row in kept if GAMMA in row["content"]))
    told = await memory_command(system, ["import", str(file)])
    return told.split("kode memory undo ")[-1].split()


async def undone(system, root) -> Undo:
    await add(system, GAMMA)
    await memory_command(system, ["undo", *last(system)])
    return last(system)


async def redone(system, root) -> Undo:
    await undone(system, root)
    await memory_command(system, ["undo", *last(system)])
    return last(system)


async def edited(system, root, edit: Callable[[str], str] | None = None) -> Undo:
    places, entry = system.history.places, entry_of(system, BETA)
    file = places.root / entry.target
    separator = "\n§\n" if places.is_of_entries(entry.target) else "\n"
    edit = edit or (lambda text: f"{text.rstrip()}{separator}{GAMMA}\n")
    file.write_text(edit(file.read_text()))
    again = await opened(root, system.name)
    await again.close(1.0)
    return last(system)


@dataclass(frozen=True)
class Row:
    """One operation and what holds after it; ALPHA stands before and after."""

    do: Callable[[BaseMemory, Any], Awaitable[Undo]]
    stand: set[str]
    """Which of BETA and GAMMA stand then."""
    states: dict[str, set[str]] = field(default_factory=dict)
    """What the ledger may say of a text."""
    before: set[str] | None = None
    """Which of the two stand after its undo; None for those that stood before it."""
    not_in: frozenset[str] = frozenset()
    """The layouts that refuse it, or in which a person cannot do it."""
    waits: bool = False
    """Whether something waits for the person then."""


CURRENT = {"current"}
OPERATIONS = {
    "add": Row(added, {BETA, GAMMA}, {GAMMA: CURRENT}),
    "replace": Row(replaced, {GAMMA}, {BETA: {"superseded"}, GAMMA: CURRENT}),
    "remove": Row(removed, set(), {BETA: {"withdrawn"}}),
    "confirm": Row(confirmed, {BETA}, {BETA: CURRENT}),
    "archive": Row(
        archived,
        {BETA},
        {BETA: {"archived"}},
        not_in=frozenset({"vault", "journal", "notes", fifth_system.NAME}),
    ),
    "dispute": Row(disputed, {BETA}, {ALPHA: CURRENT, BETA: CURRENT}, waits=True),
    "settle": Row(settled, set(), {BETA: GONE}),
    "propose": Row(proposed, {BETA}, {GAMMA: {""}}, waits=True),
    "approve": Row(approved, {BETA, GAMMA}, {GAMMA: CURRENT}),
    "drop": Row(dropped, {BETA}, {GAMMA: {""}}),
    "import": Row(imported, {BETA, GAMMA}, {GAMMA: CURRENT}),
    "undo": Row(undone, {BETA}, {GAMMA: {""}}, before={BETA, GAMMA}),
    "redo": Row(redone, {BETA, GAMMA}, {GAMMA: CURRENT}),
    "hand edit": Row(edited, {BETA, GAMMA}, {GAMMA: CURRENT}, not_in=frozenset({"notes"})),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_an_operation_holds_everywhere_and_is_undone(tmp_path, name, operation):
    row = OPERATIONS[operation]
    system = await opened(tmp_path, name)
    await add(system, ALPHA, BETA)
    was = all_of(system)
    if name in row.not_in:
        if operation != "hand edit":
            with pytest.raises(KodeError):
                await row.do(system, tmp_path)
        assert all_of(system) == was
        return

    undo = await row.do(system, tmp_path)

    assert standing(system) == {ALPHA} | row.stand
    for text, states in row.states.items():
        assert state_of(system, text) in states
    assert bool(await items_of(system)) == row.waits
    is_now = all_of(system)
    for text in (BETA, GAMMA):
        if state_of(system, text):
            told = await memory_command(system, ["why", text])
            began = [one for one in system.ledger.statements() if text in one.text][-1].change
            assert began is not None
            assert began.id in told
    if undo[0] != "--import":
        assert await memory_command(system, ["why", *undo])

    await memory_command(system, ["undo", *undo])

    assert standing(system) == {ALPHA} | ({BETA} if row.before is None else row.before)
    if operation not in ("settle", "approve", "drop", "undo"):
        assert all_of(system) == was
    again = await opened(tmp_path, name)  # nothing differs from the history
    assert all_of(again) == all_of(system)
    assert again.history.tail(1).changes[0].undoes
    if undo[0] != "--import":
        await memory_command(system, ["undo", again.history.tail(1).changes[0].id])
        assert all_of(system) == is_now

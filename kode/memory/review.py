"""What waits for a person, and what they decide, each in one change: what came from outside,
entries that contradict each other, and what may not hold any more.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from kode.credentials import redact
from kode.errors import MemoryRefused
from kode.memory.contract import MemorySystem
from kode.memory.markdown import display
from kode.memory.policy import About, addition_about
from kode.memory.remarks import remarks
from kode.memory.scan import check
from kode.memory.statement import AUTHORS, Author, Outcome, Statement, Who
from kode.memory.store import Choice
from kode.memory.system import statements_of
from kode.messages import shorten
from kode.paths import short_path

Confirm = Callable[[str], bool]
"""Asks the person."""
Reason = Literal["outside", "conflict", "no longer true"]
_REASONS: Mapping[Reason, tuple[str, Mapping[Choice, str]]] = {
    "outside": ("waiting for approval", {"approve": "approve", "drop": "drop"}),
    "conflict": (
        "contradict each other",
        {"first": "keep the first", "second": "keep the second", "both": "keep both"},
    ),
    "no longer true": ("may no longer be true", {"confirm": "still true", "remove": "remove"}),
}
"""The reasons to wait, in the order to ask about them: a heading, and the choices as a person reads
them."""
NOTHING_WAITS = "Nothing is pending."
MAX_PROPOSED_CHARS = 1_000  # a few sentences
MAX_PROPOSALS = 100  # a person decides on each
MAX_NAME_CHARS = 60  # of another agent, on a line


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing that waits."""

    reason: Reason
    id: str
    """The id of its statement, or those of both, joined by `+`."""
    statements: tuple[Statement, ...]
    remark: str = ""
    batch: str = ""
    """What it was imported with; "" for none."""

    @property
    def heading(self) -> str:
        return _REASONS[self.reason][0]

    @property
    def choices(self) -> Mapping[Choice, str]:
        return _REASONS[self.reason][1]

    @property
    def texts(self) -> tuple[str, ...]:
        """The full texts, each with its origin, credentials masked."""
        return tuple(map(_with_origin, self.statements))


async def items(system: MemorySystem) -> list[Item]:
    """All that waits in this project, in the order to ask about it. Raises: MemoryRefused for a
    system that holds nothing; StorageError."""
    memory = statements_of(system, "review")
    store, view = memory.store, memory.store.view()
    doubts = dict(remarks(store, memory.today()))
    waiting = [
        Item(reason="outside", id=new.id, statements=(new,), batch=change.batch)
        for new, change, *_ in filter(None, (view.entry(old.id) for old in view.waiting()))
        if store.is_here(new.place)
    ]
    for pair in view.conflicts():
        doubts.pop(pair[1].id, None)
        if all(store.is_here(statement.place) for statement in pair):
            id = "+".join(statement.id for statement in pair)
            waiting.append(Item(reason="conflict", id=id, statements=pair))
    doubtful = [statement for statement in store.statements() if statement.id in doubts]
    return waiting + [
        Item(reason="no longer true", id=old.id, statements=(old,), remark=doubts[old.id])
        for old in doubtful
    ]


async def propose(system: MemorySystem, text: str, about: About, client: str) -> Outcome:
    """Lets what another agent wants remembered wait for the person; without a change if it waits
    already. Raises: MemoryRefused, StorageError, BusyError."""
    memory = statements_of(system, "propose")
    name = shorten(client, MAX_NAME_CHARS) or "an agent without a name"
    addition = addition_about(memory.name, text, about)
    statement = memory.new_statement(addition, Author("client", source=name))
    check(statement.text, max_chars=MAX_PROPOSED_CHARS, author="client")
    check(name)
    waiting = [new for new in memory.store.view().waiting() if new.who == "client"]
    if len(waiting) >= MAX_PROPOSALS:
        raise MemoryRefused(
            f"{MAX_PROPOSALS} proposals wait already. The person decides on them with "
            "`kode memory review`."
        )
    return await memory.store.add(replace(statement, state="waiting"), kind="propose")


async def decide(system: MemorySystem, id: str, choice: str, who: Who = "user") -> Outcome:
    """Carries out a choice about the item with this id. Raises: MemoryRefused if it no longer waits
    or does not allow the choice; StorageError, BusyError."""
    item = next((item for item in await items(system) if item.id == id), None)
    choices = [name for name in item.choices if name == choice] if item else []
    if not choices:
        raise MemoryRefused(
            f"No entry that waits has the id {id!r} and the choice {choice!r}. `kode memory review "
            "--list` lists them."
        )
    memory = statements_of(system, "review")
    return memory.announce(await memory.store.decide(id, choices[0], who))


async def approve_all_of(system: MemorySystem, source: str) -> str:
    """Approves all that waits of an import or a file. Raises as `decide`, also if nothing does."""
    waiting = [item for item in await items(system) if item.reason == "outside"]
    path = short_path(source)
    of_source = [
        item.id
        for item in waiting
        if source == item.batch or f"{item.statements[0].source}:".startswith(f"{path}:")
    ]
    for id in of_source or [source]:
        await decide(system, id, "approve")
    return f"approved {len(of_source)}"


async def list_items(system: MemorySystem, reason: str = "") -> str:
    """All that waits, or all for a reason, as text. Raises as `items`."""
    waiting = [item for item in await items(system) if reason in ("", item.reason)]
    lines, counts = list[str](), Counter(item.heading for item in waiting)
    for item in waiting:
        if count := counts.pop(item.heading, 0):
            lines.append(f"{item.heading}: {count}")
        lines.append(f"  {item.id}{f'  ({item.remark})' if item.remark else ''}")
        lines += [f"    {text}" for text in item.texts]
    return "\n".join(lines) or NOTHING_WAITS


def _with_origin(statement: Statement) -> str:
    source = f", from {statement.source}" if statement.source else ""
    author = f"{AUTHORS[statement.who]}, {statement.claimed_at[:10]}{source}"
    return f"{redact(display(statement.text))}  ({author})"

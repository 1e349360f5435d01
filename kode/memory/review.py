"""What waits for a person, and what they decide: what came from outside, entries that contradict
each other, and what may not hold any more. Each decision is one change, with an undo.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from kode.contracts import MemorySystem
from kode.credentials import redact
from kode.errors import MemoryRefused
from kode.memory.guarded import statements_of
from kode.memory.markdown import display
from kode.memory.policy import About, addition_about
from kode.memory.remarks import remarks
from kode.memory.scan import check
from kode.memory.statement import AUTHORS, Author, Outcome, Statement, Who
from kode.memory.store import Choice
from kode.memory.system import Memory
from kode.memory.why import history
from kode.messages import shorten

Confirm = Callable[[str], bool]
"""Asks the person."""
Reason = Literal["outside", "conflict", "no longer true"]
HEADINGS: Mapping[Reason, str] = {
    "outside": "waiting for approval",
    "conflict": "contradict each other",
    "no longer true": "may no longer be true",
}
"""The reasons to wait, in the order to ask about them."""
CHOICES: Mapping[Reason, Mapping[Choice, str]] = {
    "outside": {"approve": "approve", "drop": "drop"},
    "conflict": {"first": "keep the first", "second": "keep the second", "both": "keep both"},
    "no longer true": {"confirm": "still true", "remove": "remove"},
}
"""The choices for each reason, worded for a person."""
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
        return HEADINGS[self.reason]

    @property
    def choices(self) -> Mapping[Choice, str]:
        return CHOICES[self.reason]

    @property
    def texts(self) -> tuple[str, ...]:
        """The full texts, each with its origin, credentials masked."""
        return tuple(map(_with_origin, self.statements))


async def items(system: MemorySystem) -> list[Item]:
    """All that waits in this project, in the order to ask about it. Raises: MemoryRefused for a
    system that holds nothing; StorageError."""
    return list(_items(statements_of(system, "review")))


def _items(memory: Memory) -> Iterator[Item]:
    store = memory.store
    view, doubts = store.view(), remarks(store, memory.today())
    for waiting in view.waiting():
        if store.is_here(waiting.place):
            batch = view.entries[waiting.id].change.batch
            yield Item(reason="outside", id=waiting.id, statements=(waiting,), batch=batch)
    pairs = view.conflicts()
    for first, second in pairs:
        if store.is_here(first.place) and store.is_here(second.place):
            yield Item(reason="conflict", id=f"{first.id}+{second.id}", statements=(first, second))
    in_conflict = {second.id for _, second in pairs}
    for statement in store.statements():
        if statement.id in doubts and statement.id not in in_conflict:
            yield Item(
                reason="no longer true",
                id=statement.id,
                statements=(statement,),
                remark=doubts[statement.id],
            )


async def find_item(system: MemorySystem, id: str) -> Item:
    """The item with this id, or with the only one that begins so. Raises: MemoryRefused."""
    waiting = await items(system)
    matches = [item for item in waiting if item.id == id] or [
        item for item in waiting if id and item.id.startswith(id)
    ]
    if len(matches) == 1:
        return matches[0]
    fault = "Several entries that wait begin" if matches else "No entry that waits begins"
    raise MemoryRefused(f"{fault} with {id!r}. `kode memory review --list` lists them.")


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
    item = await find_item(system, id)
    allowed = [name for name in item.choices if name == choice]
    if not allowed:
        raise MemoryRefused(f"{choice!r} is no choice here: {', '.join(item.choices)}.")
    memory = statements_of(system, "review")
    return memory.announce(await memory.store.decide(item.id, allowed[0], who))


async def approve_many(
    system: MemorySystem, source: str, *, confirm: Confirm | None, is_sure: bool
) -> str:
    """Approves all that waits, or all from one `source` or import, after one question. Raises:
    MemoryRefused without an answer."""
    waiting = [item for item in await items(system) if item.reason == "outside"]
    if source:
        waiting = [
            item
            for item in waiting
            if source in (item.batch, item.statements[0].source)
            or item.statements[0].source.startswith(f"{source}:")
        ]
    if not waiting:
        return f"Nothing of {source} is pending: `review --list`." if source else NOTHING_WAITS
    listed = "\n".join(line for item in waiting for line in item.texts)
    if not is_sure and confirm is None:
        raise MemoryRefused(f"{listed}\nNothing was approved. Add `--yes` to approve all of it.")
    if not is_sure and confirm and not confirm(f"{listed}\nApprove all of it?"):
        return "Nothing was approved."
    for item in waiting:
        await decide(system, item.id, "approve")
    return f"approved {len(waiting)}"


def history_of(system: MemorySystem, item: Item) -> str:
    """Where what waits comes from, in words."""
    memory = statements_of(system, "review")
    entries = memory.store.view().entries
    origins = (entries[statement.id] for statement in item.statements if statement.id in entries)
    return "\n".join(history(memory, entry) for entry in origins)


def list_items(waiting: list[Item]) -> str:
    """All that waits, as text."""
    lines = list[str]()
    for reason, heading in HEADINGS.items():
        listed = [item for item in waiting if item.reason == reason]
        lines += [f"{heading}: {len(listed)}"] if listed else []
        for item in listed:
            lines.append(f"  {item.id}{f'  ({item.remark})' if item.remark else ''}")
            lines += [f"    {text}" for text in item.texts]
    return "\n".join(lines) or NOTHING_WAITS


def _with_origin(statement: Statement) -> str:
    source = f", from {statement.source}" if statement.source else ""
    author = f"{AUTHORS[statement.who]}, {statement.claimed_at[:10]}{source}"
    return f"{redact(display(statement.text))}  ({author})"

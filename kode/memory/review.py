"""What waits for a person, and what they decide: what came from outside, entries that contradict
each other, and what may not hold any more. Each decision is one change, with an undo.
"""

from collections import Counter
from collections.abc import Callable, Mapping
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
from kode.memory.why import history
from kode.messages import shorten

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
        Item(
            reason="outside", id=new.id, statements=(new,), batch=view.entries[new.id].change.batch
        )
        for new in view.waiting()
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
    waiting = [
        item
        for item in await items(system)
        for origin in (item.statements[0].source,)
        if item.reason == "outside"
        and (source in ("", item.batch, origin) or origin.startswith(f"{source}:"))
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

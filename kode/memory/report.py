"""What a person is shown of a memory, in any system: `show` and `status`, from what its layout and
its ledger say."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kode.credentials import redact
from kode.errors import MemoryRefused
from kode.memory.change import origin_of
from kode.memory.frame import suspicion
from kode.memory.ledger import Ledger
from kode.memory.lineage import Entry, Place
from kode.memory.places import Places
from kode.messages import plural, shorten

LATEST = 5
"""Session notes that are shown."""
NOTE_CHARS = 300


@dataclass(frozen=True, kw_only=True)
class Part:
    """One place, or some of what stands in several."""

    called: str
    fill: str = ""
    """How full it is, in words; "" if it has no limit."""
    where: str = ""
    """Its file."""
    entries: Sequence[Entry] = ()
    of_notes: bool = False
    """Whether they are notes on sessions, of which the newest are shown."""
    remarks: Mapping[Place, str] = field(default_factory=dict)
    """What its system says of an entry."""
    lines: Sequence[str] = ()
    """What stands in no place, such as the latest turns."""

    @property
    def held(self) -> str:
        return plural(len(self.entries), "entry", "entries")


def part(places: Places, target: str, notice: Callable[[str], None]) -> Part:
    """One place; an unreadable one is reported, and holds nothing."""
    called, where = places.called(target), str(places.root / target)
    try:
        state = places.read(target)
    except MemoryRefused as error:
        notice(str(error))
        return Part(called=called, where=where)
    entries, fill = places.entries_of(target, state), places.fill(target, state)
    return Part(called=called, fill=fill, where=where, entries=entries)


def show(
    parts: Sequence[Part],
    ledger: Ledger,
    doubts: Mapping[Place, str],
    unsettled: Mapping[Place, str],
) -> str:
    """Every entry with its origin, and what speaks against it; "" for none.

    `doubts` say why one may not hold any more, `unsettled` what nobody has decided about it.
    """

    def lines(part: Part) -> Iterator[str]:
        found = _latest(part.entries, ledger) if part.of_notes else part.entries
        left = f"the latest {LATEST} of {part.held}" if part.entries[len(found) :] else ""
        yield " · ".join(filter(None, (part.called, part.fill, left, part.where)))
        for entry in found:
            text = redact(entry.text) if entry.is_fact else shorten(redact(entry.text), NOTE_CHARS)
            yield "  - " + text.removeprefix("- ").replace("\n", "\n    ")
            own = part.remarks.get(entry.place, "")
            yield from (f"    ({said})" for said in filter(None, (own, *remarks(entry))))
        yield from (f"  {line}" for line in part.lines)

    def remarks(entry: Entry) -> Iterator[str]:
        statement = ledger.statement(entry)
        if not entry.text.startswith("#"):
            yield ", ".join(filter(None, (entry.id, origin_of(statement.change))))
        if statement.archived:
            yield "archived: not in prompts, found by search"
        if statement.terms and statement.terms.since:
            yield f"since {statement.terms.since}"
        if entry.place in doubts:
            yield f"may be stale: {doubts[entry.place]}"
        if entry.place in unsettled:
            yield unsettled[entry.place]
        if what := suspicion(entry.text):
            yield f"this looks like {what}: check it"

    shown = (part for part in parts if part.entries or part.lines)
    return "\n\n".join("\n".join(lines(part)) for part in shown)


def status(name: str, folder: str, parts: Sequence[Part], figures: Mapping[str, object]) -> str:
    """The system, how full its places are, and its figures: those that are not zero."""
    places = {part.called: ", ".join(filter(None, (part.held, part.fill))) for part in parts}
    known = {"system": name, "folder": folder, **places, **figures}
    return "\n".join(f"{called}: {value}" for called, value in known.items() if value)


def _latest(notes: Sequence[Entry], ledger: Ledger) -> list[Entry]:
    """The newest first."""
    changes = ((one, ledger.statement(one).change) for one in notes)
    dated = sorted(changes, key=lambda it: it[1].at if it[1] else "")
    return [one for one, _ in dated[: -LATEST - 1 : -1]]

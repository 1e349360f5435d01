"""Where an entry came from, and what was made from it: read out of the history of changes.

Nothing is kept for this but the history. What a change says was there before and after is enough
to follow a text back through merges and replacements, and forward to all that was made of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Protocol, runtime_checkable

from kode import credentials
from kode.errors import MemoryRefused
from kode.memory import source
from kode.memory.history import Change, History
from kode.messages import shorten

Place = tuple[str, str]

MIN_ID_CHARS = 4
MAX_LINKS = 60
"""Shown of one chain; the rest is in the log."""
LISTED = 10
TEXT_CHARS = 160


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One remembered thing where it stands."""

    target: str
    """A file or a table, as the history calls it."""
    key: str
    """What tells it from the others there: its text, a note's id, or "" for all of a file."""
    text: str
    """As it may be shown on a screen."""
    id: str = ""
    """What a person may call it by besides its text."""

    @property
    def place(self) -> Place:
        return self.target, self.key


@runtime_checkable
class Traced(Protocol):
    """A system whose entries can be traced."""

    @property
    def name(self) -> str: ...

    @property
    def history(self) -> History: ...

    @property
    def project(self) -> Path:
        """What paths of cited code are relative to."""

    def entries(self) -> Sequence[Entry]:
        """What stands now, as far as it applies in this project."""

    def sides(self, change: Change) -> tuple[Sequence[Entry], Sequence[Entry]]:
        """The entries that a change found and left, as far as it concerns them."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A change that is in effect, in terms of entries."""

    change: Change
    gone: tuple[Place, ...]
    """What it took away or made into something else."""
    made: Mapping[Place, tuple[Entry, ...]]
    """What it put there, each with the entries that it was made of."""
    back: tuple[Place, ...]
    """What it left that was there before and is no work of its own."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """An entry, the change that it came from (None: not recorded), and what it was made of."""

    entry: Entry
    change: Change | None
    made_of: tuple["Link", ...] = ()


def steps(system: Traced) -> list[Step]:
    """All changes of a system that are in effect, oldest first."""
    standing = list(system.history.standing(system.name))
    return [step_of(system, change) for change in reversed(standing)]


def step_of(system: Traced, change: Change) -> Step:
    """One change in terms of entries."""
    before, after = system.sides(change)
    was = {entry.place: entry for entry in before}
    made = dict(_made(change, was, after))
    left = {entry.place for entry in after}
    gone = tuple(place for place in was if place not in left or place in made)
    back = tuple(place for place in left if place not in made)
    return Step(change=change, gone=gone, made=made, back=back)


def trace(system: Traced, entry: Entry) -> Link:
    """The chain of an entry that stands, back to where it was first said."""
    return _Chain(steps(system)).link(entry) or _said_elsewhere(system, entry)


def find(entries: Sequence[Entry], wanted: str) -> list[Entry]:
    """The entries that a person means: by id, by all of the text, else by a piece of it."""
    wanted = wanted.strip()
    if len(wanted) >= MIN_ID_CHARS:
        named = [entry for entry in entries if entry.id and entry.id.startswith(wanted)]
        if named:
            return [entry for entry in named if entry.id == wanted] or named
    whole = [entry for entry in entries if entry.text == wanted]
    piece = wanted.casefold()
    return whole or [entry for entry in entries if piece and piece in entry.text.casefold()]


def derived(found: Sequence[Step], roots: Mapping[str, Change]) -> list[Change]:
    """The changes that used what `roots` (by id) have made, oldest first: they made something else
    of it, or sum up the session it was said in. None where nothing of it stands any more."""
    ever: set[Place] = set()
    standing: set[Place] = set()
    seen: list[Change] = []
    used: list[Change] = []
    for step in found:
        is_root = step.change.id in roots
        uses = any(place in ever for place in step.gone)
        if is_root or uses or any(_sums_up(step.change, root) for root in seen):
            ever.update(step.made)
            standing.update(step.made)
            if not is_root:
                used.append(step.change)
        standing.difference_update(place for place in step.gone if place not in step.made)
        standing.update(ever.intersection(step.back))
        if is_root:
            seen.append(step.change)
    return used if standing else []


def _sums_up(change: Change, root: Change) -> bool:
    """Whether a change was made from the conversation in which another was."""
    if change.who != "extraction" or not root.session or change.session != root.session:
        return False
    if root.who not in ("model", "user"):
        return False
    at, said = change.turn or 0, root.turn or 0
    return at >= said if change.kind in OF_A_SESSION else at == said


OF_A_SESSION = frozenset({"episode", "session"})
"""Kinds of changes that sum up a whole session; others look at one turn."""


def _made(
    change: Change, was: Mapping[Place, Entry], after: Sequence[Entry]
) -> Iterator[tuple[Place, tuple[Entry, ...]]]:
    if change.kind == "forget":
        return  # what is there again was there before
    if change.kind == "merge":
        yield from ((entry.place, tuple(was.values())) for entry in after)
        return
    now = {entry.place: entry for entry in after}
    old, new = list(was.values()), list(now.values())
    matcher = SequenceMatcher(None, list(was), list(now), autojunk=False)
    for _, i1, i2, j1, j2 in matcher.get_opcodes():
        replaced = tuple(entry for entry in old[i1:i2] if entry.place not in now)
        for entry in new[j1:j2]:
            same = was.get(entry.place)
            if same is None:
                yield entry.place, replaced
            elif same.text != entry.text:
                yield entry.place, (same,)


class _Chain:
    """One look into the past; each change of an entry is followed once."""

    def __init__(self, found: Sequence[Step]) -> None:
        self._makers: dict[Place, list[tuple[int, Step]]] = {}
        for at, step in enumerate(found):
            for place in step.made:
                self._makers.setdefault(place, []).append((at, step))
        self._seen: set[tuple[Place, int]] = set()

    def link(self, entry: Entry, before: int | None = None) -> Link | None:
        """None when no change is known that made it."""
        makers = self._makers.get(entry.place, [])
        found = [one for one in makers if before is None or one[0] < before][-1:]
        if not found:
            return None
        at, step = found[0]
        if (entry.place, at) in self._seen or len(self._seen) >= MAX_LINKS:
            return Link(entry=entry, change=step.change)
        self._seen.add((entry.place, at))
        made_of = tuple(self._parent(old, at, step.change) for old in step.made[entry.place])
        return Link(entry=entry, change=step.change, made_of=made_of)

    def _parent(self, entry: Entry, at: int, change: Change) -> Link:
        link = self.link(entry, at)
        if link is not None:
            return link
        # A new fact that a merge took in was never written by itself: it was said in that turn.
        said_now = change.kind == "merge" and change.who in ("user", "model")
        return Link(entry=entry, change=change if said_now else None)


def _said_elsewhere(system: Traced, entry: Entry) -> Link:
    """For a text that came to stand when a change was undone: the one that first knew it."""
    for change in system.history.changes(system.name):
        if not change.undoes and any(
            one.place == entry.place for side in system.sides(change) for one in side
        ):
            return Link(entry=entry, change=change)
    return Link(entry=entry, change=None)


# ── in words ─────────────────────────────────────────────────────────────────────────────────

NOT_RECORDED = "not recorded: written by hand, or before kode kept a history"

_STATES: Mapping[source.State, str] = {
    "unchanged": "unchanged since",
    "changed": "changed since",
    "gone": "no longer there",
}

_BY = {
    "user": "you",
    "model": "the model",
    "extraction": "a model that summed up",
    "consolidation": "a model that consolidated",
    "merge": "a model that judged two entries",
    "import": "an import",
}


def why(system: Traced, wanted: str) -> str:
    """The chain of one entry, or the list of those that `wanted` may mean. Raises: MemoryRefused
    when there is none."""
    entries = find(system.entries(), wanted)
    if len(entries) > 1:
        listed = [f"  {_named(entry)}" for entry in entries[:LISTED]]
        more = [f"  ... and {len(entries) - LISTED} more"] if len(entries) > LISTED else []
        head = f"{len(entries)} entries hold {wanted!r}. Give more of the one you mean:"
        return "\n".join([head, *listed, *more])
    if entries:
        return in_words(trace(system, entries[0]), system.project)
    for change in system.history.find(wanted):
        if change.system == system.name and not change.undoes:
            after = system.sides(change)[1]
            links = (Link(entry=entry, change=change) for entry in after[:LISTED])
            texts = [in_words(link, system.project) for link in links]
            return "\n\n".join(texts) or describe(change)
    raise MemoryRefused(
        f"No entry holds {wanted!r}, and no change has that id. `kode memory show` lists the "
        "entries, `kode memory log` the changes."
    )


def in_words(link: Link, project: Path) -> str:
    """A chain, the newest link first, what each was made of indented below it. `project` is what
    paths of code are relative to."""
    lines = [*_lines(link, project, 0)]
    sessions = dict.fromkeys(_sessions(link))
    lines += [f"open: kode session show {session}" for session in sessions]
    return "\n".join(lines)


def describe(change: Change) -> str:
    """One change on a line: what, by whom, when and where."""
    when = change.at[:16].replace("T", " ")
    by = _BY.get(change.who, change.who)
    turn = f" turn {change.turn}" if change.turn else ""
    session = f", session {change.session}{turn}" if change.session else ""
    return f"{change.kind} {change.id} by {by}, {when} UTC{session}"


def _lines(link: Link, project: Path, depth: int) -> Iterator[str]:
    indent = "    " * depth
    yield f"{indent}{_named(link.entry) if not depth else _quoted(link.entry)}"
    change = link.change
    if change is None:
        yield f"{indent}  {NOT_RECORDED}"
        return
    yield f"{indent}  {describe(change)}"
    if change.words:
        yield f'{indent}  you had asked: "{credentials.redact(change.words)}"'
    if change.source:
        state = source.state(project, change.source, change.source_hash)
        yield f"{indent}  from {change.source}" + (f" ({_STATES[state]})" if state else "")
    if link.made_of:
        yield f"{indent}  made of:"
    for parent in link.made_of:
        yield from _lines(parent, project, depth + 1)


def _sessions(link: Link) -> Iterator[str]:
    if link.change is not None and link.change.session:
        yield link.change.session
    for parent in link.made_of:
        yield from _sessions(parent)


def _named(entry: Entry) -> str:
    id = f"{entry.id}  " if entry.id else ""
    return f"{id}{_quoted(entry)}  ·  {entry.target}"


def _quoted(entry: Entry) -> str:
    return f'"{shorten(credentials.redact(entry.text), TEXT_CHARS)}"'

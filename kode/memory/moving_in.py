"""Puts another agent's memory into the review: scanned, each entry with its source.

Skips what is already waiting, remembered, or approved from an earlier import.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from kode import paths
from kode.memory import foreign
from kode.memory.base import BaseMemory
from kode.memory.change import new_batch
from kode.memory.foreign import Entry, Source
from kode.memory.scan import scan
from kode.memory.waiting import Proposal, proposals
from kode.memory.waiting import take as take_imports
from kode.messages import plural, shorten
from kode.paths import real_path, short_path
from kode.prompts.agents_files import read_agents_files

SHOWN_CHARS = 100
LISTED = 20
_DIGEST = re.compile(r"\(digest ([0-9a-f]{12})\)\Z")
_BULLET = re.compile(r"[-*+] +")


@dataclass
class _Taken:
    """The result for one file."""

    source: Source
    proposals: list[Proposal] = field(default_factory=list)
    """Its new entries."""
    known: int = 0
    notes: list[str] = field(default_factory=list)


async def move_in(
    system: BaseMemory,
    path: Path | None,
    agent: str | None,
    *,
    dry_run: bool,
    confirm: Callable[[str], bool] | None,
) -> str:
    """Imports a file or a folder of another agent, or the usual places: of one agent, or of all,
    once the person agrees. Raises as `take`."""
    now = datetime.now().astimezone()
    if path is not None:
        sources = foreign.named(path.absolute(), agent)
        return await take(system, sources, named=True, dry_run=dry_run, now=now)
    known = foreign.agents()
    asked = {agent: known[agent]} if agent else known
    sources = [source for one in asked.values() for source in one.usual(system.project)]
    if not sources:
        whose = known[agent].title if agent else "another agent"
        return f"Nothing of {whose} was found. Name the file: `kode memory import FILE`."
    if agent is None and not dry_run:
        listed = _describe(system.project, sources)
        if confirm is None:
            return listed
        if not confirm(f"{listed}\nPut all of it into the review?"):
            return "Nothing was imported."
    return await take(system, sources, named=False, dry_run=dry_run, now=now)


async def take(
    system: BaseMemory, sources: Sequence[Source], *, named: bool, dry_run: bool, now: datetime
) -> str:
    """Puts the entries of these files into the review; returns the result for each file. `named`
    are files that the person named explicitly. With `dry_run` only lists the entries.

    Raises: MemoryRefused, StorageError, BusyError.
    """
    known = _Known(system)
    taken = []
    for source in sources:
        doubled = _doubled(system.project, source)
        if doubled and not named:
            imports = f"`kode memory import {short_path(source.path)}` imports it all the same"
            taken.append(_Taken(source, notes=[f"{doubled}; {imports}"]))
        else:
            taken.append(_read(source, known, system.project))
            taken[-1].notes += filter(None, [doubled])
    batch = new_batch()
    fresh = [
        replace(proposal, id=f"{batch}-{number:04}", batch=batch)
        for number, proposal in enumerate((new for one in taken for new in one.proposals), 1)
    ]
    count = await take_imports(system.history, fresh) if fresh and not dry_run else 0
    lines = [line for one in taken for line in _lines(one, dry_run)]
    if dry_run:
        return "\n".join([*lines, f"{len(fresh)} would be pending; nothing was imported"])
    if not count:
        return "\n".join([*lines, "nothing new was imported"])
    return "\n".join(
        [
            *lines,
            f"import {batch}: {count} pending",
            f"approve with: kode memory approve --from {batch}",
            f"undo with: kode memory undo --import {batch}",
        ]
    )


def _describe(project: Path, sources: Sequence[Source]) -> str:
    """What there is to import, one line per file, and how."""
    lines = []
    for source in sources:
        count = len(foreign.read(source).entries)
        entries = plural(count, "entry", "entries")
        about = _doubled(project, source) or entries
        lines.append(f"{foreign.agents()[source.agent].title}  {short_path(source.path)}: {about}")
    agents = dict.fromkeys(source.agent for source in sources)
    hows = [f"  kode memory import --from {agent}" for agent in agents]
    return "\n".join([*lines, "import with:", *hows])


class _Known:
    """Entries that need not be imported again."""

    def __init__(self, system: BaseMemory) -> None:
        self._waiting = {one.key for one in proposals(system.history)}
        here = str(system.project)
        texts = (_BULLET.sub("", entry.text, count=1) for entry in system.entries())
        self._remembered = {
            key for text in texts for key in ((text, "user", ""), (text, "project", here))
        }
        changes = system.history.standing(system.name)
        digests = (_DIGEST.search(change.source) for change in changes)
        self._approved = {found[1] for found in digests if found}

    def add(self, proposal: Proposal) -> bool:
        """Adds an entry; returns whether it was known."""
        key = proposal.key
        if key in self._waiting or key in self._remembered or _digest(proposal) in self._approved:
            return True
        self._waiting.add(key)
        return False


def _read(source: Source, known: _Known, project: Path) -> _Taken:
    agent = foreign.agents()[source.agent]
    reading = foreign.read(source)
    taken = _Taken(source, notes=[f"left out, {what}" for what in reading.left])
    of = "" if agent.is_format else f" of {agent.title}"
    for entry in _allowed(reading.entries, source, taken.notes):
        where = _where(source, entry)
        if len(entry.text) > Entry.MAX_CHARS:
            taken.notes.append(
                f"refused, {where}: {len(entry.text):,} characters, and a fact may have "
                f"{Entry.MAX_CHARS:,}"
            )
            continue
        proposal = Proposal(
            id="",
            text=entry.text,
            about=entry.about,
            client=agent.title,
            project=str(paths.project_root(Path(entry.project)) if entry.project else project),
        )
        if known.add(proposal):
            taken.known += 1
        else:
            digest = f"(digest {_digest(proposal)})"
            taken.proposals.append(replace(proposal, source=f"{where}{of} {digest}"))
    return taken


def _allowed(entries: Iterable[Entry], source: Source, notes: list[str]) -> Iterator[Entry]:
    """The entries without the paragraphs that may not be remembered, each of which becomes a
    note."""
    for entry in entries:
        kept: list[str] = []
        line = 0
        for part in entry.text.split("\n\n"):
            finding = scan(part)
            if finding is None:
                kept.append(part)
            else:
                at = _where(source, entry, line + part.count("\n", 0, finding.start))
                notes.append(f"refused, {at}: {finding.category} ({finding.what})")
            line += part.count("\n") + 2
        text = "\n\n".join(kept)
        if text and scan(text) is None:
            yield replace(entry, text=text)


def _digest(proposal: Proposal) -> str:
    """Identifies an approved entry in later imports."""
    key = "\0".join(proposal.key).encode(errors="replace")
    return hashlib.sha256(key).hexdigest()[:12]


def _doubled(project: Path, source: Source) -> str:
    """A remark on a file that kode reads as instructions anyway; "" for others."""
    real = Path(real_path(source.path))
    folder = real.parent if real.is_relative_to(project) else project
    read = read_agents_files(folder, project).sources
    if real not in [Path(real_path(one.path)) for one in read]:
        return ""
    return "kode reads it in this project as instructions already"


def _where(source: Source, entry: Entry, below: int = 0) -> str:
    """`~/.claude/CLAUDE.md:12`."""
    path = short_path(source.path)
    line = f":{entry.line + below}" if entry.line else ""
    return f"{path}{line}"


def _lines(taken: _Taken, dry_run: bool) -> Iterator[str]:
    counts = [f"{len(taken.proposals)} new"] if taken.proposals or not taken.notes else []
    counts += [f"{taken.known} known"] if taken.known else []
    yield f"{short_path(taken.source.path)}: {', '.join(counts) or 'nothing imported'}"
    yield from (f"  {note}" for note in taken.notes)
    if dry_run:
        for one in taken.proposals:
            yield f"  {one.where}  about the {one.about}"
            yield f"    {shorten(one.text, SHOWN_CHARS)}"

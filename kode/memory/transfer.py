"""Takes memory from one home to another: an export is the log, an import appends what is unknown.

Also imports what other agents remember, as plug-ins read it. What the person does not confirm as
theirs waits for their approval.
"""

import json
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import TypeAdapter

from kode import durable, installed, paths
from kode.contracts import Project
from kode.errors import MemoryRefused
from kode.memory.fold import DAMAGE, View, fold
from kode.memory.markdown import display
from kode.memory.policy import About, addition_about
from kode.memory.scan import scan
from kode.memory.statement import (
    Author,
    Change,
    Statement,
    change_from,
    timestamp,
    to_row,
)
from kode.memory.system import Memory
from kode.messages import first_of, plural, shorten

MAX_BYTES = 64_000_000  # far above the log of years
MAX_FAULTS = 10  # more tell a person nothing new
SHOWN_CHARS = 100  # a line of a terminal
FORMAT: Literal["kode memory"] = "kode memory"


# ── an export ────────────────────────────────────────────────────────────────────────────────────


def export_log(memory: Memory) -> str:
    """The changes of the active system as lines of JSON, after a line about the projects."""
    store = memory.store
    changes = [
        replace(change, files={})
        for change in store.log.changes()
        if change.system == memory.name and change.kind != DAMAGE
    ]
    rows = [_header(memory, changes), *map(to_row, changes)]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_export(path: Path, text: str) -> str:
    """Writes an export into a file. Raises: StorageError."""
    durable.replace(path, text.encode(errors="replace"))
    return f"exported {plural(text.count(chr(10)) - 1, 'change')} to {path}"


def _header(memory: Memory, changes: Sequence[Change]) -> dict[str, Any]:
    project, projects = memory.store.project, dict[str, str]()
    for statement in (new for change in changes for new in change.add if new.project):
        projects.setdefault(statement.project, str(statement.details.get("path", "")))
    if project.hash in projects:
        projects[project.hash] = str(project.root)
    return asdict(Header(system=memory.name, projects=projects))


@dataclass(frozen=True, kw_only=True)
class Header:
    """The first line of an export."""

    format: Literal["kode memory"] = FORMAT
    version: Literal[1] = 1
    system: str
    projects: Mapping[str, str]
    """The hash of each project → its folder; "" if that is unknown."""


@cache
def _header_form() -> TypeAdapter[Header]:
    return TypeAdapter(Header)


# ── an import ────────────────────────────────────────────────────────────────────────────────────


async def import_file(
    memory: Memory,
    path: Path | None,
    *,
    agent: str,
    projects: Sequence[str],
    is_mine: bool,
    dry_run: bool,
    confirm: Callable[[str], bool] | None,
) -> str:
    """Imports an export of kode's, or what another agent remembers; says what was taken. Raises:
    MemoryRefused, StorageError, BusyError; then nothing was."""
    if path is not None and not agent and path.is_file():
        text = _read(path)
        if f'"format": "{FORMAT}"' in text.partition("\n")[0]:
            return await import_log(
                memory, text, str(path), projects=projects, is_mine=is_mine, dry_run=dry_run
            )
    return await import_foreign(memory, path, agent, dry_run=dry_run, confirm=confirm)


async def import_log(
    memory: Memory,
    text: str,
    origin: str,
    *,
    projects: Sequence[str],
    is_mine: bool,
    dry_run: bool,
) -> str:
    """Appends the changes of an export that are unknown here, if it is the person's own; of
    another's, what counts there waits for approval. `projects`: `OLD=NEW` for each project of the
    export that has another folder here. Raises as `import_file`."""
    changes, faults = _parse(text)
    try:
        described = _header_form().validate_json(text.partition("\n")[0]).projects
    except ValueError:
        raise MemoryRefused(
            f"The first line of {origin} is damaged: it says of which projects the entries are. "
            "Nothing was imported. Export them again."
        ) from None
    hashes = _mapping(memory, described, changes, projects)
    batch, taken = _new_batch(), list[Change]()
    places = [memory.store.project, *(Project(Path(), hash, True) for hash in hashes.values())]
    for change in changes:
        mapped = _mapped(change, hashes)
        are_known = [any(memory.store.is_here(new.place, p) for p in places) for new in mapped.add]
        if change.system != memory.name:
            faults.append(f"{change.id} is of the {change.system} memory")
        elif not all(are_known):
            place = mapped.add[are_known.index(False)].place
            faults.append(f"{change.id}: {place!r} is no place of this memory")
        elif fault := next(filter(None, (_fault(new.text) for new in mapped.add)), ""):
            faults.append(f"{change.id}: {fault}")
        else:
            taken.append(replace(mapped, batch=mapped.batch or batch, files={}))

    def make(view: View) -> list[Change]:
        if is_mine:
            return [change for change in taken if memory.store.log.change(change.id) is None]
        waiting = tuple(
            replace(statement, who="import", quote="", state="waiting", source=origin, replaces=())
            for statement in fold(taken).statements()
            if statement.id not in view.entries and not _is_known(view, statement)
        )
        draft = memory.store.draft("import", Author("import"), batch)
        return [replace(draft, add=waiting)] if waiting else []

    preview = make(memory.store.view())
    summary = f"{plural(sum(len(change.add) for change in preview), 'entry', 'entries')} new"
    if preview and not dry_run:
        await memory.store.commit(make)
        summary = f"imported {summary} · undo with: kode memory undo --import {batch}"
        summary += "" if is_mine else "\nThey wait for you: `kode memory review`."
    return "\n".join((summary, *(f"  left out: {fault}" for fault in first_of(faults, MAX_FAULTS))))


def _new_batch() -> str:
    return f"i{secrets.token_hex(3)}"


def _fault(text: str) -> str:
    """Why a text from elsewhere may not be stored; "" if it may."""
    finding = scan(text)
    return f"{finding.category} ({finding.what})" if finding and not finding.is_wording else ""


def _parse(text: str) -> tuple[list[Change], list[str]]:
    changes, faults = list[Change](), list[str]()
    for number, line in enumerate(text.splitlines()[1:], 2):
        if line.strip():
            try:
                changes.append(change_from(line))
            except ValueError:
                faults.append(f"line {number} cannot be read")
    return changes, faults


def _mapping(
    memory: Memory,
    described: Mapping[str, str],
    changes: Sequence[Change],
    pairs: Sequence[str],
) -> dict[str, str]:
    """Each project's hash in the export → the hash of the folder that it has here. Raises:
    MemoryRefused if that is not clear."""
    here, named, unclear = memory.store.project.hash, dict[str, str](), list[str]()
    for pair in pairs:
        old, separator, new = pair.partition("=")
        if not separator or not Path(new).is_dir():
            raise MemoryRefused(
                f"`--project` is {pair!r}: write OLD=NEW, and NEW is a folder here."
            )
        named[old] = paths.path_hash(paths.project_root(Path(new)))
    hashes = {new.project: "" for change in changes for new in change.add if new.project}
    for hash in hashes:
        path = described.get(hash, "")
        if chosen := named.get(hash) or named.get(path):
            hashes[hash] = chosen
        elif hash == here or (path and os.path.isdir(path)):
            hashes[hash] = hash
        elif len(hashes) == 1:
            hashes[hash] = here
        else:
            unclear.append(path or hash)
    if unclear:
        raise MemoryRefused(
            f"The export has {plural(len(unclear), 'project')} that kode does not find here: "
            f"{', '.join(unclear)}. Nothing was imported. Say where each is: "
            f"`--project {unclear[0]}=FOLDER`."
        )
    return hashes


def _mapped(change: Change, hashes: Mapping[str, str]) -> Change:
    def mapped(statement: Statement) -> Statement:
        old, new = statement.project, hashes.get(statement.project, "")
        if not old or old == new:
            return statement
        place, lines = statement.place.replace(old, new), statement.source_hash
        return replace(statement, place=place, project=new, source_hash=lines.replace(old, new))

    return replace(change, add=tuple(map(mapped, change.add)))


def _is_known(view: View, statement: Statement) -> bool:
    """Whether memory has the text in this place already, or it waits for it; or it was imported
    from the same file before and withdrawn since."""
    path = statement.source.rpartition(":")[0] or statement.source
    key = (statement.place, display(statement.text))
    return any(
        (entry.is_alive or (path and entry.statement.source.startswith(path)))
        and (entry.statement.place, display(entry.statement.text)) == key
        for entry in view.entries.values()
    )


def _read(path: Path) -> str:
    """The text of a file that a person imports. Raises: MemoryRefused."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise MemoryRefused(f"{path} is larger than {MAX_BYTES // 1_000_000} MB.")
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise MemoryRefused(f"{path} is not UTF-8 text. Save it as UTF-8 and try again.") from error
    except OSError as error:
        raise MemoryRefused(
            f"{path} cannot be read ({error.strerror}). Check what it is and who owns it."
        ) from error


# ── other agents ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class ForeignSource:
    """A file to take entries from."""

    agent: str
    """The name in `Plugin.memory_imports`."""
    path: Path
    about: About = "project"


@dataclass(frozen=True, kw_only=True)
class ForeignEntry:
    """One thing that another agent remembers."""

    MAX_CHARS: ClassVar[int] = 2_000
    """More is a document, not a fact: it is refused by name, never cut."""

    text: str
    about: About
    line: int = 0
    """Its first line in its file, from 1; 0 without lines."""
    project: str = ""
    """The folder it is about, if it says so."""


@dataclass(frozen=True, kw_only=True)
class ForeignReading:
    """The result of reading one file."""

    entries: tuple[ForeignEntry, ...] = ()
    left: tuple[str, ...] = ()
    """What was left out, each with place and reason."""


class ForeignReader(ABC):
    """What a plug-in knows of one agent's memory; a value of `Plugin.memory_imports`."""

    Source: TypeAlias = ForeignSource
    Entry: TypeAlias = ForeignEntry
    Reading: TypeAlias = ForeignReading

    @abstractmethod
    def usual(self, project: Path) -> Iterable[ForeignSource]:
        """The existing files in the usual places: the person's own, and those of a project."""

    @abstractmethod
    def owns(self, path: Path) -> bool:
        """Whether a file or a folder is this agent's, by its name, place or content."""

    @abstractmethod
    def named(self, path: Path) -> Iterable[ForeignSource]:
        """A file, or the files in a folder, that the person said are this agent's."""

    @abstractmethod
    def read(self, source: ForeignSource, text: str) -> ForeignReading:
        """The entries of a file. Raises: MemoryRefused if it is not a file of this agent."""


async def import_foreign(
    memory: Memory,
    path: Path | None,
    agent: str,
    *,
    dry_run: bool,
    confirm: Callable[[str], bool] | None,
) -> str:
    """Imports a file or folder of another agent, or the usual places. One question decides whether
    all counts at once; where nobody can be asked, it waits for approval. Raises: MemoryRefused,
    StorageError, BusyError."""
    readers: dict[str, ForeignReader] = {
        name: installed.load(*added) for name, added in installed.added("memory_imports").items()
    }
    if agent and agent not in readers:
        raise MemoryRefused(f"kode does not know {agent!r}. It knows: {', '.join(readers)}.")
    sources = _sources(memory, path, agent, readers)
    batch = _new_batch()
    lines, new = list[str](), list[Statement]()
    for source in sources:
        reading = readers[source.agent].read(source, _read(source.path).replace("\r\n", "\n"))
        taken, faults = _statements(memory, source, reading)
        view = memory.store.view()
        fresh = [statement for statement in taken if not _is_known(view, statement)]
        new += fresh
        where = paths.short_path(source.path)
        lines.append(f"{where}: {len(fresh)} new, {len(taken) - len(fresh)} known")
        lines += [f"  left out, {fault}" for fault in (*reading.left, *faults)]
        lines += [f"  {shorten(display(statement.text), SHOWN_CHARS)}" for statement in fresh]
    listed = "\n".join(lines)
    if dry_run or not new:
        return listed
    is_approved = confirm is not None and confirm(f"{listed}\nKeep all of it?")
    draft = memory.store.draft("import", Author("user" if is_approved else "import"), batch)
    if is_approved:
        new = [replace(statement, who="user", state="current") for statement in new]
    await memory.store.commit(lambda view: replace(draft, add=tuple(new)))
    rest = "" if is_approved else "\nThey wait for you: `kode memory review`."
    return f"{listed}\nimported {len(new)} · undo with: kode memory undo --import {batch}{rest}"


def _sources(
    memory: Memory, path: Path | None, agent: str, readers: Mapping[str, ForeignReader]
) -> list[ForeignSource]:
    if path is None:
        chosen = [readers[agent]] if agent else list(readers.values())
        sources = [
            source for reader in chosen for source in reader.usual(memory.store.project.root)
        ]
        if not sources:
            raise MemoryRefused("Nothing was found. Name the file: `kode memory import FILE`.")
        return sources
    if not path.exists():
        raise MemoryRefused(f"{path} is not there. Name a file or a folder.")
    owner = agent or next((name for name, reader in readers.items() if reader.owns(path)), "")
    sources = list(readers[owner].named(path.absolute())) if owner else []
    if not sources:
        raise MemoryRefused(
            f"kode does not know whose memory {path} is. Say it with `--from`: "
            f"{', '.join(readers)}."
        )
    return sources


def _statements(
    memory: Memory, source: ForeignSource, reading: ForeignReading
) -> tuple[list[Statement], list[str]]:
    """The entries of a file as statements that wait, and why the others were left out."""
    faults, statements = list[str](), list[Statement]()
    at = timestamp(datetime.fromtimestamp(source.path.stat().st_mtime, UTC))
    for entry in reading.entries:
        where = f"{paths.short_path(source.path)}{f':{entry.line}' if entry.line else ''}"
        fault, project = _fault(entry.text), ""
        if entry.project:
            project = paths.path_hash(paths.project_root(Path(entry.project)))
        if len(entry.text) > ForeignEntry.MAX_CHARS:
            faults.append(f"{where}: {len(entry.text):,} characters, too many for a fact")
        elif fault:
            faults.append(f"{where}: {fault}")
        elif project not in ("", memory.store.project.hash):
            faults.append(f"{where}: it is about {entry.project}, import it there")
        else:
            addition = addition_about(memory.name, entry.text, entry.about)
            statement = memory.new_statement(addition, Author("import", source=where))
            statements.append(replace(statement, claimed_at=at, state="waiting"))
    return statements, faults

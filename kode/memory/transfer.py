"""Takes memory from one home to another: an export is the log, an import appends what is unknown.

Also imports what other agents remember, as plug-ins read it. What the person does not confirm as
theirs waits for their approval.
"""

import json
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, TypeAlias

from kode import durable, installed, paths
from kode.contracts import Project
from kode.errors import MemoryRefused
from kode.memory.fold import DAMAGE, View, fold
from kode.memory.markdown import display
from kode.memory.policy import About, addition_about
from kode.memory.review import Confirm
from kode.memory.scan import scan
from kode.memory.statement import Author, Change, Statement, change_from, timestamp, to_row
from kode.memory.system import Memory
from kode.messages import first_of, plural, shorten

MAX_BYTES = 64_000_000  # far above the log of years
MAX_FAULTS = 10  # more tell a person nothing new
SHOWN_CHARS = 100  # a line of a terminal
FORMAT = "kode memory"
WAITING = "\nThey wait for you: `kode memory review`."


def export_log(memory: Memory, path: Path | None = None) -> str:
    """The changes of the active system as lines of JSON, after a line with the folder of each
    project; or what was written into the file `path`. Raises: StorageError."""
    here, projects = memory.store.project, dict[str, str]()
    rows = list[Mapping[str, object]]()
    for change in memory.store.log.changes():
        if change.system == memory.name and change.kind != DAMAGE:
            rows.append(to_row(replace(change, files={})))
            for new in change.add:
                folder = here.root if new.project == here.hash else new.details.get("path", "")
                projects[new.project] = projects.get(new.project) or str(folder)
    projects.pop("", None)
    header = {"format": FORMAT, "version": 1, "system": memory.name, "projects": projects}
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in (header, *rows))
    if path is None:
        return text
    durable.replace(path, text.encode(errors="replace"))
    return f"exported {plural(len(rows), 'change')} to {path}"


async def import_file(
    memory: Memory,
    path: Path | None = None,
    agent: str = "",
    projects: Sequence[str] = (),
    is_mine: bool = False,
    dry_run: bool = False,
    confirm: Confirm | None = None,
) -> str:
    """Imports an export of kode's, or what another agent remembers; says what was taken.
    `projects`: `OLD=NEW` for each project of an export that has another folder here. Raises:
    MemoryRefused, StorageError, BusyError; then nothing was."""
    if path is not None and not agent and path.is_file():
        text = _read(path)
        if f'"format": "{FORMAT}"' in text.partition("\n")[0]:
            return await _import_log(
                memory, text, str(path), projects, is_mine=is_mine, dry_run=dry_run
            )
    return await _import_foreign(memory, path, agent, dry_run=dry_run, confirm=confirm)


async def _import_log(
    memory: Memory, text: str, origin: str, pairs: Sequence[str], *, is_mine: bool, dry_run: bool
) -> str:
    """Appends the changes of an export that are unknown here, if it is the person's own; of
    another's, what counts there waits for approval."""
    store, batch = memory.store, _new_batch()
    changes, faults = list[Change](), list[str]()
    for number, line in enumerate(text.splitlines()[1:], 2):
        try:
            changes += [change_from(line)] if line.strip() else []
        except ValueError:
            faults.append(f"line {number} cannot be read")
    try:
        folders = {
            str(k): str(v) for k, v in json.loads(text.partition("\n")[0])["projects"].items()
        }
    except (ValueError, LookupError, AttributeError):
        raise MemoryRefused(
            f"The first line of {origin} is damaged: it says of which projects the entries are. "
            "Nothing was imported. Export them again."
        ) from None
    hashes = _map_projects(store.project, changes, folders, pairs)
    here = [store.project, *(Project(Path(), hash, True) for hash in hashes.values())]
    allowed = list[Change]()
    for change in changes:
        change = replace(
            change,
            add=tuple(_move(new, hashes) for new in change.add),
            batch=change.batch or batch,
            files={},
        )
        places = [new.place for new in change.add]
        strange = [place for place in places if not any(store.is_here(place, p) for p in here)]
        if change.system != memory.name:
            faults.append(f"{change.id} is of the {change.system} memory")
        elif strange:
            faults.append(f"{change.id}: {strange[0]!r} is no place of this memory")
        elif fault := next(filter(None, (_fault(new.text) for new in change.add)), ""):
            faults.append(f"{change.id}: {fault}")
        else:
            allowed.append(change)

    def make(view: View) -> list[Change]:
        if is_mine:
            return [change for change in allowed if store.log.change(change.id) is None]
        waiting = tuple(
            replace(statement, who="import", quote="", state="waiting", source=origin, replaces=())
            for statement in fold(allowed).statements()
            if statement.id not in view.entries and not _is_known(view, statement)
        )
        draft = store.draft("import", Author("import"), batch)
        return [replace(draft, add=waiting)] if waiting else []

    new = make(store.view())
    summary = f"{plural(sum(len(change.add) for change in new), 'entry', 'entries')} new"
    if new and not dry_run:
        await store.commit(make)
        summary = f"imported {summary} · undo with: kode memory undo --import {batch}"
        summary += "" if is_mine else WAITING
    return "\n".join((summary, *(f"  left out: {fault}" for fault in first_of(faults, MAX_FAULTS))))


def _map_projects(
    here: Project, changes: Sequence[Change], folders: Mapping[str, str], pairs: Sequence[str]
) -> dict[str, str]:
    """Each project's hash in the export → the hash of the folder that it has here. Raises:
    MemoryRefused if that is not clear."""
    chosen = dict[str, str]()
    for pair in pairs:
        old, _, new = pair.partition("=")
        if not new or not Path(new).is_dir():
            raise MemoryRefused(
                f"`--project` is {pair!r}: write OLD=NEW, and NEW is a folder here."
            )
        chosen[old] = paths.path_hash(paths.project_root(Path(new)))
    hashes = {new.project: "" for change in changes for new in change.add if new.project}
    for hash in hashes:
        path = folders.get(hash, "")
        same = hash if hash == here.hash or (path and os.path.isdir(path)) else ""
        only = here.hash if len(hashes) == 1 else ""
        hashes[hash] = chosen.get(hash) or chosen.get(path) or same or only
    if unclear := [folders.get(hash) or hash for hash, new in hashes.items() if not new]:
        raise MemoryRefused(
            f"The export has {plural(len(unclear), 'project')} that kode does not find here: "
            f"{', '.join(unclear)}. Nothing was imported. Say where each is: "
            f"`--project {unclear[0]}=FOLDER`."
        )
    return hashes


def _move(statement: Statement, hashes: Mapping[str, str]) -> Statement:
    """A statement of a project as one of the folder that the project has here."""
    old, new = statement.project, hashes.get(statement.project, "")
    if not new:
        return statement
    place, lines = statement.place.replace(old, new), statement.source_hash.replace(old, new)
    return replace(statement, place=place, project=new, source_hash=lines)


def _new_batch() -> str:
    return f"i{secrets.token_hex(3)}"


def _fault(text: str) -> str:
    """Why a text from elsewhere may not be stored; "" if it may."""
    finding = scan(text)
    return f"{finding.category} ({finding.what})" if finding and not finding.is_wording else ""


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
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise MemoryRefused(f"{path} cannot be read ({reason}). Check what it is.") from error


# ── other agents ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class ForeignSource:
    """A file to take entries from."""

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


class ForeignReader(ABC):
    """What a plug-in knows of one agent's memory; a value of `Plugin.memory_imports`."""

    Source: TypeAlias = ForeignSource
    Entry: TypeAlias = ForeignEntry

    @abstractmethod
    def list_usual_sources(self, project: Path) -> Iterable[ForeignSource]:
        """The existing files in the usual places: the person's own, and those of a project."""

    @abstractmethod
    def owns(self, path: Path) -> bool:
        """Whether a file or a folder is this agent's, by its name, place or content."""

    @abstractmethod
    def list_sources(self, path: Path) -> Iterable[ForeignSource]:
        """A file that the person says is this agent's, or the files in such a folder."""

    @abstractmethod
    def read(self, source: ForeignSource, text: str) -> Iterable[ForeignEntry | str]:
        """The entries of a file, and a sentence with the place for what was left out. Raises:
        MemoryRefused if it is not a file of this agent."""


async def _import_foreign(
    memory: Memory,
    path: Path | None,
    agent: str,
    *,
    dry_run: bool,
    confirm: Confirm | None,
) -> str:
    """Imports a file or folder of another agent, or the usual places. One question decides whether
    all counts at once; where nobody can be asked, it waits for approval."""
    readers: dict[str, ForeignReader] = {
        name: installed.load(*added) for name, added in installed.added("memory_imports").items()
    }
    if agent and agent not in readers:
        raise MemoryRefused(f"kode does not know {agent!r}. It knows: {', '.join(readers)}.")
    store, batch = memory.store, _new_batch()
    lines, new = list[str](), list[Statement]()
    for reader, source in _sources(store.project.root, path, agent, readers):
        parts = reader.read(source, _read(source.path))
        statements, faults = _statements(memory, source, parts)
        fresh = [old for old in statements if not _is_known(store.view(), old)]
        new += fresh
        counts = f"{len(fresh)} new, {len(statements) - len(fresh)} known"
        lines.append(f"{paths.short_path(source.path)}: {counts}")
        lines += [f"  left out, {fault}" for fault in faults]
        lines += [f"  {shorten(display(statement.text), SHOWN_CHARS)}" for statement in fresh]
    listed = "\n".join(lines)
    if dry_run or not new:
        return listed
    is_approved = confirm is not None and confirm(f"{listed}\nKeep all of it?")
    if is_approved:
        new = [replace(statement, who="user", state="current") for statement in new]
    draft = store.draft("import", Author("user" if is_approved else "import"), batch)
    await store.commit(lambda view: replace(draft, add=tuple(new)))
    undo = f"\nimported {len(new)} · undo with: kode memory undo --import {batch}"
    return f"{listed}{undo}{'' if is_approved else WAITING}"


def _sources(
    project: Path, path: Path | None, agent: str, readers: Mapping[str, ForeignReader]
) -> list[tuple[ForeignReader, ForeignSource]]:
    if path is None:
        chosen = [readers[agent]] if agent else list(readers.values())
        sources = [(r, source) for r in chosen for source in r.list_usual_sources(project)]
        fault = "Nothing was found. Name the file: `kode memory import FILE`."
    elif path.exists():
        owners = [readers[agent]] if agent else [r for r in readers.values() if r.owns(path)][:1]
        sources = [(r, source) for r in owners for source in r.list_sources(path.absolute())]
        fault = (
            f"kode does not know whose memory {path} is. Say it with `--from`: "
            f"{', '.join(readers)}."
        )
    else:
        sources, fault = [], f"{path} is not there. Name a file or a folder."
    if not sources:
        raise MemoryRefused(fault)
    return sources


def _statements(
    memory: Memory, source: ForeignSource, parts: Iterable[ForeignEntry | str]
) -> tuple[list[Statement], list[str]]:
    """The entries of a file as statements that wait, and why the others were left out."""
    faults, statements = list[str](), list[Statement]()
    at = timestamp(datetime.fromtimestamp(source.path.stat().st_mtime, UTC))
    for entry in parts:
        if isinstance(entry, str):
            faults.append(entry)
            continue
        where = f"{paths.short_path(source.path)}{f':{entry.line}' if entry.line else ''}"
        root = paths.project_root(Path(entry.project)) if entry.project else None
        if len(entry.text) > ForeignEntry.MAX_CHARS:
            faults.append(f"{where}: {len(entry.text):,} characters, too many for a fact")
        elif fault := _fault(entry.text):
            faults.append(f"{where}: {fault}")
        elif root and paths.path_hash(root) != memory.store.project.hash:
            faults.append(f"{where}: it is about {entry.project}, import it there")
        else:
            addition = addition_about(memory.name, entry.text, entry.about)
            statement = memory.new_statement(addition, Author("import", source=where))
            statements.append(replace(statement, claimed_at=at, state="waiting"))
    return statements, faults

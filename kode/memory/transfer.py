"""Moves memory from one home to another. An export is the log; an import appends what is new to it,
also from other agents. What the person does not confirm as theirs waits for approval.
"""

import json
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Literal

from kode import durable, installed, paths
from kode.errors import MemoryRefused
from kode.memory.fold import DAMAGE, MemoryView, fold
from kode.memory.policy import About, addition_about
from kode.memory.rendering import strip_bullet
from kode.memory.review import Confirm
from kode.memory.scan import find_danger
from kode.memory.statement import Author, MemoryChange, Statement, parse_change, timestamp, to_row
from kode.memory.system import Memory
from kode.messages import cut_list, plural, shorten
from kode.session.record import Project
from kode.values import Value, asdict, dataclass, replace, validator

MAX_BYTES = 64_000_000  # far above the log of years
SHOWN_CHARS = 100  # a line of a terminal


class ExportHeader(Value):
    """The first line of an export."""

    format: Literal["kode memory"] = "kode memory"
    version: int = 1
    system: str
    projects: Mapping[str, str]
    """Hash of each project → its folder."""


def export_log(memory: Memory, path: Path | None = None) -> str:
    """Returns the changes of the active system as lines of JSON, after a line with the folder of
    each project; with `path`, writes them there and says so. Raises: StorageError."""
    here, projects = memory.store.project, dict[str, str]()
    rows = list[Mapping[str, object]]()
    for change in memory.store.log.changes():
        if change.system == memory.name and change.kind != DAMAGE:
            rows.append(to_row(replace(change, files={})))
            for new in change.add:
                folder = here.root if new.project == here.hash else new.details.get("path", "")
                projects[new.project] = projects.get(new.project) or str(folder)
    projects.pop("", None)
    header = ExportHeader(system=memory.name, projects=projects)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in (asdict(header), *rows))
    if path is None:
        return text
    durable.replace_file(path, text.encode(errors="replace"))
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
    """Imports an export of kode, which counts at once if `is_mine`, or another agent's memory,
    which counts if `confirm` says yes; all else waits. `projects`: `OLD=NEW` for each with another
    folder here. Raises: MemoryRefused, StorageError, BusyError, without a change."""
    store, batch, changes = memory.store, f"i{secrets.token_hex(3)}", list[MemoryChange]()
    header, text = None, _read(path) if path and not agent and path.is_file() else ""
    with suppress(ValueError):
        header = validator(ExportHeader).validate_json(text.partition("\n")[0])
    if header:
        changes, faults = _select_changes(memory, text, header, projects, batch)
        lines = [f"  left out: {fault}" for fault in cut_list(faults, 10)]
        new = [
            replace(
                statement, who="import", quote="", state="waiting", source=str(path), replaces=()
            )
            for statement in fold(changes).statements()
            if store.view().entry(statement.id) is None and not _is_known(store.view(), statement)
        ]
    else:
        new, lines = _statements_of_agents(memory, path, agent)
    is_approved = is_mine and header is not None
    if is_approved:
        changes = [change for change in changes if store.log.change(change.id) is None]
    else:
        if new and not dry_run and not header and confirm:
            is_approved = confirm("\n".join((*lines, "Keep all of it?")))
        if is_approved:
            new = [replace(statement, who="user", state="current") for statement in new]
        draft = store.draft("import", Author("user" if is_approved else "import"), batch)
        changes = [replace(draft, add=tuple(new))] if new else []
    count = sum(len(change.add) for change in changes)
    if dry_run or not changes:
        return "\n".join((f"{plural(count, 'entry', 'entries')} new", *lines))
    await store.commit(lambda view: [new for new in changes if store.log.change(new.id) is None])
    lines.append(f"imported {count} · undo: kode memory undo --import {batch}")
    lines += [] if is_approved else ["They wait for you: `kode memory review`."]
    return "\n".join(lines)


def _select_changes(
    memory: Memory, text: str, header: ExportHeader, pairs: Sequence[str], batch: str
) -> tuple[list[MemoryChange], list[str]]:
    """Returns the changes of an export that may be imported, moved to this machine's projects, and
    why the others were left out. Raises: MemoryRefused."""
    store, changes, faults = memory.store, list[MemoryChange](), list[str]()
    for number, line in enumerate(text.splitlines()[1:], 2):
        try:
            changes += [parse_change(line)] if line.strip() else []
        except ValueError:
            faults.append(f"line {number} cannot be read")
    hashes = _map_projects(store.project, changes, header.projects, pairs)
    here = [store.project, *(Project(Path(), hash, True) for hash in hashes.values())]
    allowed = list[MemoryChange]()
    for change in changes:
        add = tuple(_move_to_project(new, hashes) for new in change.add)
        strange = [new.place for new in add if not any(store.is_here(new.place, p) for p in here)]
        if change.system != memory.name or strange:
            place = strange[0] if strange else change.system
            faults.append(f"{change.id}: {place!r} is no place of this memory")
        elif fault := next(filter(None, (_find_fault(new.text) for new in add)), ""):
            faults.append(f"{change.id}: {fault}")
        else:
            allowed.append(replace(change, add=add, batch=change.batch or batch, files={}))
    return allowed, faults


def _map_projects(
    here: Project, changes: Sequence[MemoryChange], folders: Mapping[str, str], pairs: Sequence[str]
) -> dict[str, str]:
    """Each project's hash in the export → the hash of the folder that it has here. Raises:
    MemoryRefused if that is not clear."""
    chosen = dict(pair.partition("=")[::2] for pair in pairs)
    hashes = {new.project: "" for change in changes for new in change.add if new.project}
    for hash in hashes:
        path = folders.get(hash, "")
        folder = chosen.get(hash, chosen.get(path))
        if folder is None:
            is_same = hash == here.hash or os.path.isdir(path)
            hashes[hash] = hash if is_same else here.hash if len(hashes) == 1 else ""
        elif os.path.isdir(folder):
            hashes[hash] = paths.path_hash(paths.project_root(Path(folder)))
    if unclear := [folders.get(hash) or hash for hash, new in hashes.items() if not new]:
        raise MemoryRefused(
            f"The export has {plural(len(unclear), 'project')} that kode does not find here: "
            f"{', '.join(unclear)}. Nothing was imported. Say where each is: "
            f"`--project {unclear[0]}=FOLDER`."
        )
    return hashes


def _move_to_project(statement: Statement, hashes: Mapping[str, str]) -> Statement:
    """A statement of a project as one of the folder that the project has here."""
    old, new = statement.project, hashes.get(statement.project, "")
    if not new:
        return statement
    place, lines = statement.place.replace(old, new), statement.source_hash.replace(old, new)
    return replace(statement, place=place, project=new, source_hash=lines)


def _find_fault(text: str) -> str:
    """Why a text from elsewhere may not be stored; "" if it may."""
    finding = find_danger(text)
    return f"{finding.category} ({finding.what})" if finding and not finding.is_wording else ""


def _is_known(view: MemoryView, statement: Statement) -> bool:
    """Whether memory already has the text in this place, or has it waiting for approval."""
    key = (statement.place, strip_bullet(statement.text))
    return any((old.place, strip_bullet(old.text)) == key for old in view.statements())


def _read(path: Path) -> str:
    """The text of a file that a person imports. Raises: MemoryRefused."""
    try:
        if path.stat().st_size <= MAX_BYTES:
            return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "it is not UTF-8 text")
        raise MemoryRefused(f"{path} cannot be read ({reason}). Check what it is.") from error
    raise MemoryRefused(f"{path} is larger than {MAX_BYTES // 1_000_000} MB.")


# ── other agents ─────────────────────────────────────────────────────────────────────────────────


class ForeignReader(ABC):
    """What a plug-in knows of one agent's memory; a value of `Plugin.memory_imports`."""

    @dataclass(frozen=True, kw_only=True)
    class Source:
        """A file to take entries from."""

        path: Path
        about: About = "project"

    @dataclass(frozen=True, kw_only=True)
    class Entry:
        """One thing that another agent remembers."""

        MAX_CHARS: ClassVar[int] = 2_000
        """More is a document, not a fact: it is refused by name, never cut."""

        text: str
        about: About
        line: int = 0
        """Its first line in its file, from 1; 0 without lines."""
        project: str = ""
        """The folder it is about, if it says so."""

    @abstractmethod
    def list_usual_sources(self, project: Path) -> Iterable[Source]:
        """The existing files in the usual places: the person's own, and those of a project."""

    @abstractmethod
    def list_sources(self, path: Path) -> Iterable[Source]:
        """Returns the file that the person names as this agent's, or the files in such a folder."""

    @abstractmethod
    def read(self, source: Source, text: str) -> Iterable[Entry | str]:
        """The entries of a file, and a sentence with the place for what was left out. Raises:
        MemoryRefused if it is not a file of this agent."""


def _statements_of_agents(
    memory: Memory, path: Path | None, agent: str
) -> tuple[list[Statement], list[str]]:
    """Returns what is new in a file or folder (of `agent`, else any Markdown) or the usual places,
    as waiting statements, and lines that list it. Raises: MemoryRefused if there are no files."""
    readers: dict[str, ForeignReader] = {
        name: installed.load_part(*added)
        for name, added in installed.find_additions("memory_imports").items()
    }
    agent = agent or ("file" if path is not None else "")
    chosen = [reader for name, reader in readers.items() if agent in ("", name)]
    if path is None:
        project = memory.store.project.root
        sources = [(r, source) for r in chosen for source in r.list_usual_sources(project)]
    else:
        sources = [(r, source) for r in chosen for source in r.list_sources(path.absolute())]
    if not sources:
        raise MemoryRefused(
            "Nothing was found to import. Name a file or a folder, and say with `--from` whose "
            f"memory it is: {', '.join(readers)}."
        )
    new, lines = list[Statement](), list[str]()
    for reader, source in sources:
        read = [_read_entry(memory, source, e) for e in reader.read(source, _read(source.path))]
        statements = [part for part in read if isinstance(part, Statement)]
        fresh = [old for old in statements if not _is_known(memory.store.view(), old)]
        new += fresh
        counts = f"{len(fresh)} new, {len(statements) - len(fresh)} known"
        lines.append(f"{paths.short_path(source.path)}: {counts}")
        lines += [f"  left out, {fault}" for fault in read if isinstance(fault, str)]
        lines += [f"  {shorten(strip_bullet(statement.text), SHOWN_CHARS)}" for statement in fresh]
    return new, lines


def _read_entry(
    memory: Memory, source: ForeignReader.Source, entry: ForeignReader.Entry | str
) -> Statement | str:
    """Returns an entry of a file as a waiting statement, or why it was left out."""
    if isinstance(entry, str):
        return entry
    where = f"{paths.short_path(source.path)}{f':{entry.line}' if entry.line else ''}"
    if len(entry.text) > ForeignReader.Entry.MAX_CHARS:
        return f"{where}: {len(entry.text):,} characters, too many for a fact"
    if fault := _find_fault(entry.text):
        return f"{where}: {fault}"
    root = paths.project_root(Path(entry.project)) if entry.project else None
    if root and paths.path_hash(root) != memory.store.project.hash:
        return f"{where}: it is about {entry.project}, import it there"
    addition = addition_about(memory.name, entry.text, entry.about)
    statement = memory.new_statement(addition, Author("import", source=where))
    at = timestamp(datetime.fromtimestamp(source.path.stat().st_mtime, UTC))
    return replace(statement, claimed_at=at, state="waiting")

"""A conversation's files on disk: its session, and leftovers of crashes."""

import asyncio
import contextlib
import time
from functools import partial
from pathlib import Path
from typing import Any

from kode import durable, paths
from kode.assembly import undo_of_session
from kode.beneath import TEMPORARY_PREFIX
from kode.config import Config
from kode.errors import BusyError, SessionError, StorageError
from kode.events import Emit, Notice
from kode.provider import Provider
from kode.session import log
from kode.session.entries import (
    Header,
    UndoEntry,
    is_turn,
    line_of,
    new_session_id,
    timestamp,
)
from kode.session.index import folder_of
from kode.session.log import Session
from kode.session.messages import effective
from kode.session.upkeep import in_use
from kode.undo.store import MEGABYTE, drop_oldest_of_all
from kode.undo.undo import Undo, Undone

UPKEEP_EVERY_S = 86_400.0
"""How often leftovers are looked for in all of the home."""


def create_session(
    home: Path, cwd: Path, provider: Provider, *, keep: bool, id: str | None = None, task: str = ""
) -> Session:
    """Creates a session on disk, under `id` if given; with `keep` False only in memory. Raises:
    SessionError for an id that is taken; StorageError."""
    about: dict[str, Any] = {"cwd": cwd, "model": provider.model, "provider": provider.name}
    return log.create(home, id=id, task=task, **about) if keep else log.in_memory(**about)


def child_session(
    cwd: Path, provider: Provider, folder: Path | None, parent: str | None
) -> Session:
    """A subagent's session: its transcript in `folder`, its parent's record of it, where one that
    continues finds its own; without a folder only in memory. Raises: KodeError."""
    if folder is None:
        return log.in_memory(cwd=cwd, model=provider.model, provider=provider.name)
    path = folder / "transcript.jsonl"
    if path.exists():
        return log.load_file(path, folder.name)[0]
    header = Header(
        id=new_session_id(),
        created_at=timestamp(),
        cwd=str(cwd),
        model=provider.model,
        provider=provider.name,
        parent=parent,
    )
    with durable.storage_errors(path, "create"):
        file = durable.open_for_append(path)
        durable.append_to(file, line_of(header), path, note_end=True)
    return Session(header=header, path=path, file=file)


def load_session(home: Path, session_id: str, emit: Emit) -> Session:
    """Loads a session from disk; reports repairs once."""
    session, repairs = log.load(home, session_id)
    for repair in repairs:
        emit(Notice(text=repair))
    return session


def mark_open(home: Path, session_id: str) -> bool:
    """Marks a session as open until `unmark_open`; returns whether a kode has been killed: it has
    left a mark. Never raises."""
    own, was_killed = paths.open_mark(home, session_id), False
    with contextlib.suppress(OSError, StorageError):
        was_killed = own.exists()
        durable.make_folder(own.parent)
        durable.open_for_append(own).close()
        for mark in _unfinished(home):
            session = paths.session_file(home, mark.stem)
            if mark.suffix == own.suffix and mark != own and not in_use(session):
                was_killed = True
                durable.remove(mark)  # a kode that is killed from here on leaves its own
    return was_killed


def unmark_open(home: Path, session_id: str) -> None:
    """Never raises."""
    with contextlib.suppress(StorageError):
        durable.remove(paths.open_mark(home, session_id))


async def remove_leftovers(home: Path, undo: Undo | None, config: Config, *, of_home: bool) -> None:
    """Removes half-written files of crashes, in the project and with `of_home` in all of the home,
    and undo data beyond its limit. Those of the home at least once a day, but not at each start:
    it holds the files of all sessions, and a task must not cost more with each of them.

    In one thread, because the end of a short session waits for a thread that has started.
    """

    def remove() -> None:
        if undo is not None:
            undo.remove_stale_temporaries()
        if not (_is_upkeep_due(home) or of_home):
            return
        for folder in paths.own_folders(home, config.memory.data_dir):
            durable.remove_all_stale_temporaries(folder)
        drop_oldest_of_all(home, config.undo.max_total_mb * MEGABYTE)

    # Shielded: a busy machine may not have started the thread when a short session ends.
    await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, remove))


def _is_upkeep_due(home: Path) -> bool:
    """Whether the last upkeep of the home began a day ago; if so, notes that one begins now."""
    stamp = paths.upkeep_stamp(home)
    with contextlib.suppress(OSError):
        if abs(time.time() - stamp.stat().st_mtime) < UPKEEP_EVERY_S:
            return False
    with contextlib.suppress(StorageError):
        durable.replace(stamp, b"")
    return True


async def remove_abandoned_layers(home: Path) -> None:
    """Removes the layers of killed kodes in a thread; where there are none, none is started."""
    from kode.sandbox import store

    if found := store.with_stores(store.places(home)):
        remove = partial(store.remove_abandoned, found)
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, remove))


def _unfinished(home: Path) -> list[Path]:
    """What has begun and is not done; not what another kode is writing just now."""
    with contextlib.suppress(OSError):  # nearly always there is none
        found = paths.unfinished_folder(home).iterdir()
        return sorted(one for one in found if not one.name.startswith(TEMPORARY_PREFIX))
    return []


def finish_undos_of_others(
    home: Path, cwd: Path, config: Config, own: str | None
) -> list[tuple[str, Undone]]:
    """Completes what undos and redos of this folder's other sessions left half done when they were
    killed; returns the id of each session with what was done. Raises: StorageError."""
    found = []
    for marker in _unfinished(home):
        name, path = marker.stem, paths.session_file(home, marker.stem)
        if not path.exists():
            durable.remove(marker)
            continue
        if marker.suffix:
            continue
        is_here = name != own and folder_of(path) == log.writable_path(cwd) and not in_use(path)
        if is_here:
            undo = undo_of_session(config, home, name)
            try:
                session, _ = log.load(home, name)
            except BusyError:
                continue
            except SessionError:
                undone = undo.finish()
            else:
                with contextlib.closing(session):
                    undone = finish_undo(session, undo)
            if undone is not None:
                found.append((name, undone))
    return found


def finish_undo(session: Session, undo: Undo) -> Undone | None:
    """Completes an undo or a redo that was cut short, and its entry in the session; None if there
    was nothing to do. Raises: StorageError."""
    undone = undo.finish()
    of_undone = undone and (undone.step, undone.touched)
    entries = (entry for entry in session.entries if isinstance(entry, UndoEntry))
    if undone is None or any((entry.step, entry.files) == of_undone for entry in entries):
        undo.confirm()
        return None
    record_undo(session, undo, undone)
    return undone


def record_undo(session: Session, undo: Undo, undone: Undone) -> None:
    """Records what an undo or a redo did to files, if anything. Raises: StorageError."""
    if undone.turn is None:
        return
    if undone.touched:
        ids = {entry.id for entry in effective(session.entries) if is_turn(entry)}
        session.append(
            UndoEntry(
                turn=undone.turn,
                redo=undone.redo,
                files=undone.touched,
                of=undone.message if undone.message in ids else "",
                step=undone.step,
            )
        )
    if not undone.failed:
        undo.confirm()

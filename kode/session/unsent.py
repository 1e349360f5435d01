"""The text of a turn, on disk before anything is done for it and until the turn has ended.

Before a message is recorded a server is asked, memory opened, hooks run: a kode that is killed then
would have lost what the person asked.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from kode import durable, paths
from kode.broken_json import object_of
from kode.session.masking import masked

if TYPE_CHECKING:
    from kode.session.log import Session


def keep(home: Path, session: "Session", text: str) -> None:
    """For the next turn of a session with a file; a subagent's task is with its parent. Credentials
    are masked, as in the session. Raises: StorageError."""
    if session.id is not None and session.header.parent is None:
        path = paths.unsent_task(home, session.id)
        durable.make_folder(path.parent)
        kept = {"turn": session.turns + 1, "text": masked(text)}
        durable.replace(path, json.dumps(kept).encode())


def drop(home: Path, session: "Session") -> None:
    """After the turn, or when it was refused. Raises: StorageError."""
    if session.id is not None:
        durable.remove(paths.unsent_task(home, session.id))


def left(home: Path, session: "Session") -> str:
    """The text of a turn that is not in the session; "" if there is none."""
    return "" if session.id is None else of(home, session.id, session.turns)


def of(home: Path, session_id: str, turns: int) -> str:
    """The same for a session with so many turns."""
    try:
        kept = object_of(paths.unsent_task(home, session_id).read_bytes()) or {}
    except OSError:
        return ""
    text = kept.get("text")
    return text if isinstance(text, str) and kept.get("turn") == turns + 1 else ""


def joined(unsent: str, text: str) -> str:
    """One message of two, unless the person has asked the same or given the same command again; a
    command stays at the beginning."""
    same_command = text.startswith("/") and unsent.split()[:1] == text.split()[:1]
    if unsent == text or same_command:
        return text
    parts = (text, unsent) if text.startswith("/") else (unsent, text)
    return "\n\n".join(filter(None, parts))

"""Picks a session: the newest of this directory, numbered.

Decides which sessions `kode -r` and `/resume` show.
"""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kode.cli.screen.lines import one_line
from kode.cli.screen.screen import Screen

if TYPE_CHECKING:
    from kode.session.index import Summary

LISTED_SESSIONS = 20  # one screen


async def pick_session(screen: Screen, home: Path, cwd: Path, number: str = "") -> str | None:
    """The id of the session that the person picks, or of the one with this number; None if they
    pick none. Raises: StorageError."""
    summaries = own_sessions(home, cwd)
    if not summaries:
        screen.print("There is no session to resume here.", "dim")
        return None
    if not number:
        from kode.cli.screen.session_table import table

        today = datetime.now().astimezone().date()
        for line in table(
            summaries, screen.width - 1, today=today, with_folder=False, numbered=True
        ):
            screen.print(line)
        number = (await screen.read_answer("session number (Enter to cancel): ") or "").strip()
    if not number:
        return None
    if number.isdecimal() and 1 <= int(number) <= len(summaries):
        return summaries[int(number) - 1].id
    screen.print(f"{one_line(number)!r} is not in the list.", "warning")
    return None


def own_sessions(home: Path, cwd: Path, limit: int = LISTED_SESSIONS) -> "list[Summary]":
    """The newest sessions of this directory; a subagent's session belongs to the one that started
    it. Raises: StorageError."""
    from kode.session.index import list_sessions

    summaries = list_sessions(home, cwd=cwd, limit=3 * limit)
    own = [row for row in summaries if not row.parent and not row.damaged and row.turns]
    return own[:limit]

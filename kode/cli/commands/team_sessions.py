"""The sessions that a team shares, at the command line: the list, and which machine has a session
that is not on this one.
"""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from kode import paths
from kode.cli.screen.lines import one_line
from kode.cli.screen.printer import Answer, complain
from kode.cli.screen.session_table import listed, local_time
from kode.errors import ConfigError, KodeError, SessionError
from kode.session import index

if TYPE_CHECKING:
    from kode.config import Config
    from kode.memory.notes.team.sessions import SharedSession


def of_team(here: Path | None, words: list[str], limit: int | None, *, as_json: bool) -> Answer:
    """The sessions that members of the configured team share. Filters: the project of
    a folder, words that the task contains.

    Raises: ConfigError, MemoryRefused, Unreachable.
    """
    from kode.memory.notes.team.manage import team_of
    from kode.memory.notes.team.sessions import team_sessions

    found = team_sessions(team_of(_config().memory), project=here, words=words, most=limit)
    people = [f"{one_line(one.person)}@{one_line(one.host)}" for one in found]
    summaries = [_summary_of(one) for one in found]
    none = "Your team shares no such session." if words or here else "Your team shares none yet."
    return Answer(
        value=[asdict(one) for one in found],
        as_json=as_json,
        lines=listed(summaries, limit, with_folder=here is None, people=people),
        empty=none,
    )


def _summary_of(one: "SharedSession") -> index.Summary:
    """The line as the list of this machine's sessions shows it, with the repository's name."""
    return index.Summary(
        id=one.id,
        updated_at=one.updated_at,
        cwd=one.project if "/" in one.project else one.cwd,
        model=one.model,
        task=one.task,
        turns=one.turns,
        cost_usd=one.cost_usd,
    )


def find(prefix: str, cwd: Path | None = None) -> str:
    """`index.find` in the home; the error names the machine of a session that the team shares.
    Raises: SessionError."""
    try:
        return index.find(paths.home(), prefix, cwd)
    except index.NoSuchSession as error:
        if elsewhere := _elsewhere(prefix):
            raise SessionError(elsewhere) from error
        raise


def _elsewhere(prefix: str) -> str:
    """A sentence on where a session is; "" without a team, or if nobody there shares it."""
    from kode.memory.notes.team.address import address_of

    try:
        address = address_of(_config().memory.notes)
    except ConfigError:
        return ""  # the next command that needs the settings says what is wrong with them
    if address is None or not prefix:
        return ""
    from kode.memory.notes.team.sessions import team_sessions

    try:
        found = team_sessions(address, begins=prefix, most=1)
    except KodeError as error:
        return f"There is no session {prefix[:80]!r} here, and the team could not be asked: {error}"
    if not found:
        return ""
    one = found[0]
    return one_line(
        f"Session {one.id} is on {one.host}, where {one.person} last used it at "
        f"{local_time(one.updated_at)} in {one.cwd}. What was said in it is only there."
    )


def update_team() -> None:
    """Removes the lines of deleted sessions from the team's list; a fault is printed, and the next
    kode tries again."""
    try:
        config = _config()
        if not config.sessions.share:
            return
        from kode.memory.notes.team.manage import team_of
        from kode.memory.notes.team.sessions import update

        update(paths.home(), team_of(config.memory))
    except KodeError as error:
        complain([f"The next kode updates the team's list of sessions: {error}"])


def unshare() -> int:
    """Removes the lines of this home's sessions and returns how many. Raises: ConfigError,
    MemoryRefused, Unreachable, StorageError."""
    from kode.memory.notes.team.manage import team_of
    from kode.memory.notes.team.sessions import withdraw

    return withdraw(paths.home(), team_of(_config().memory))


def _config() -> "Config":
    from kode.config import load_config

    return load_config(paths.home(), Path.cwd(), environ=os.environ, flags={}).config

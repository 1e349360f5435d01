"""Sessions that other places list, at the command line: the list, and which machine has a session
that is not on this one.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from kode import installed, paths
from kode.cli.parser import Parser
from kode.cli.screen.lines import one_line
from kode.cli.screen.printer import Answer, complain
from kode.cli.screen.session_table import listed, local_time
from kode.contracts import ListedSession, SessionPlace
from kode.errors import KodeError, SessionError
from kode.session import index


def places() -> dict[str, SessionPlace]:
    """The places that plug-ins know, by the flag that asks for each. Raises: ConfigError."""
    added = installed.added("sessions")
    return {name: installed.load(plugin, where) for name, (plugin, where) in added.items()}


def add_flags(parser: Parser, help: str) -> dict[str, SessionPlace]:
    """Adds a flag for each place; `{}` in `help` is what is special about its sessions."""
    found = places()
    for name, place in found.items():
        parser.add_argument(f"--{name}", action="store_true", help=help.format(place.about))
    return found


def of_place(
    place: SessionPlace,
    here: Path | None,
    words: Sequence[str],
    limit: int | None,
    *,
    as_json: bool,
) -> Answer:
    """The sessions that a place lists. Filters: the project of a folder, words that the task
    contains. Raises: ConfigError, KodeError."""
    found = place.sessions(project=here, words=words, most=limit)
    people = [f"{one_line(one.person)}@{one_line(one.host)}" for one in found]
    summaries = [_summary_of(one) for one in found]
    return Answer(
        value=[asdict(one) for one in found],
        as_json=as_json,
        lines=listed(summaries, limit, with_folder=here is None, people=people),
        empty=place.nothing(filtered=bool(words or here)),
    )


def _summary_of(one: ListedSession) -> index.Summary:
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
    """`index.find` in the home; the error names the machine of a session that another place lists.
    Raises: SessionError."""
    try:
        return index.find(paths.home(), prefix, cwd)
    except index.NoSuchSession as error:
        if elsewhere := _elsewhere(prefix):
            raise SessionError(elsewhere) from error
        raise


def _elsewhere(prefix: str) -> str:
    """A sentence on where a session is; "" if no place that is set up lists it."""
    if not prefix:
        return ""
    for name, place in places().items():
        if not place.is_set_up:
            continue
        try:
            found = place.sessions(begins=prefix, most=1)
        except KodeError as error:
            return (
                f"There is no session {prefix[:80]!r} here, and the {name} could not be asked: "
                f"{error}"
            )
        for one in found:
            return one_line(
                f"Session {one.id} is on {one.host}, where {one.person} last used it at "
                f"{local_time(one.updated_at)} in {one.cwd}. What was said in it is only there."
            )
    return ""


def say_deleted() -> None:
    """Lets every place know that sessions were deleted here; a fault is printed, and the next kode
    tries again."""
    for name, place in places().items():
        try:
            place.deleted()
        except KodeError as error:
            complain([f"The next kode updates the {name}'s list of sessions: {error}"])

"""The buffer: what the last turns were about, one line for the person and one for the agent.

Created without a model, stored in the session, at most `capacity` lines, oldest dropped first.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import PurePath

from kode import credentials
from kode.contracts import Turn
from kode.memory import frame
from kode.messages import shorten

MAX_LINE_CHARS = 160
MAX_SUBJECT_CHARS = 48
"""Three of them fit into a line."""

_DID = {
    "read_file": "read",
    "write_file": "wrote",
    "edit_file": "edited",
    "search_files": "searched",
    "list_files": "listed",
    "shell": "ran",
    "fetch_url": "fetched",
    "delegate_tasks": "delegated",
    "memory": "memory",
}
_QUIET = frozenset({"todo"})
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]+")


def lines_of(turn: Turn, now: datetime, cwd: PurePath) -> tuple[str, ...]:
    """The lines of a turn: what was asked, what was done. `now` is local time."""
    clock = now.strftime("%H:%M")
    asked = f'{clock}  user  "{{}}"'
    did = f"{clock}  agent  {{}}"
    return (_fit(asked, _plain(turn.text)), _fit(did, _plain(_summary(turn, cwd))))


def append(lines: Sequence[str], more: Iterable[str], capacity: int) -> tuple[str, ...]:
    """The last `capacity` lines; none for a capacity of 0."""
    return tuple([*lines, *more][-capacity:]) if capacity > 0 else ()


def restore(value: object, capacity: int) -> tuple[str, ...]:
    """The lines in a saved state, whatever else it contains."""
    if not isinstance(value, list | tuple):
        return ()
    return append((), (line for line in value if isinstance(line, str)), capacity)


def section(lines: Sequence[str]) -> str:
    """The buffer for the model."""
    return "── Recent turns of this session ──\n" + "\n".join(frame.escape(x) for x in lines)


def _summary(turn: Turn, cwd: PurePath) -> str:
    done: dict[str, list[str]] = {}
    for name, subject in turn.tools:
        if name not in _QUIET:
            path = PurePath(subject)
            inside = name.endswith("_file") and path.is_relative_to(cwd)
            short = str(path.relative_to(cwd)) if inside else " ".join(subject.split())
            done.setdefault(_DID.get(name, name), []).append(shorten(short, MAX_SUBJECT_CHARS))
    parts = [_list(verb, list(dict.fromkeys(subjects))) for verb, subjects in done.items()]
    if not parts and turn.answer.strip():
        parts = [f"answered: {turn.answer}"]
    if turn.status != "success":
        # A bad outcome comes first: the end of a long line is cut.
        return ": ".join([turn.status, *filter(None, ["; ".join(parts)])])
    return "; ".join(parts) or "answered"


def _list(verb: str, subjects: Sequence[str]) -> str:
    more = f" and {len(subjects) - 3} more" if len(subjects) > 3 else ""
    return f"{verb} {', '.join(filter(None, subjects[:3]))}{more}".rstrip()


def _plain(text: str) -> str:
    """On one line, without control characters and credentials."""
    return " ".join(_CONTROL.sub(" ", credentials.redact(text)).split())


def _fit(form: str, text: str) -> str:
    room = MAX_LINE_CHARS - len(form.format(""))
    text = text.encode(errors="replace").decode()
    return form.format(text if len(text) <= room else text[: room - 1].rstrip() + "…")

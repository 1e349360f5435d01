"""The output of `kode run` and `kode continue TASK`: text, one JSON object, or a JSON line per
event; and the settings as lines for people.

The answer goes to stdout, everything else to stderr. `docs/scripts.md` lists every event.
"""

import dataclasses
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.cli.screen.lines import clean, one_line
from kode.errors import KodeError
from kode.events import EXIT_CODES, Emit, Event, ToolFinished, TurnEnded
from kode.messages import columns
from kode.results import result_object

if TYPE_CHECKING:
    from kode.config import Loaded


def event_object(event: Event) -> dict[str, Any]:
    """An event as one JSON object; `type` comes first."""
    fields = dataclasses.asdict(event)
    if isinstance(event, ToolFinished):
        fields["text"] = event.for_model
    return {"type": fields.pop("type"), **fields}


def to_json(value: Any) -> str:
    """JSON on one line. Characters that standard output cannot encode, such as lone surrogates, are
    escaped."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value)
    return text


def print_line(text: str) -> None:
    """Writes one line to stdout at once. A reader that went away is not an error."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_either(value: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Writes what a command found to stdout: for programs `value` as JSON on one line, for people
    the lines, cleaned."""
    for line in [to_json(value)] if as_json else map(clean, lines):
        print_line(line)


def stream_printer() -> Emit:
    """An `Emit` that prints each event as a JSON line."""

    def emit(event: Event) -> None:
        if not isinstance(event, TurnEnded):  # the last line, `result`, has its content
            print_line(to_json(event_object(event)))

    return emit


def wanted_format(argv: Sequence[str]) -> str:
    """The output format in a command line, read before it is parsed, so that even a wrong flag is
    reported in that format."""
    wanted = "text"
    for number, word in enumerate(argv):
        following = argv[number + 1] if number + 1 < len(argv) else ""
        name, _, value = word.partition("=")
        if name == "--output-format":
            wanted = value or following
    return wanted if wanted in ("json", "stream-json") else "text"


def failure_object(argv: Sequence[str], error: KodeError) -> str:
    """The JSON of a task that could not start."""
    statuses = {code: status for status, code in EXIT_CODES.items()}
    ended = TurnEnded(status=statuses.get(error.exit_code, "error"), error=str(error))
    kind = {"type": "result"} if wanted_format(argv) == "stream-json" else {}
    return to_json({**kind, **result_object(ended, None, Path())})


def settings_lines(loaded: "Loaded", beginning: str = "") -> list[str]:
    """One line per key that begins with `beginning`; secrets are masked."""
    from kode.config import flat, shown

    values = {
        key: shown(key, value)
        for key, value in flat(loaded.config).items()
        if key.startswith(beginning)
    }
    rows = []
    for key, value in values.items():
        text = one_line(json.dumps(value, ensure_ascii=False))
        origin = loaded.origins[key]
        rows.append((key, text if origin == "default" else f"{text}  ({origin})"))
    return columns(rows)

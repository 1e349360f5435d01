"""The output of `kode run` and `kode continue TASK`: text, one JSON object, or a JSON line per
event.

The answer goes to stdout, everything else to stderr. `docs/scripts.md` lists every event.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kode.cli.screen.printer import complain, print_line, to_json
from kode.errors import KodeError
from kode.events import EXIT_CODES, Event, Notice, ToolFinished, TurnEnded, result_object


def event_object(event: Event) -> dict[str, Any]:
    """An event as one JSON object; `type` comes first."""
    fields = dataclasses.asdict(event)
    if isinstance(event, ToolFinished):
        fields["text"] = event.for_model
    return {"type": fields.pop("type"), **fields}


@dataclasses.dataclass
class EventStream:
    """The lines of `stream-json`. Once it has ended, only notices are printed, on stderr: `result`
    stays the last line."""

    has_ended: bool = False

    def emit(self, event: Event) -> None:
        """Prints an event as a JSON line."""
        if self.has_ended:
            complain([event.text] if isinstance(event, Notice) else [])
        elif not isinstance(event, TurnEnded):  # the last line, `result`, has its content
            print_line(to_json(event_object(event)))


def flag_value(argv: Sequence[str], flag: str) -> str | None:
    """The last value of a flag, read before the command line is parsed, so that even a wrong one is
    reported as the flag wants it; None without the flag."""
    value = None
    for word, following in itertools.pairwise((*argv, "")):
        name, _, inner = word.partition("=")
        if name == flag:
            value = inner or following
    return value


def wanted_format(argv: Sequence[str]) -> str:
    """The output format that a command line asks for."""
    wanted = flag_value(argv, "--output-format")
    return wanted if wanted in ("json", "stream-json") else "text"


def failure_object(argv: Sequence[str], error: KodeError) -> str:
    """The JSON of a task that could not start."""
    status = {code: name for name, code in EXIT_CODES.items()}.get(error.exit_code, "error")
    ended = TurnEnded(status=status, error=str(error), setting=error.setting)
    kind = {"type": "result"} if wanted_format(argv) == "stream-json" else {}
    return to_json({**kind, **result_object(ended, None, Path())})

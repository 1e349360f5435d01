"""The output of `kode run` and `kode continue TASK`: text, one JSON object, or a JSON line per
event; and the settings as rows for people.

The answer goes to stdout, everything else to stderr. `docs/scripts.md` lists every event.
"""

import dataclasses
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.cli.screen.lines import one_line
from kode.cli.screen.printer import complain, print_line, to_json
from kode.errors import KodeError
from kode.events import EXIT_CODES, Event, Notice, ToolFinished, TurnEnded, result_object

if TYPE_CHECKING:
    from kode.config.load import Loaded


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


FIRST_KEYS = tuple(
    "model provider effort base_url permissions.mode permissions.allow permissions.deny "
    "sandbox.enabled memory.system max_budget_usd".split()
)
"""The keys that people set most, in the order in which they are shown."""

DEFAULTS = "Values without a source are defaults."


def settings_rows(loaded: "Loaded", beginning: str | None = None) -> list[tuple[str, str]]:
    """(key, value with its source) of each key that begins with `beginning`; without one, of
    `FIRST_KEYS` and of every key that is set. Secrets are masked."""
    from kode.config.model import display_value, flat

    values = flat(loaded.config)
    if beginning is None:
        keys = [*FIRST_KEYS, *(key for key in values if loaded.origins[key] != "default")]
    else:
        keys = [key for key in values if key.startswith(beginning)]
    rows = []
    for key in dict.fromkeys(keys):
        text = one_line(json.dumps(display_value(key, values[key]), ensure_ascii=False))
        origin = loaded.origins[key]
        rows.append((key, text if origin == "default" else f"{text}  ({origin})"))
    return rows

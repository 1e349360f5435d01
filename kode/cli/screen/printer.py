"""The printer of commands: answers for people and programs, events of a turn as JSON lines, and
remarks on stderr.

`docs/scripts.md` lists every event.
"""

import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from kode.cli.screen.lines import fold
from kode.errors import EXIT_OK, KodeError
from kode.events import EXIT_CODES, Event, Notice, ToolFinished, TurnEnded, result_object
from kode.messages import columns
from kode.plain_text import clean


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a command answers, printed once it has ended."""

    value: Any = None
    """For programs: anything that JSON can say."""
    as_json: bool = False
    """Whether a program asked: only `value` is printed then."""
    rows: Sequence[Sequence[str]] = ()
    """For people: a table, as `messages.columns` takes it."""
    lines: Iterable[str] = ()
    """Below the table."""
    empty: str = ""
    """Printed if there is neither a row nor a line."""
    faults: Iterable[str] = ()
    """For people, on stderr, whoever asked."""
    exit_code: int = EXIT_OK


Answered = Answer | str | int
"""What a command returns: an answer, one as text, or the exit code if it has printed all itself."""


def print_answer(answer: Answered) -> int:
    """Prints what a command returned, cleaned of what could control a terminal; returns the exit
    code."""
    if isinstance(answer, int):
        return answer
    if isinstance(answer, str):
        answer = Answer(lines=[answer])
    lines = [*answer.lines] if not answer.as_json else []
    if not (lines or answer.rows or answer.as_json) and answer.empty:
        lines = [answer.empty]
    print_either(
        answer.value, lines, rows=answer.rows, as_json=answer.as_json, faults=answer.faults
    )
    return answer.exit_code


def print_either(
    value: Any = None,
    lines: Iterable[str] = (),
    *,
    rows: Sequence[Sequence[str]] = (),
    as_json: bool = False,
    faults: Iterable[str] = (),
) -> None:
    """Writes what a command found to stdout: for programs `value` as JSON on one line, for people a
    table of `rows` and the lines below it, cleaned. Writes `faults` to stderr, see `complain`."""
    texts = [to_json(value)] if as_json else map(on_screen, (*columns(rows), *lines))
    for line in texts:
        print_line(line)
    complain(faults)


def complain(faults: Iterable[str]) -> None:
    """Writes to stderr what went wrong beside an answer; "" is nothing."""
    for fault in filter(None, faults):
        print(on_screen(f"kode: {fault}", sys.stderr), file=sys.stderr)


def on_screen(text: str, stream: TextIO | None = None) -> str:
    """Text cleaned of what could control a terminal, and on one broken between words."""
    shown = clean(text)
    if not (stream or sys.stdout).isatty():
        return shown
    return fold(shown, shutil.get_terminal_size().columns)


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


def event_object(event: Event) -> dict[str, Any]:
    """An event as one JSON object; `type` comes first."""
    fields = asdict(event)
    if isinstance(event, ToolFinished):
        fields["text"] = event.for_model
    return {"type": fields.pop("type"), **fields}


@dataclass
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

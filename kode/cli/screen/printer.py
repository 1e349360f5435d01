"""Prints what commands answer, for people and for programs; also permission rules, the events of a
turn as JSON lines, and remarks on stderr.

`docs/scripts.md` lists every event.
"""

import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from kode.cli.screen.lines import fold, one_line
from kode.errors import EXIT_OK, KodeError, UserError
from kode.events import EXIT_CODES, Event, Notice, ToolFinished, TurnEnded, result_object
from kode.messages import align_columns
from kode.plain_text import sanitize
from kode.values import Value, asdict

if TYPE_CHECKING:
    from kode.permissions.approvals import StandingRule


class CommandAnswer(Value):
    """What a command answers, printed once it has ended."""

    value: Any = None
    """What programs get: anything that JSON can express."""
    as_json: bool = False
    """Whether a program asked; if so, only `value` is printed, and any `faults`."""
    rows: Sequence[Sequence[str]] = ()
    """What people get: a table, in the form that `messages.align_columns` takes."""
    lines: Iterable[str] = ()
    """What people get below the table."""
    empty: str = ""
    """Printed if there is neither a row nor a line."""
    faults: Iterable[str] = ()
    """What went wrong; printed to stderr, whoever asked."""
    exit_code: int = EXIT_OK


Answered = CommandAnswer | str | int
"""What a command returns: an answer, an answer's text, or the exit code if it has printed all."""


def print_answer(answer: Answered) -> int:
    """Prints what a command returned, cleaned of what could control a terminal; returns the exit
    code."""
    if isinstance(answer, int):
        sys.stdout.flush()
        return answer
    if isinstance(answer, str):
        answer = CommandAnswer(lines=[answer])
    lines = [*align_columns(answer.rows), *answer.lines] or [*filter(None, [answer.empty])]
    print_either(answer.value, lines, as_json=answer.as_json, faults=answer.faults)
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
    table of `rows` and the lines below it. Writes `faults` to stderr, see `complain`."""
    if as_json:
        print_json(value)
    else:
        for line in (*align_columns(rows), *lines):
            say(line)
    complain(*faults)


def complain(*faults: str) -> None:
    """Writes to stderr what went wrong while an answer was found. Empty strings are skipped."""
    for fault in filter(None, faults):
        say(f"kode: {fault}", sys.stderr)


def say(text: str, stream: TextIO | None = None) -> None:
    """Writes a text for a person to stdout, or another stream: cleaned of what could control a
    terminal, and folded between words if the stream is one."""
    stream, shown = stream or sys.stdout, sanitize(text)
    if stream.isatty():
        shown = fold(shown, shutil.get_terminal_size().columns)
    print_line(shown, stream)


def print_document(text: str) -> None:
    """Writes a text that programs read, too, to stdout: unchanged, but clean on a terminal."""
    print_line((sanitize(text) if sys.stdout.isatty() else text).removesuffix("\n"))


def print_json(value: Any) -> None:
    """Writes a value as JSON on one line to stdout. Characters that stdout cannot encode, such as
    lone surrogates, are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value)
    print_line(text)


def print_line(text: str, stream: TextIO | None = None) -> None:
    """Writes one line to stdout, or another stream, at once. A reader that went away is not an
    error."""
    stream = stream or sys.stdout
    try:
        stream.write(text + "\n")
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def event_object(event: Event) -> dict[str, Any]:
    """An event as one JSON object; `type` comes first."""
    fields = asdict(event)
    if isinstance(event, ToolFinished):
        fields["text"] = event.for_model
    return {"type": fields.pop("type"), **fields}


def print_event(event: Event) -> None:
    """Prints an event as a line of `stream-json`, but not a turn's end, which `result` reports."""
    if not isinstance(event, TurnEnded):
        print_json(event_object(event))


def print_notice(event: Event) -> None:
    """Prints what a notice says to stderr, and nothing of other events."""
    if isinstance(event, Notice):
        complain(event.text)


def flag_value(argv: Sequence[str], flag: str) -> str | None:
    """Returns the last value of a flag, None without it. Reads the raw command line, so that even
    an error in parsing it is reported in the format that the flag asks for."""
    value = None
    for word, following in itertools.pairwise((*argv, "")):
        name, _, inner = word.partition("=")
        if name == flag:
            value = inner or following
    return value


def print_failure(argv: Sequence[str], error: KodeError) -> None:
    """Prints the JSON result of a task that could not start, if the command line asks for JSON."""
    if (wanted := flag_value(argv, "--output-format")) not in ("json", "stream-json"):
        return
    status = {code: name for name, code in EXIT_CODES.items()}.get(error.exit_code, "error")
    ended = TurnEnded(status=status, error=str(error), setting=error.setting)
    kind = {"type": "result"} if wanted == "stream-json" else {}
    print_json({**kind, **result_object(ended, None, Path())})


CHANGES: Mapping[str, tuple[str, str]] = {
    "remove": ("remove ID ...", "ask again"),
    "restore": ("restore ID ...", "allow again what you removed"),
}


def rule_rows(
    standing: "Sequence[StandingRule]", origins: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """Returns (id, rule, source) of each rule; `origins` names the file or flag of each setting."""
    answers = {"session": "your answer, in this session", "project": "your answer, in this project"}
    rows = []
    for rule in standing:
        setting = origins.get(f"permissions.{rule.effect}", "a flag or the config")
        since = f" {rule.at[:10]}" if rule.at else ""
        text = f"{'removed: ' if rule.removed else ''}{rule.effect} {one_line(str(rule.rule))}"
        rows.append((rule.id, text, answers.get(rule.source, setting) + since))
    return rows


def change_rules(command: str, words: Sequence[str], change: Callable[..., None]) -> str:
    """Removes or restores approvals by calling `change`, such as `Gate.change_approvals`, for each
    id; returns what was done, with its undo. Raises: UserError for other words; KodeError."""
    verb, *names = words
    if verb not in CHANGES or not names:
        raise UserError("Say " + "; ".join(": ".join(row) for row in CHANGES.values()) + ".")
    for name in names:
        change(**{verb: name})
    listed = " ".join(names)
    if verb == "remove":
        return f"Removed {listed}; kode will ask again · undo: {command} restore {listed}"
    return f"Restored {listed} · undo: {command} remove {listed}"

"""The exit status of each command in a line that checks the project, as bash itself reports it: the
status of `pytest | tail` is that of `tail`.

A small script traces the line: before each command, bash appends to a file the command and the
statuses of the pipeline before it. The line runs unchanged: script and file are one, the shell's
stdin, which passes through every sandbox; the script then gives the line the stdin that it would
have had, and removes itself from the environment. A status that is not certain is None.
"""

import fcntl
import os
import re
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kode.permissions.shell.parse import CheckPart

MAX_BYTES = 4_000_000  # bounds memory for a command that traces without end
MAX_EVENTS = 5_000
"""Bounds the time to compare events: the line's own programs can write to the file, too."""
MAX_SHOWN_CHARS = 80  # one line
_BLANKS = r"\\\n|\s"

# `set -T` and `set -E` take the traps into functions and subshells; only EXIT is set again there.
# An ignored ERR keeps bash from becoming the last command of a subshell, whose end would not be
# reported. `$_` is the last word of the DEBUG trap, so it stays what it was.
_SCRIPT = rb"""exec 251>&0 </dev/null
unset BASH_ENV
if [[ ${KODE_BASH_ENV+set} ]]; then
  export BASH_ENV=$KODE_BASH_ENV
  unset KODE_BASH_ENV
  eval "if [[ -r $BASH_ENV ]]; then . $BASH_ENV; fi"
fi
[[ ${BASHPID-} ]] || return 0
__kode_pid= __kode_left=2000
__kode() {
  builtin printf '%s\0' "$BASHPID" "$__kode_pid" "${@:1:$#-1}" . >&251 || :
  if [[ $BASHPID != "$__kode_pid" ]]; then
    __kode_pid=$BASHPID
    trap "$__kode_exit" EXIT
  fi
  if ((--__kode_left < 0)); then trap - DEBUG; fi
}
__kode_exit='{ trap - DEBUG; builtin printf "%s\0" "$BASHPID" "" end 0 . >&251; } 2>/dev/null'
trap "$__kode_exit" EXIT
set -ET
trap '' ERR
trap '{ __kode "c${BASH_COMMAND:0:1000}" "${PIPESTATUS[@]}" "$_"; } 2>/dev/null' DEBUG
"""


class StatusEvent(NamedTuple):
    pid: str
    parent: str
    """In a shell's first event, the pid that it was forked from; later its own pid."""
    command: str
    """The command that runs next; "" at the shell's end."""
    before: tuple[str, ...]
    """The statuses of the pipeline before it."""


def begin_reporting(
    checks: "Sequence[CheckPart]", environment: Mapping[str, str]
) -> tuple[int, dict[str, str]]:
    """The stdin for a bash that runs a line with these checks, and the variables it needs; pass the
    descriptor to `read_events` at the end. -1 and no variables if it cannot or need not trace."""
    is_asked = any(check.of and not check.alone for check in checks)
    if not is_asked or "POSIXLY_CORRECT" in environment:  # then bash reads no `BASH_ENV`
        return -1, {}
    try:
        if hasattr(os, "memfd_create"):
            channel = os.memfd_create("kode")
        else:
            with tempfile.TemporaryFile() as file:
                channel = os.dup(file.fileno())
    except OSError:
        return -1, {}
    os.write(channel, _SCRIPT)
    os.lseek(channel, 0, os.SEEK_SET)
    fcntl.fcntl(channel, fcntl.F_SETFL, os.O_APPEND)
    outer = {"KODE_BASH_ENV": environment["BASH_ENV"]} if "BASH_ENV" in environment else {}
    return channel, {"BASH_ENV": "/dev/stdin", **outer}


def read_events(channel: int) -> list[StatusEvent]:
    """The events that bash reported, in order; closes the descriptor."""
    try:
        data = os.pread(channel, MAX_BYTES, len(_SCRIPT))
    finally:
        os.close(channel)
    events: list[StatusEvent] = []
    last: dict[str, int] = {}
    for record in data.decode(errors="replace").split("\0.\0", MAX_EVENTS)[:MAX_EVENTS]:
        pid, parent, command, *before = [*record.split("\0"), "", ""]
        if command == "end":  # the last event is the EXIT trap's own, with an old command
            if pid in last:
                events[last[pid]] = events[last[pid]]._replace(command="")
        elif command:
            last[pid] = len(events)
            events.append(StatusEvent(pid, parent, command[1:], tuple(filter(None, before))))
    return events


def find_statuses(
    checks: "Sequence[CheckPart]", events: Sequence[StatusEvent], line: int
) -> tuple[tuple[str, int | None], ...]:
    """Each check with its exit status; None: not known, or it did not run. `line` is the status of
    the whole line. If a check ran several times, a failed run counts."""
    return tuple(
        (check.command, line if check.alone else _find_status(check, events)) for check in checks
    )


def describe_hidden(checks: Sequence[tuple[str, int | None]], line: int) -> list[str]:
    """Describes checks whose result the line's exit status does not show: `pytest -q` 1."""
    return [
        f"`{textwrap.shorten(command, MAX_SHOWN_CHARS, placeholder='…')}` {status}"
        for command, status in checks
        if status is not None and (status == 0) != (line == 0)
    ]


def _find_status(check: "CheckPart", events: Sequence[StatusEvent]) -> int | None:
    # bash reports a command with other blanks, and adds redirections.
    text = re.escape(re.sub(_BLANKS, "", check.command)[:500])
    runs = [
        _status_after(check, events[index:])
        for index, event in enumerate(events if check.of else ())
        if re.match(rf"{text}(\d*[<>&]|$)", re.sub(_BLANKS, "", event.command))
    ]
    failed = next((status for status in runs if status), None)
    return failed if failed or None in runs or not runs else 0


def _status_after(check: "CheckPart", events: Sequence[StatusEvent]) -> int | None:
    """The check's status, by the events from its start on: it comes with the next command of its
    shell that is not part of its pipeline. None if it is not certain."""
    pid, forked = events[0].pid, set[str]()
    rest = check.behind + 1
    for event in events[1:]:
        if event.pid == pid:
            rest -= 1
            if rest == 0:
                ended = event.before
                break
        elif event.parent == pid:
            forked.add(event.pid)
    else:
        return None
    # Further forks may have been another pipeline, which no event reports.
    if len(forked) > check.forks or len(ended) != check.of:
        return None
    return int(ended[check.at]) if re.fullmatch("[0-9]{1,3}", ended[check.at]) else None

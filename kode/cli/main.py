"""Runs the command that a command line names, and turns its errors into messages and exit codes.

Each command is a module of this package, imported when it is called. An unknown word never becomes
part of a task: only an argument with white space opens the REPL with a task.
"""

import contextlib
import errno
import importlib
import io
import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from kode import installed
from kode.cli.parser import COMMANDS, FIRST, HINTS, is_completing, plugin_commands, suggest
from kode.cli.screen.lines import align_pairs, fold
from kode.errors import EXIT_FAILED, ConfigError, Interrupted, KodeError, StorageError
from kode.process import write_report

if TYPE_CHECKING:
    from kode.cli.screen.printer import Answered

OUTPUT_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""The `errno` values of a full or broken disk, which a redirected stdout can meet."""

USAGE = (
    ('kode [flags] ["TASK"]', "start a chat; quote a first task"),
    ("kode run [flags] TASK", "one task, answer on stdout (also: kode -p TASK)"),
    ("kode continue [TASK]", "the newest session here (also: kode -c)"),
    ("kode -r [ID]", "another session: pick one, or name it"),
    ("kode COMMAND --help", "its flags; those of `run` work for all above"),
)
NEXT = "Without a key, try `kode demo`. To set one up: `kode init`.\n"


def main(argv: Sequence[str]) -> int:
    """Runs one command line and returns its exit code. Errors are reported, not raised."""
    _make_streams_safe()
    code = _run_and_report(argv)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # a closed terminal
            _abandon_stream(stream)
            code = code or EXIT_FAILED
    return code


def _run_and_report(argv: Sequence[str]) -> int:
    try:
        return _dispatch(list(argv))
    except SystemExit as done:  # `--help` of a command
        return done.code if isinstance(done.code, int) else EXIT_FAILED if done.code else 0
    except KodeError as error:
        return _report(argv, error)
    except BrokenPipeError:
        _abandon_stream(sys.stdout)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return _report(argv, Interrupted("Interrupted before the task started. Run it again."))
    except OSError as error:
        if error.errno not in OUTPUT_FAULTS or error.filename is not None:
            return _report_own_fault(argv, error)
        _abandon_stream(sys.stdout)
        text = (
            f"The output could not be written ({error.strerror}). Free some space, or redirect it; "
            "the session is saved: `kode session list`."
        )
        return _report(argv, StorageError(text))
    except Exception as error:
        return _report_own_fault(argv, error)


def _make_streams_safe() -> None:
    """Makes the standard streams safe to write any text to."""
    # Occupies the descriptors of closed streams. Otherwise the next file that kode opens, perhaps a
    # session, would serve as standard output.
    while (taken := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(taken)
    # A stream that was closed at the start is None; what is written to it is discarded.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character missing from the terminal's encoding becomes a question mark, not an error.
        sys.stdout.reconfigure(errors="replace")


def _abandon_stream(stream: TextIO) -> None:
    """Drops a stream whose reader is gone, so that flushing at exit does not raise again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _report_own_fault(argv: Sequence[str], error: Exception) -> int:
    where = write_report(error)
    return _report(argv, KodeError(f"an internal error in kode ({type(error).__name__}). {where}"))


def _use_plugin_files(argv: Sequence[str]) -> list[str]:
    """Turns on the plug-in of each `--plugin FILE`, and returns the command line without these
    flags; words after `--` stay as they are. Raises: ConfigError."""
    rest, words = list[str](), iter(argv)
    for word in words:
        flag, equals, name = word.partition("=")
        if word == "--":
            return [*rest, word, *words]
        if flag != "--plugin":
            rest.append(word)
        elif name := name if equals else next(words, ""):
            installed.use_plugin_file(name)
        else:
            raise ConfigError("kode: --plugin needs a file: `kode --plugin FILE.py`.")
    return rest


def _read_typed_words() -> list[str]:
    """The words before the one being completed, and `--help`, so that no command runs."""
    line = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    words = line.split()[1:]
    return [*(words if line[-1:].isspace() else words[:-1]), "--help"]


def _dispatch(argv: list[str]) -> int:
    argv = _read_typed_words() if is_completing() else _use_plugin_files(argv)
    first = argv[0] if argv else ""
    if first in ("--help", "-h", "help") and not is_completing():
        width, more = shutil.get_terminal_size().columns, "All commands: `kode help --all`\n"
        groups = {"usage": USAGE, "commands": [(name, COMMANDS[name][1]) for name in FIRST]}
        if "--all" in argv:
            further = {name: it for name, it in COMMANDS.items() if name not in FIRST}
            for title, commands in (("more commands", further), ("of plug-ins", plugin_commands())):
                groups[title] = [(name, about) for name, (_, about) in commands.items() if about]
            more = ""
        blocks = [f"{title}:\n{align_pairs(rows, width)}\n\n" for title, rows in groups.items()]
        sys.stdout.write("".join(blocks) + fold(more + NEXT, width))
        sys.stdout.flush()
        return 0
    if first in COMMANDS:
        return _run_module(COMMANDS[first][0], argv[1:])
    if first and not first.startswith("-") and not any(c.isspace() for c in first):
        if first in plugin_commands() and (run := installed.find_command(first)) is not None:
            return _print(run(argv[1:]))
        raise ConfigError(f"kode: unknown command {first!r}.{_suggest_command(first, argv[1:])}")
    return _run_module("kode.cli.commands.interactive", argv)


def _suggest_command(word: str, rest: list[str]) -> str:
    """Suggests what to type instead of an unknown command."""
    if hint := HINTS.get(word):
        return f" {hint}"
    if any(plugin.name == word and not plugin.enabled for plugin in installed.find_plugins()):
        return f" There is a plug-in of that name, which is off: `kode plugin enable {word}`."
    listed = [name for name, (_, about) in (COMMANDS | plugin_commands()).items() if about]
    if near := suggest(word, listed):
        return near
    if any(not argument.startswith("-") for argument in rest):
        return " Put a task of several words in quotes, or use `kode run`."
    return f" Did you mean `kode run {word}`?"


def _run_module(module: str, argv: Sequence[str]) -> int:
    """Runs `MODULE[:FUNCTION] [FIRST ARGUMENTS]`, by default its `main`, and prints the answer."""
    where, *first = module.split()
    name, _, function = where.partition(":")
    return _print(getattr(importlib.import_module(name), function or "main")([*first, *argv]))


def _print(answered: "Answered") -> int:
    from kode.cli.screen.printer import print_answer

    return print_answer(answered)


def _report(argv: Sequence[str], error: KodeError) -> int:
    """Prints an error to stderr, and as JSON if that was requested; returns its exit code."""
    from kode.cli.screen.printer import print_failure, say

    with contextlib.suppress(OSError):
        say(str(error) if str(error).startswith("kode") else f"kode: {error}", sys.stderr)
    print_failure(argv, error)
    return error.exit_code

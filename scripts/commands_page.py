"""Writes docs/commands.md from the program: `python -m scripts.commands_page`.

Each command is called with `--help`, and its parser asked for what it takes, so that the page says
what the program does."""

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from kode.cli.main import main as run_command
from kode.cli.parser import COMMANDS, Parser, plugin_commands
from kode.cli.prompt import slash

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
MANY = 5
"""More flags than these that a command shares with `kode run` are not listed again."""
BEGINNING = """\
# Commands and flags

For whoever looks up what a command takes; `kode COMMAND --help` says more about each.
`python -m scripts.commands_page` writes this page from the program, with all [extras](install.md).

"""


def main() -> int:
    """Writes the page."""
    PAGE.write_text(page())
    return 0


def page() -> str:
    """The page as it should be."""
    run_parser, _ = _ask("run")
    assert run_parser is not None
    flags = _flags_of(run_parser)
    shared = {action.option_strings[-1] for action in flags}
    lines = [BEGINNING, "## Commands\n\n"]
    for name, (_, about) in (COMMANDS | plugin_commands()).items():
        if about:
            parser, below = _ask(name)
            lines.append(f"- `{_usage(parser, name, shared)}`: {about}\n")
            lines += _list_below(name, parser, below, shared)
    lines += ["\n## Flags of kode, kode run and kode continue\n\n", *map(_describe_flag, flags)]
    lines.append("\n## At the prompt\n\n")
    for command in slash.COMMANDS.values():
        lines.append(f"- `{f'{command.name} {command.takes}'.strip()}`: {command.summary}\n")
    return "".join(lines)


def _list_below(
    name: str, parser: Parser | None, below: Mapping[str, str], shared: Collection[str]
) -> Iterator[str]:
    """The lines of a group's commands."""
    for word, about in below.items():
        of_word = _ask(name, word)[0]
        yield f"  - `{_usage(of_word, f'{name} {word}', shared)}`: {about}\n"
    for action in parser._actions if parser is not None else ():
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                usage = _usage(action.choices[choice.dest], f"{name} {choice.dest}", shared)
                yield f"  - `{usage}`: {choice.help}\n"


def _ask(*words: str) -> tuple[Parser | None, Mapping[str, str]]:
    """The parser of a command, None of a group; and the commands of a group with what they do."""
    parsers, below = list[Parser](), dict[str, str]()

    def note_parser(parser: Parser, file: Any = None) -> None:
        parsers.append(parser)

    def note_commands(names: Any, width: int) -> str:
        below.update(names)
        return ""

    silent, no_width = io.StringIO(), {"COLUMNS": "100"}
    with (
        mock.patch.object(Parser, "print_help", note_parser),
        mock.patch("kode.cli.parser.align_pairs", note_commands),
        mock.patch.dict(os.environ, no_width),
        contextlib.redirect_stdout(silent),
    ):
        run_command([*words, "--help", "--all"])
    return (parsers[-1] if parsers else None), {n: about for n, about in below.items() if about}


def _flags_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [
        action
        for action in parser._actions
        if action.option_strings
        and action.help != argparse.SUPPRESS
        and "--help" not in action.option_strings
    ]


def _usage(parser: argparse.ArgumentParser | None, name: str, shared: Collection[str]) -> str:
    """A command with what it takes: `kode session show ID [--json]`. Of one that takes most of what
    `kode run` takes, those `shared` flags are not listed."""
    words = ["kode", name]
    if parser is None:
        return " ".join([*words, "..."])
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words.append("...")
        elif not action.option_strings and action.help != argparse.SUPPRESS:
            value = f"{action.metavar or action.dest}{' ...' if action.nargs in ('*', '+') else ''}"
            # `required` of any number differs by the version of Python.
            words.append(f"[{value}]" if action.nargs in ("?", "*", "...") else value)
    flags = _flags_of(parser)
    own = [action for action in flags if action.option_strings[-1] not in shared]
    takes_shared = len(flags) - len(own) > MANY
    words += [f"[{_spell(action)}]" for action in (own if takes_shared else flags)]
    return " ".join([*words, *["[flags of run]"] * takes_shared])


def _spell(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
    return f"{action.option_strings[-1]}{value}"


def _describe_flag(action: argparse.Action) -> str:
    return f"- `{_spell(action)}`: {action.help}\n"


if __name__ == "__main__":
    sys.exit(main())

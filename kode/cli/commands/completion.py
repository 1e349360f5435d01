"""`kode completion bash|zsh|fish`: prints a script that completes kode's command line.

The script calls kode at each Tab, using the protocol of argcomplete: `complete_line` completes
commands, flags and their choices from the commands' own parsers, and else names of files.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import argcomplete
from argcomplete.shell_integration import shellcode

from kode.cli.commands import interactive
from kode.cli.parser import COMMANDS, Described, Parser, of_plugins
from kode.errors import EXIT_OK

EPILOG = """\
bash: add to ~/.bashrc                  eval "$(kode completion bash)"
zsh:  add to ~/.zshrc, after compinit   eval "$(kode completion zsh)"
fish: kode completion fish > ~/.config/fish/completions/kode.fish
"""


def main(argv: Sequence[str]) -> int:
    """Runs `kode completion ...` and returns its exit code. Raises: ConfigError."""
    about = "Prints a script that completes kode's commands, flags and session ids."
    parser = Parser("kode completion", about)
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL")
    parser.epilog = EPILOG
    sys.stdout.write(shellcode(["kode"], shell=parser.parse(argv).shell))
    return EXIT_OK


def complete_line(line: Sequence[str]) -> int:
    """Prints the possible next words for the shell that calls, which gives the typed ones."""
    argcomplete.autocomplete(
        _make_parser(line), always_complete_options=False, exit_method=sys.exit
    )
    return EXIT_OK


def _make_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """One parser for kode's entire command line, with only those commands described that are in
    `words`."""
    whole = argparse.ArgumentParser("kode", add_help=False)
    for action in _describe(interactive.main)._actions:
        if action.option_strings:
            whole._add_action(action)
    commands = whole.add_subparsers()
    for name, (where, what) in (COMMANDS | of_plugins()).items():
        if name in words and isinstance(where, str):  # not a function of a file
            path, _, function = where.partition(":")
            run = getattr(importlib.import_module(path), function or "main")
            parser = _describe(run)
            for action in parser._actions:
                if isinstance(action, argparse._SubParsersAction):
                    for word in [word for word in words if word in action.choices]:
                        if not action.choices[word]._actions:  # only its name is known
                            action.choices[word] = _describe(run, word)
            commands.add_parser(name, help=what, parents=[parser], add_help=False)
        elif what:
            commands.add_parser(name, help=what)
    return whole


def _describe(run: Callable[[Sequence[str]], object], word: str = "--help") -> Any:
    """The parser that a command would use, or the one below it of this name."""
    Parser.describing = True
    try:
        run([word])
    except Described as described:
        return described.parser
    finally:
        Parser.describing = False

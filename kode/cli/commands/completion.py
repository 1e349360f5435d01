"""`kode completion bash|zsh|fish`: prints a script that completes kode's command line.

The script calls kode at each Tab, using the protocol of argcomplete: `complete_line` completes from
the commands' own parsers and from the current sessions and models.
"""

import argparse
import contextlib
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import argcomplete
from argcomplete.completers import DirectoriesCompleter, FilesCompleter
from argcomplete.shell_integration import shellcode

from kode import paths
from kode.cli.commands import interactive
from kode.cli.parser import COMMANDS, Described, Parser, of_plugins
from kode.cli.prompt.complete import session_choices
from kode.config.load import load_config
from kode.config.model import Config
from kode.errors import EXIT_OK, KodeError
from kode.extensions.mcp_config import find_servers
from kode.extensions.review import find_items, named
from kode.providers.listing import model_names
from kode.registry import SYSTEMS, provider_names

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
        _make_parser(line),
        always_complete_options=False,
        exit_method=sys.exit,
        default_completer=_complete_value,  # type: ignore[arg-type]
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


def _complete_value(
    *, action: argparse.Action, parser: argparse.ArgumentParser, **rest: Any
) -> Any:
    """The values that an argument can have."""
    is_change = action.metavar == "ID" and "memory" in parser.prog.split()
    complete = COMPLETERS.get(str(action.metavar))
    return () if is_change or complete is None else complete(action=action, parser=parser, **rest)


def _read_config() -> Config:
    """The settings here, ignoring their faults: they are reported when they are used."""
    with contextlib.suppress(KodeError):
        return load_config(paths.home(), Path.cwd(), environ={}, flags={}).config
    return Config()


def _list_models(**_: Any) -> Iterable[str]:
    """Those that the config names, and those of kode's table."""
    config = _read_config()
    configured = [part.model or "" for part in config.providers.values()]
    names = model_names(None, [config.model or "", *configured, *config.prices])
    return filter(str.isprintable, names)


COMPLETERS: Mapping[str, Callable[..., Any]] = {
    "M": _list_models,
    **dict.fromkeys(("ID", "SESSION"), lambda **_: dict(session_choices(paths.home(), None))),
    "PROVIDER": lambda **_: filter(
        str.isprintable, dict.fromkeys((*provider_names(), *_read_config().providers))
    ),
    "SYSTEM": lambda **_: tuple(SYSTEMS),
    "SERVER": lambda **_: [entry.name for entry in find_servers(paths.home(), Path.cwd()).entries],
    "ITEM": lambda **_: {item.name: named(item) for item in find_items(paths.home(), Path.cwd())},
    **dict.fromkeys(("FILE", "FILE[,FILE]"), FilesCompleter()),
    "DIR": DirectoriesCompleter(),
}
"""A value's name in the help → its completer."""

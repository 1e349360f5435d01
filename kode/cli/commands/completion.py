"""`kode completion bash|zsh|fish`: prints a script that completes kode's command line.

The script calls kode at each Tab, using the protocol of argcomplete: `complete_line` completes from
the commands' own parsers and from the current sessions and models.
"""

import argparse
import contextlib
import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import argcomplete
from argcomplete.completers import ChoicesCompleter, DirectoriesCompleter, FilesCompleter
from argcomplete.shell_integration import shellcode

from kode import installed, paths
from kode.cli.commands import interactive
from kode.cli.parser import COMMANDS, Described, Parser, of_plugins
from kode.cli.prompt.choices import model_choices, session_choices
from kode.errors import EXIT_OK, ConfigError
from kode.extensions.mcp_config import find_servers
from kode.extensions.review import find_items, named
from kode.registry import SYSTEMS, provider_names

SHELLS = ("bash", "zsh", "fish")

EPILOG = """\
bash: add to ~/.bashrc                  eval "$(kode completion bash)"
zsh:  add to ~/.zshrc, after compinit   eval "$(kode completion zsh)"
fish: kode completion fish > ~/.config/fish/completions/kode.fish
"""


def main(argv: Sequence[str]) -> int:
    """Runs `kode completion ...` and returns its exit code. Raises: ConfigError."""
    parser = Parser(
        "kode completion", "Prints a script that completes kode's commands, flags and session ids."
    )
    parser.add_argument("shell", nargs="?", choices=SHELLS, metavar="SHELL", help="bash, zsh, fish")
    parser.epilog = EPILOG
    arguments = parser.parse(argv)
    if arguments.shell is None:
        raise ConfigError(
            f"kode completion: name the shell: {', '.join(SHELLS)}. "
            "`kode completion --help` says how to use what it prints."
        )
    sys.stdout.write(shellcode(["kode"], shell=arguments.shell))
    return EXIT_OK


def complete_line(line: Sequence[str]) -> int:
    """Prints the possible next words for the shell that calls, which gives the typed ones."""
    argcomplete.autocomplete(
        _make_parser(line),
        always_complete_options=False,
        exit_method=sys.exit,
        default_completer=ANYTHING,
    )
    return EXIT_OK


def _make_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """One parser for kode's entire command line, with only those commands described that are in
    `words`."""
    whole = argparse.ArgumentParser("kode", add_help=False)
    for action in _describe((), partial(interactive.main, []))._actions:
        if action.option_strings:
            whole._add_action(action)
    commands = whole.add_subparsers()
    for name, (where, what) in (COMMANDS | of_plugins()).items():
        if name in words and isinstance(where, str):  # not a function of a file
            _add_command(commands, name, where, what)
        elif what:
            commands.add_parser(name, help=what)
    return whole


def _add_command(commands: Any, name: str, where: str, what: str) -> None:
    where, _, function = where.partition(":")
    module = importlib.import_module(where)
    added = installed.subcommands(name)
    own = getattr(module, "COMMANDS", COMMANDS)
    if own is not COMMANDS and not function:
        below = commands.add_parser(name, help=what).add_subparsers()
        for sub, about in (own | added).items():
            parser = _describe((name, sub), partial(module.main, [sub]))
            below.add_parser(sub, help=about, parents=[parser], add_help=False)
        return
    run = getattr(module, function) if function else getattr(module, "parse", module.main)
    parser = _describe((name,), partial(run, []))
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in added:
                action.choices[sub] = _describe((name, sub), partial(module.main, [sub]))
    commands.add_parser(name, help=what, parents=[parser], add_help=False)


def _describe(words: tuple[str, ...], run: Callable[[], object]) -> Parser:
    """The parser that a command would use, with its values to complete."""
    Parser.describing = True
    try:
        run()
    except Described as described:
        _complete(described.parser, words)
        return described.parser
    finally:
        Parser.describing = False
    raise AssertionError("a command has read its command line without a parser")


def _complete(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> None:
    """Sets each value's completer by its name in the help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                _complete(below, words)
        # The ids of `kode memory` are those of changes.
        elif action.choices is None and not (action.metavar == "ID" and words == ("memory",)):
            completer = COMPLETERS.get(str(action.metavar), ANYTHING)
            action.completer = completer  # type: ignore[attr-defined]


def _read_config() -> dict[str, Any]:
    """The person's config, ignoring its faults: they are reported when it is used."""
    with contextlib.suppress(OSError, ValueError):
        return _as_object(json.loads(paths.config_file(paths.home()).read_bytes()))
    return {}


def _as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list_providers(**_: Any) -> Sequence[str]:
    described = filter(str.isprintable, _as_object(_read_config().get("providers")))
    return tuple(dict.fromkeys((*provider_names(), *described)))


def _list_models(**_: Any) -> Mapping[str, str]:
    """Those of kode's table, and those that the config names."""
    config = _read_config()
    parts = [config, *_as_object(config.get("providers")).values()]
    named = (*(_as_object(part).get("model") for part in parts), *_as_object(config.get("prices")))
    own = [name for name in named if isinstance(name, str) and name.isprintable()]
    return dict(model_choices(None, own))


ANYTHING = ChoicesCompleter({})
COMPLETERS: Mapping[str, Callable[..., Any]] = {
    "M": _list_models,
    "ID": lambda **_: dict(session_choices(paths.home(), None)),
    "SESSION": lambda **_: dict(session_choices(paths.home(), None)),
    "PROVIDER": _list_providers,
    "SYSTEM": lambda **_: tuple(SYSTEMS),
    "SERVER": lambda **_: [one.name for one in find_servers(paths.home(), Path.cwd()).entries],
    "ITEM": lambda **_: {one.name: named(one) for one in find_items(paths.home(), Path.cwd())},
    "FILE": FilesCompleter(),
    "FILE[,FILE]": FilesCompleter(),
    "DIR": DirectoriesCompleter(),
}
"""A value's name in the help → its completer."""

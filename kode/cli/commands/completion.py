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
        _whole(line),
        always_complete_options=False,
        exit_method=sys.exit,
        default_completer=ANYTHING,
    )
    return EXIT_OK


def _whole(words: Sequence[str]) -> argparse.ArgumentParser:
    """One parser for kode's entire command line, with only those commands described that are in
    `words`."""
    whole = argparse.ArgumentParser("kode", add_help=False)
    for action in _describe((), partial(interactive.main, []))._actions:
        if action.option_strings:
            whole._add_action(action)
    commands = whole.add_subparsers()
    for name, (where, what) in (COMMANDS | of_plugins()).items():
        if name not in words:
            if what:
                commands.add_parser(name, help=what)
            continue
        where, _, function = where.partition(":")
        module = importlib.import_module(where)
        own = getattr(module, "COMMANDS", COMMANDS)
        if own is not COMMANDS:
            below = commands.add_parser(name, help=what).add_subparsers()
            for sub, about in (own | installed.subcommands(name)).items():
                parser = _describe((name, sub), partial(module.main, [sub]))
                below.add_parser(sub, help=about, parents=[parser], add_help=False)
        else:
            run = getattr(module, function) if function else getattr(module, "parse", module.main)
            parser = _describe((name,), partial(run, []))
            for action in parser._actions:
                if isinstance(action, argparse._SubParsersAction):
                    for sub in installed.subcommands(name):
                        described = _describe((name, sub), partial(module.main, [sub]))
                        action.choices[sub] = described
            commands.add_parser(name, help=what, parents=[parser], add_help=False)
    return whole


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


def _systems(**_: Any) -> Sequence[str]:
    return tuple(SYSTEMS)


def _providers(**_: Any) -> Sequence[str]:
    return tuple(dict.fromkeys((*provider_names(), *_described(paths.config_file(paths.home())))))


def _sessions(**_: Any) -> Mapping[str, str]:
    return dict(session_choices(paths.home(), None))


def _models(**_: Any) -> Mapping[str, str]:
    return dict(model_choices(None, _configured_models(paths.config_file(paths.home()))))


def _servers(**_: Any) -> Sequence[str]:
    return [entry.name for entry in find_servers(paths.home(), Path.cwd()).entries]


def _items(**_: Any) -> Mapping[str, str]:
    return {item.name: named(item) for item in find_items(paths.home(), Path.cwd())}


ANYTHING = ChoicesCompleter({})
COMPLETERS = {
    "M": _models,
    "ID": _sessions,
    "SESSION": _sessions,
    "PROVIDER": _providers,
    "SYSTEM": _systems,
    "SERVER": _servers,
    "ITEM": _items,
    "FILE": FilesCompleter(),
    "FILE[,FILE]": FilesCompleter(),
    "DIR": DirectoriesCompleter(),
}
"""A value's name in the help → its completer."""


def _configured_models(path: Path) -> list[str]:
    """The models that a config file names."""
    config = _config(path)
    parts = [config, *_object(config.get("providers")).values()]
    named = [_object(part).get("model") for part in parts]
    priced = _object(config.get("prices"))
    return [name for name in (*named, *priced) if isinstance(name, str) and name.isprintable()]


def _described(path: Path) -> list[str]:
    """The providers that a config file describes."""
    return [name for name in _object(_config(path).get("providers")) if name.isprintable()]


def _config(path: Path) -> dict[str, Any]:
    """A config file, ignoring its faults: they are reported when it is used."""
    with contextlib.suppress(OSError, ValueError):
        return _object(json.loads(path.read_bytes()))
    return {}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

"""`kode completion bash|zsh|fish`: prints a script that completes kode's command line there.

The script is made from the parsers of the commands themselves, so that it knows every flag. What is
different each time (session ids, models) it asks for with `kode completion --values KIND`, which
therefore imports little. The scripts' own languages are in `completion_scripts`.
"""

import argparse
import contextlib
import importlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from kode.cli.main import COMMANDS, Described, Parser
from kode.errors import EXIT_OK, ConfigError

SHELLS = ("bash", "zsh", "fish")

Kind = Literal["", "free", "words", "sessions", "models", "files", "folders"]
"""What a flag or an argument takes: nothing, anything, one of some words, a session's id, ..."""

KIND_OF: Mapping[str, Kind] = {
    "M": "models",
    "ID": "sessions",
    "FILE": "files",
    "FILE[,FILE]": "files",
    "DIR": "folders",
}
"""By what a flag's help calls its value."""

INSTALL = """\
To use it now:      {now}
To keep it:         {keep}
"""
NOW_AND_KEEP = {
    "bash": ('eval "$(kode completion bash)"', "add that line to ~/.bashrc"),
    "zsh": ('eval "$(kode completion zsh)"', "add that line to ~/.zshrc, after compinit"),
    "fish": (
        "kode completion fish | source",
        "kode completion fish > ~/.config/fish/completions/kode.fish",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A value that a flag or an argument takes."""

    kind: Kind = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Flag:
    names: tuple[str, ...]
    help: str
    value: Taken


@dataclass(frozen=True, kw_only=True)
class Context:
    """What may stand after some words of a command line: `()`, `("session", "show")`."""

    words: tuple[str, ...]
    flags: tuple[Flag, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
    """(name, what it does)"""
    argument: Taken = Taken()


def main(argv: Sequence[str]) -> int:
    """Runs `kode completion ...` and returns its exit code. Raises: ConfigError."""
    parser = Parser(
        "kode completion", "Prints a script that completes kode's commands, flags and session ids."
    )
    parser.add_argument("shell", nargs="?", choices=SHELLS, metavar="SHELL", help="bash, zsh, fish")
    parser.add_argument("--values", choices=("sessions", "models"), help=argparse.SUPPRESS)
    parser.epilog = "\n\n".join(
        f"{shell}:\n" + INSTALL.format(now=now, keep=keep)
        for shell, (now, keep) in NOW_AND_KEEP.items()
    )
    arguments = parser.parse(argv)
    if arguments.values:
        for value, what in values(arguments.values):
            sys.stdout.write(f"{value}\t{what}\n")
        return EXIT_OK
    if arguments.shell is None:
        raise ConfigError(
            f"kode completion: name the shell: {', '.join(SHELLS)}. "
            "`kode completion --help` says how to use what it prints."
        )
    from kode.cli.completion_scripts import SCRIPTS

    sys.stdout.write(SCRIPTS[arguments.shell](contexts()))
    return EXIT_OK


def values(kind: str) -> Iterable[tuple[str, str]]:
    """The sessions, or the models, that may be named now; one a line in the script's hands."""
    from kode.cli.choices import model_choices, session_choices
    from kode.paths import config_file, home

    if kind == "sessions":
        return session_choices(home(), None)
    return model_choices(None, _configured_models(config_file(home())))


def _configured_models(path: Path) -> list[str]:
    """The models that a config file names, as far as it can be read: its faults are told when it
    is used."""
    with contextlib.suppress(OSError, ValueError):
        config = json.loads(path.read_bytes())
        parts = [config, *_object(_object(config).get("providers")).values()]
        named = [_object(part).get("model") for part in parts]
        priced = _object(_object(config).get("prices"))
        return [name for name in (*named, *priced) if isinstance(name, str) and name.isprintable()]
    return []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def contexts() -> list[Context]:
    """Every place of a command line, from what the commands' own parsers say."""
    from kode.cli import config, interactive, memory, session, subagent

    known = [_context((), partial(interactive.main, []), tuple(_summaries(COMMANDS)))]
    for name, (module, _) in COMMANDS.items():
        if module in (session.__name__, config.__name__):
            own = (session if module == session.__name__ else config).COMMANDS
            known.append(Context(words=(name,), commands=tuple(own.items())))
            called = importlib.import_module(module).main
            known += [_context((name, sub), partial(called, [sub])) for sub in own]
        elif module == memory.__name__:
            known += _memory(name, _parser(partial(memory.main, [])))
        elif module == subagent.__name__:
            known.append(_context((name,), partial(subagent.parse, [])))
        else:
            called = importlib.import_module(module).main
            known.append(_context((name,), partial(called, [])))
    return known


def _summaries(commands: Mapping[str, tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return ((name, what) for name, (_, what) in commands.items())


def _memory(name: str, parser: Parser) -> list[Context]:
    from kode.cli.choices import subcommands

    commands = subcommands(parser)
    top = _described((name,), parser, tuple((sub, what) for sub, (_, what) in commands.items()))
    return [top, *(_described((name, sub), own) for sub, (own, _) in commands.items())]


def _context(
    words: tuple[str, ...],
    run: Callable[[], object],
    commands: tuple[tuple[str, str], ...] = (),
) -> Context:
    return _described(words, _parser(run), commands)


def _parser(run: Callable[[], object]) -> Parser:
    """The parser that a command would read its command line with."""
    Parser.describing = True
    try:
        run()
    except Described as described:
        return described.parser
    finally:
        Parser.describing = False
    raise AssertionError("a command has read its command line without a parser")


def _described(
    words: tuple[str, ...],
    parser: argparse.ArgumentParser,
    commands: tuple[tuple[str, str], ...] = (),
) -> Context:
    flags, argument = [], Taken()
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):
            continue
        taken = _taken(words, action)
        if action.option_strings:
            shown = (action.help or "").replace("%%", "%")
            flags.append(Flag(names=tuple(action.option_strings), help=shown, value=taken))
        elif not argument.kind:
            argument = taken
    return Context(words=words, flags=tuple(flags), commands=commands, argument=argument)


def _taken(words: tuple[str, ...], action: argparse.Action) -> Taken:
    if action.nargs == 0:
        return Taken()
    if action.choices is not None:
        return Taken(kind="words", words=tuple(map(str, action.choices)))
    if action.metavar == "SYSTEM":
        from kode.memory import SYSTEMS

        return Taken(kind="words", words=tuple(SYSTEMS))
    # The ids of `kode memory` are those of changes.
    if action.metavar == "ID" and words[:1] == ("memory",):
        return Taken(kind="free")
    return Taken(kind=KIND_OF.get(str(action.metavar), "free"))

"""What may stand where on kode's command line, from what the commands' own parsers say: every
flag, every command, and what each takes. How a shell is told is `completion_scripts`' business.
"""

import argparse
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from kode.cli.parser import COMMANDS, Described, Parser

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


def contexts() -> list[Context]:
    """Every place of a command line, from what the commands' own parsers say."""
    from kode.cli.commands import config, interactive, memory, session, subagent

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
            called = pkgutil.resolve_name(module if ":" in module else f"{module}:main")
            known += _with_commands(name, _parser(partial(called, [])))
    return known


def _summaries(commands: Mapping[str, tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return ((name, what) for name, (_, what) in commands.items())


def _with_commands(name: str, parser: Parser) -> list[Context]:
    """The context of a command, and those of its own commands where it has some."""
    own = next((a for a in parser._actions if isinstance(a, argparse._SubParsersAction)), None)
    if own is None:
        return [_described((name,), parser)]
    about = {choice.dest: choice.help or "" for choice in own._choices_actions}
    top = _described((name,), parser, tuple(about.items()))
    return [top, *(_described((name, sub), one) for sub, one in own.choices.items())]


def _memory(name: str, parser: Parser) -> list[Context]:
    from kode.cli.prompt.choices import subcommands

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
        from kode.registry import SYSTEMS

        return Taken(kind="words", words=tuple(SYSTEMS))
    # The ids of `kode memory` are those of changes.
    if action.metavar == "ID" and words[:1] == ("memory",):
        return Taken(kind="free")
    return Taken(kind=KIND_OF.get(str(action.metavar), "free"))

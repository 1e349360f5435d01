"""Tab completion: commands at the start of a message, their arguments, `@files` and `@folders/`
anywhere. `files` lists files and folders."""

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from kode.cli.prompt.attach import BEING_TYPED, query_of, write_mention
from kode.cli.prompt.files import FileIndex
from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import clip, count, one_line
from kode.errors import KodeError
from kode.messages import plural
from kode.permissions.modes import MODE_MEANS

if TYPE_CHECKING:
    from kode.conversation import Conversation
    from kode.provider import ModelInfo


Choice = tuple[str, str]
"""(text to insert, description)"""

Choices = Callable[[tuple[str, ...]], Iterable[Choice]]
"""The words before the current one → its possible values."""

OFFERED_SESSIONS = 50  # more are found by `kode session search`
TASK_COLUMNS = 50  # beside an id, in 80 columns


def choices_of(state: PromptState) -> Mapping[str, Choices]:
    """Command → what may follow it, in the currently open conversation."""

    def alone(offered: Callable[["Conversation"], Iterable[Choice]]) -> Choices:
        return lambda before: () if before or state.opened is None else offered(state.opened)

    def models(_: "Conversation") -> Iterable[Choice]:
        own, *others = state.offers(ask=False)
        facts = _with_facts([(name, name) for name in own.models], own.provider)
        for other in others:
            facts += _with_facts(
                [(f"{other.provider}/{name}", name) for name in other.models], other.provider
            )
        return facts

    def efforts(opened: "Conversation") -> Iterable[Choice]:
        from kode.cli.prompt.models import effort_choices

        return effort_choices(opened)

    def background(before: tuple[str, ...]) -> Iterable[Choice]:
        if state.opened is None:
            return ()
        commands = state.opened.commands.commands
        match before:
            case ():
                return [(word, "") for word in ("list", "read", "tell", "kill")]
            case ("kill",) | ("tell",):
                commands = [command for command in commands if command.runs]
            case ("read",):
                pass
            case _:
                return ()
        return [
            (command.name, clip(one_line(command.running.command), TASK_COLUMNS))
            for command in commands
        ]

    def memory(before: tuple[str, ...]) -> Iterable[Choice]:
        opened = state.opened
        return memory_choices(before, opened.config.memory.system if opened else "")

    def extensions(before: tuple[str, ...]) -> Iterable[Choice]:
        from kode.cli.prompt.reports import WORDS

        return () if before else [(word, "") for word in WORDS]

    return {
        "/bg": background,
        "/effort": alone(efforts),
        "/extensions": extensions,
        "/model": alone(models),
        "/resume": alone(lambda opened: session_choices(opened.place.home, opened.place.cwd)),
        "/permissions": alone(lambda _: MODE_MEANS.items()),
        "/memory": memory,
    }


def _with_facts(named: Iterable[tuple[str, str]], provider: str) -> list[Choice]:
    """What is known of each model, of (as it is chosen, its own name)."""
    from kode.providers.models import info_of

    return [(chosen, _describe(info_of(name, provider=provider))) for chosen, name in named]


def _describe(info: "ModelInfo") -> str:
    parts = [f"{count(info.context_window)} tokens"] if info.known else []
    if info.input_price and info.output_price:
        parts.append(f"${info.input_price:g} in, ${info.output_price:g} out")
    return " · ".join(parts)


def session_choices(home: Path, cwd: Path | None) -> list[Choice]:
    """Session ids of a directory (None: of all), last used first, with each one's first prompt."""
    from kode.session.index import list_sessions

    try:
        summaries = list_sessions(home, cwd=cwd, limit=OFFERED_SESSIONS)
    except KodeError:
        return []
    return [
        (row.id, clip(f"{plural(row.turns, 'turn')} · {one_line(row.task)}", TASK_COLUMNS))
        for row in summaries
        if row.turns and not row.parent and not row.damaged
    ]


def memory_choices(before: tuple[str, ...], system: str = "") -> Iterable[Choice]:
    """The words of `/memory`, those that this system has."""
    from kode.memory.commands import add_commands

    parser = argparse.ArgumentParser(add_help=False)
    add_commands(parser, system)
    commands = subcommands(parser)
    if not before:
        yield from ((name, what) for name, (_, what) in commands.items())
        return
    if before[0] in commands:
        yield from next_words(commands[before[0]][0], before[1:])


def subcommands(parser: argparse.ArgumentParser) -> dict[str, tuple[argparse.ArgumentParser, str]]:
    """The commands of a parser, each with its own parser and description."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {a.dest: a.help or "" for a in action._get_subactions()}
            return {name: (own, helps.get(name, "")) for name, own in action.choices.items()}
    return {}


def next_words(parser: argparse.ArgumentParser, before: Sequence[str]) -> Iterable[Choice]:
    """The choices of the next positional argument."""
    positional = [action for action in parser._actions if not action.option_strings]
    position = sum(not word.startswith("-") for word in before)
    if position < len(positional):
        yield from ((str(choice), "") for choice in positional[position].choices or ())


HELD = 2
"""From this many letters on, matches inside of choices count too; one is only a beginning."""


@dataclass(eq=False)
class ReplCompleter(Completer):
    """Completes the text before the cursor. Runs in a thread of the editor's."""

    commands: Mapping[str, str]
    """Name → description."""
    arguments: Mapping[str, Choices]
    """Name → what may follow it."""
    files: FileIndex
    more: Callable[[], Mapping[str, str]] = dict
    """Commands that come and go."""
    first: Collection[str] = ()
    """The commands offered for a lone `/`; the others are found by typing."""

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Best first; empty if nothing can be completed."""
        before = document.text_before_cursor
        if typed := BEING_TYPED.search(before):
            start = typed.start() + typed[0].index("@") + 1 - len(before)
            query = query_of(typed)
            for path in self.files.find(query):
                if path == query and path.endswith("/"):  # it is complete: its content follows
                    continue
                yield Completion(write_mention(path), start_position=start, display=path)
        elif before.startswith("/") and "\n" not in before:
            yield from self._commands(before)

    def _commands(self, before: str) -> Iterable[Completion]:
        name, space, rest = before.partition(" ")
        if not space:
            known = {**self.more(), **self.commands}
            fitting = matching_choices([(command[1:], "") for command in known], name[1:])
            named = [f"/{word}" for word, _ in fitting] or get_close_matches(name, known)
            offered = named if name[1:] else self.first
            for command in offered:
                yield Completion(command, start_position=-len(name), display_meta=known[command])
            return
        if name not in self.arguments:
            return
        *args, typed = rest.split(" ")
        for value, what in matching_choices(self.arguments[name](tuple(filter(None, args))), typed):
            yield Completion(value, start_position=-len(typed), display_meta=what)


def matching_choices(choices: Iterable[Choice], typed: str) -> list[Choice]:
    """The choices that begin with what was typed, then those that contain it anywhere, including
    descriptions: a session is found by its task."""
    wanted = typed.lower()
    begins, holds = [], []
    for value, what in choices:
        if value.lower().startswith(wanted):
            begins.append((value, what))
        elif len(wanted) >= HELD and wanted in f"{value} {what}".lower():
            holds.append((value, what))
    return begins + holds

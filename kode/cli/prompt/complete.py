"""Tab completion: commands at the start of a message, their arguments, `@files` and `@folders/`
anywhere.

`choices` knows what may follow a command; `files` lists files and folders.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from kode.cli.prompt.choices import Choice, Choices
from kode.cli.prompt.files import FileIndex
from kode.cli.prompt.mentions import BEING_TYPED, query_of, write_mention

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
            named = [f"/{one}" for one, _ in fitting] or get_close_matches(name, known)
            offered = named if name[1:] else self.first
            for command in offered:
                yield Completion(command, start_position=-len(name), display_meta=known[command])
            return
        if name not in self.arguments:
            return
        *said, typed = rest.split(" ")
        for value, what in matching_choices(self.arguments[name](tuple(filter(None, said))), typed):
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

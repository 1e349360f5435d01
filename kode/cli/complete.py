"""Tab: commands at the start of a message, their arguments, and `@files` anywhere."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from kode.cli.files import FileIndex

_FILE = re.compile(r"(?:^|(?<=[\s(\"'`]))@(?P<query>[^\s@]*)$")

Arguments = Callable[[], Sequence[str]]


class ReplCompleter(Completer):
    """Completes what stands before the cursor. Runs in a thread of the editor's."""

    def __init__(
        self,
        commands: Mapping[str, str],
        arguments: Mapping[str, Arguments],
        files: FileIndex,
    ) -> None:
        """`commands`: name → what it does. `arguments`: name → what may follow it."""
        self.commands = commands
        self.arguments = arguments
        self.files = files

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Best first; nothing where nothing can be completed."""
        before = document.text_before_cursor
        if match := _FILE.search(before):
            yield from self._files(match["query"])
        elif before.startswith("/") and "\n" not in before:
            yield from self._commands(before)

    def _files(self, query: str) -> Iterable[Completion]:
        for path in self.files.find(query):
            if any(character.isspace() for character in path):
                continue
            yield Completion(path, start_position=-len(query), display=path)

    def _commands(self, before: str) -> Iterable[Completion]:
        name, space, argument = before.partition(" ")
        if not space:
            for command, what in self.commands.items():
                if command.startswith(name):
                    yield Completion(command, start_position=-len(name), display_meta=what)
            return
        for choice in self.arguments.get(name, list)():
            if choice.startswith(argument):
                yield Completion(choice, start_position=-len(argument))


def completes_while_typing(text_before_cursor: str) -> bool:
    """Whether the menu comes by itself: on a command's name or after `@`, nowhere else."""
    if text_before_cursor.startswith("/") and " " not in text_before_cursor:
        return "\n" not in text_before_cursor
    return bool(_FILE.search(text_before_cursor))

"""A store over a small layout, for tests."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kode import durable
from kode.errors import MemoryRefused
from kode.events import Event
from kode.memory.rendering import FACTS, LINES, SECTIONS, FileFormat, Layout
from kode.memory.statement import Author, Statement, make_statement, timestamp
from kode.memory.store import MemoryStore
from kode.session.record import Project

HASH = "0123456789abcdef"
PERSON, MODEL = Author("user"), Author("model", session="s", turn=1)
_FORMATS: dict[str, FileFormat] = {"user.md": FACTS, "notes.md": LINES, "months.md": SECTIONS}


def _files_of(place: str, statement: Statement | None) -> Sequence[str]:
    folder, _, name = place.rpartition("/")
    if statement is not None and statement.state == "archived":
        return (f"{folder}/archive/{name}",)
    return (place, f"{folder}/archive/{name}") if statement is None else (place,)


def _place_of(target: str, scope: str, project: Project) -> str:
    if f"{target}.md" not in _FORMATS:
        raise MemoryRefused(f"there is no {target}")
    return f"facts/{target}.md"


LAYOUT = Layout(
    facts=lambda project: [f"facts/{name}" for name in _FORMATS],
    format_of=lambda place: _FORMATS.get(place.rpartition("/")[2]),
    place_of=_place_of,
    label=lambda place: place.rpartition("/")[2].removesuffix(".md"),
    files_of=_files_of,
)


class Killed(BaseException):
    """Stands for the end of the process."""


@contextmanager
def killed_at(number: int) -> Iterator[None]:
    """Ends the process before so many durable steps of changes are done, counted from 0."""
    numbers = count()

    def count_calls(do: Callable[..., Any]) -> Callable[..., Any]:
        def step(path: Path, *values: Any, **options: Any) -> Any:
            if "pending" not in path.parts and next(numbers) == number:
                raise Killed
            return do(path, *values, **options)

        return step

    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace_file", "append_lines", "remove"):
            patch.setattr(durable, name, count_calls(getattr(durable, name)))
        yield


class Life:
    """One memory folder with a clock that goes on by itself; `open` is a new process."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.events: list[Event] = []
        self._now = datetime(2026, 3, 1, tzinfo=UTC)
        self.store = self.open()

    def now(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now

    def open(self) -> MemoryStore:
        project = Project(self.root, HASH, True)
        self.store = MemoryStore(
            self.root, "test", LAYOUT, project, now=self.now, emit=self.events.append
        )
        return self.store

    def statement(
        self, text: str, place: str = "facts/user.md", author: Author = PERSON
    ) -> Statement:
        return make_statement(author, place, text, timestamp(self.now()))

    def read(self, name: str) -> str:
        path = self.root / name
        return path.read_bytes().decode() if path.exists() else ""

    def write(self, name: str, text: str) -> None:
        """As a person does, in an editor."""
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_bytes(text.encode())

    def texts(self, place: str = "facts/user.md") -> list[str]:
        return [statement.text for statement in self.store.view().current(place)]

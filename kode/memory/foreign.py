"""What other agents remember, as plug-ins read it: see `Plugin.memory_imports`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from kode import installed
from kode.errors import MemoryRefused
from kode.memory.stored import read_import
from kode.memory.waiting import About

MAX_BYTES = 16_000_000


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file to take entries from."""

    agent: str
    """The name in `Plugin.memory_imports`."""
    path: Path
    about: About = "project"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One thing that another agent remembers."""

    MAX_CHARS: ClassVar[int] = 2_000
    """More is a document, not a fact: it is refused by name, never cut."""

    text: str
    about: About
    line: int = 0
    """Its first line in its file, from 1; 0 without lines."""
    project: str = ""
    """The folder it is about, if it says so; it waits there, even if that is on another machine."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The result of reading one file."""

    entries: tuple[Entry, ...] = ()
    left: tuple[str, ...] = ()
    """What was left out, each with place and reason."""


class Agent(Protocol):
    """What a plug-in knows of one agent's memory."""

    @property
    def title(self) -> str:
        """Its name for a person."""

    @property
    def is_format(self) -> bool:
        """Whether it is no agent but a kind of file that any program may have written."""

    def usual(self, project: Path) -> Iterable[Source]:
        """The existing files in the usual places: the person's own, and those of a project."""

    def owns(self, path: Path) -> bool:
        """Whether a file or a folder is this agent's, by its name, place or content."""

    def named(self, path: Path) -> Iterable[Source]:
        """A file, or the files in a folder, that the person said are this agent's."""

    def read(self, source: Source, text: str) -> Reading:
        """The entries of a file. Raises: MemoryRefused if it is not a file of this agent."""


def agents() -> Mapping[str, Agent]:
    """The agents whose memory plug-ins can read, by name, in the order in which they are asked for
    a file. Raises: ConfigError for a faulty plug-in."""
    return {name: installed.load(*one) for name, one in installed.added("memory_imports").items()}


def named(path: Path, agent: str | None) -> Sequence[Source]:
    """The file, or the files in a folder, that a person names; `agent` if they say whose it is.

    Raises: MemoryRefused for a file of no known agent.
    """
    known = agents()
    owner = agent or _owner(path, known)
    names = ", ".join(known)
    if path.is_dir():
        found = list(known[owner].named(path)) if owner else []
        if not found:
            raise MemoryRefused(
                f"{path} holds no memory that kode knows. Name its files, or say whose it is with "
                f"`--from`: {names}."
            )
        return found
    if not path.is_file():
        raise MemoryRefused(f"{path} is not there. Name a file or a folder.")
    if owner is None:
        raise MemoryRefused(
            f"kode does not know whose memory {path} is. Say it with `--from`: {names}."
        )
    return list(known[owner].named(path))


def is_own_export(path: Path) -> bool:
    """Whether a file may be an export of kode's, which is imported directly: one of no agent. The
    content of a Markdown file does not matter: anybody may have written it, so it goes through the
    review."""
    return path.is_file() and _owner(path, agents()) is None


def read(source: Source) -> Reading:
    """The entries of a file. Raises: MemoryRefused, as `read_import`, or if it is not a file of
    this agent."""
    text = read_import(source.path, MAX_BYTES).replace("\r\n", "\n")
    return agents()[source.agent].read(source, text)


def _owner(path: Path, known: Mapping[str, Agent]) -> str | None:
    return next((name for name, one in known.items() if one.owns(path)), None)

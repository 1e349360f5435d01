"""Reads instruction files, in which a project addresses agents, and builds one bounded section of
the system prompt.

In each folder AGENTS.md counts or, without one, the first of other agents' files. They are not
memory, and kode never writes one by itself.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from kode import paths
from kode.messages import plural
from kode.values import Value, dataclass, field, replace

MAX_BYTES = 32 * 1024
"""For all files of one prompt together; the nearest file has priority."""

NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md")
"""The first existing one counts; after them the rules of `.cursor/rules` that always apply."""

WITH_IMPORTS = "CLAUDE.md"
MAX_IMPORT_DEPTH = 5
"""As deep as Claude Code follows `@path` in a CLAUDE.md."""

_CODE = re.compile(r"^\s*(```|~~~).*?^\s*\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_IMPORT = re.compile(r"(?<![\w`@])@((?:~/)?[\w./-]*[\w/-])")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.MULTILINE | re.DOTALL)
_ALWAYS = re.compile(r"^alwaysApply:\s*true\s*$", re.MULTILINE | re.IGNORECASE)


class InstructionsFile(Value):
    """A file with its text for the prompt."""

    path: str
    text: str
    sha256: str
    """Of the file, if `text` holds all of it; "" otherwise."""
    imported_by: str = ""

    @property
    def lines(self) -> int:
        return self.text.count("\n") + 1


class ProjectInstructions(Value):
    section: str
    """The section for the system prompt; "" without files."""
    sources: tuple[InstructionsFile, ...] = ()
    """In the order of the section."""
    waiting: tuple[InstructionsFile, ...] = ()
    """The files that are left out until a person approves them."""
    warning: str = ""
    """Sentences about what was cut, left out or unreadable; "" if nothing."""

    def describe_files(self, folder: Path) -> list[str]:
        """One line per file, relative to `folder`: `CLAUDE.md (40 lines)`."""
        lines = []
        for source in self.sources:
            about = plural(source.lines, "line")
            if source.imported_by:
                about += f", imported by {_relative(source.imported_by, folder)}"
            lines.append(f"{_relative(source.path, folder)} ({about})")
        return lines


def read_agents_files(
    cwd: Path,
    repository: Path | None,
    *,
    is_secret: Callable[[str], bool] = lambda path: False,
    waits: Callable[[InstructionsFile], bool] = lambda source: False,
) -> ProjectInstructions:
    """Reads the instructions of each folder from `cwd` up to the repository root, nearest first, 32
    KB in all. `is_secret` says which paths may not be read, `waits` which texts a person must
    approve first.

    Outside a repository only the working directory's own file counts. Never raises: an unreadable
    file is reported in `warning`.
    """
    folders = [cwd]
    if repository is not None and (cwd == repository or repository in cwd.parents):
        folders = [f for f in (cwd, *cwd.parents) if f == repository or repository in f.parents]
    reading = _Reading(
        top=Path(paths.real_path(folders[-1])),
        own=(paths.user_home() or paths.NO_HOME) / ".claude",
        is_secret=is_secret,
        waits=waits,
    )
    for folder in folders:
        reading.take_folder(folder)
    section = ""
    if reading.texts:
        section = (
            "# Instructions of this project\n"
            "From the files named below, the nearest first; where they differ, the nearest "
            "counts.\n\n" + "\n\n".join(reading.texts)
        )
    return ProjectInstructions(
        section=section,
        sources=tuple(reading.sources),
        waiting=tuple(reading.waiting.values()),
        warning=" ".join(reading.warnings),
    )


@dataclass
class _Reading:
    top: Path
    """The root of the project: a link or an import that leaves it could name any file of the
    reader's, and a repository must not choose which of those go to a model."""
    own: Path
    """The folder of the person's own instructions, which an import may name with `~`."""
    is_secret: Callable[[str], bool]
    waits: Callable[[InstructionsFile], bool]
    room: int = MAX_BYTES
    sources: list[InstructionsFile] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    seen: set[Path] = field(default_factory=set)
    waiting: dict[Path, InstructionsFile] = field(default_factory=dict)

    def take_folder(self, folder: Path) -> None:
        """Adds the file that counts in a folder. One that awaits approval hides no other."""
        for path in (folder / name for name in NAMES if os.path.lexists(folder / name)):
            self.take(path)
            if Path(paths.real_path(path)) not in self.waiting:
                return
        with contextlib.suppress(OSError):
            for path in sorted((folder / ".cursor" / "rules").glob("*.mdc")):
                self.take(path)

    def take(
        self, path: Path, imported_by: str = "", depth: int = 0, *, by_waiting: bool = False
    ) -> None:
        """Adds a file, followed by its imports. If the file awaits approval, only those imports are
        noted that await it too, so that a person is asked about all of them at once."""
        text, sha256 = self._read_text(path)
        if path.suffix == ".mdc":
            text = _always_applied(text)
        real = Path(paths.real_path(path))
        if not text or real in self.waiting:
            return
        source = InstructionsFile(path=str(path), text=text, sha256=sha256, imported_by=imported_by)
        if is_waiting := self.waits(source):
            self.waiting[real] = source
        elif by_waiting or not self._add_part(source, real):
            return
        if (path.name == WITH_IMPORTS or imported_by) and depth < MAX_IMPORT_DEPTH:
            for imported in self._find_imports(text, path):
                self.take(imported, str(path), depth + 1, by_waiting=is_waiting)

    def _add_part(self, source: InstructionsFile, real: Path) -> bool:
        """Adds the part of a text that fits; warns if it is cut; returns False if nothing fits."""
        if self.room == 0:
            self.warnings.append(f"{source.path} was left out: {_LIMIT}.")
            return False
        data = source.text.encode()
        if len(data) > self.room:
            self.warnings.append(f"{source.path} was cut: {_LIMIT}.")
            data = data[: self.room]
        self.room -= len(data)
        self.seen.add(real)
        text = data.decode(errors="ignore").strip()
        by = f" (imported by {source.imported_by})" if source.imported_by else ""
        self.texts.append(f"## {source.path}{by}\n{text}")
        self.sources.append(replace(source, text=text))
        return True

    def _read_text(self, path: Path) -> tuple[str, str]:
        """As much of a file as any prompt may hold, and its `InstructionsFile.sha256`; "" for a
        skipped file, with a warning that says why."""
        try:
            if why := self._find_obstacle(path):
                self.warnings.append(f"{path} was left out: {why}.")
                return "", ""
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            self.warnings.append(f"{path} could not be read ({error.strerror}).")
            return "", ""
        if b"\0" in data:
            self.warnings.append(f"{path} was left out: it is not text.")
            return "", ""
        whole = len(data) <= MAX_BYTES
        sha256 = hashlib.sha256(data).hexdigest() if whole else ""
        return data.decode(errors="replace").strip(), sha256

    def _find_obstacle(self, path: Path) -> str:
        if not path.is_file():
            return "it is not a file"
        real = Path(paths.real_path(path))
        if self.is_secret(str(real)):
            return "it leads to a file that may hold keys"
        if real == path or self.top in real.parents:
            return ""
        if self._is_own(path) and self._is_own(real):
            return ""
        return "it is a link to a place outside the project"

    def _find_imports(self, text: str, importer: Path) -> Iterator[Path]:
        """The files that a text names after `@`, outside code; anything else is just a word."""
        for match in _IMPORT.finditer(_CODE.sub("", text)):
            name = match[1]
            path = Path(os.path.normpath(importer.parent / paths.expand_path(name)))
            try:
                real = Path(paths.real_path(path))
                if not real.is_file() or real in self.seen:
                    continue
            except (OSError, RuntimeError, ValueError):
                continue
            if self.is_secret(str(path)) or self.is_secret(str(real)):
                self.warnings.append(f"{path} was not imported: it may hold keys.")
            elif self.top not in real.parents and not self._is_own(real):
                self.warnings.append(f"{path} was not imported: it is outside the project.")
            else:
                yield path

    def _is_own(self, path: Path) -> bool:
        """Whether it is a Markdown file in the person's own folder of instructions."""
        return path.suffix == ".md" and (
            self.own in path.parents or Path(paths.real_path(self.own)) in path.parents
        )


_LIMIT = f"instruction files may hold {MAX_BYTES // 1024} KB together"


def _always_applied(text: str) -> str:
    """The body of a rule of `.cursor/rules` that always applies; "" for the others, which depend on
    files that kode does not watch."""
    head = _FRONT_MATTER.match(f"{text}\n")
    if head is None or not _ALWAYS.search(head[1]):
        return ""
    return text[head.end() :].strip()


def _relative(path: str, folder: Path) -> str:
    below = os.path.relpath(path, folder)
    return path if below.startswith("../../../") else below

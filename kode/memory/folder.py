"""Memory as a folder `/memories` of text files with six commands: the memory tool of Anthropic's
models (`memory_20250818`), over any system.

No such folder exists on disk. A system supplies the files' current text, and turns an edited file
into its own operations, so history, scan, limits and undo apply to every command. Answers are
worded as in the tool's documentation.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from kode.errors import MemoryRefused
from kode.memory import entry_lines, replacing
from kode.memory.base import BaseMemory, Outcome, together
from kode.memory.entry_lines import Row, Step
from kode.memory.stored import version_of

ROOT = "/memories"
LINE_NUMBER_WIDTH = 6
"""As in the file views of Anthropic's memory tool."""
AROUND = 2
"""Lines shown before and after a change."""

Write = Callable[[str], Awaitable[Sequence[Outcome]]]
"""Gives a file another text, "" for none, and returns what it changed. Raises: MemoryRefused,
StorageError, BusyError."""


@dataclass(frozen=True, kw_only=True)
class MemoryFile:
    """One file as a model sees it."""

    name: str
    """Relative to `/memories`: `user.md`, `facts/tools.md`."""
    text: str
    about: str = ""
    """What belongs in it, or what may not hold any more."""
    write: Write | None = None
    """None for a file that kode alone writes."""


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A system's memory as files."""

    system: BaseMemory
    notice: str
    """What a model must know about them, a sentence."""
    files: Callable[[], Awaitable[Sequence[MemoryFile]]]
    """Every file, including empty ones that may be written."""
    new: Callable[[str], MemoryFile] | None = None
    """A file of another name, where the system keeps any. Raises: MemoryRefused."""

    @property
    def seen(self) -> replacing.Seen:
        """The files that the session's model was shown whole."""
        return self.system.seen


def of_entries(
    name: str, rows: Sequence[Row], do: Callable[[Step], Awaitable[Outcome]], about: str
) -> MemoryFile:
    """A file of separate entries, a bullet each; `do` stores a change of one."""

    async def write(text: str) -> list[Outcome]:
        return [await do(step) for step in entry_lines.steps(rows, text)]

    return MemoryFile(name=name, text=entry_lines.render(rows), about=about, write=write)


@dataclass(frozen=True, kw_only=True)
class Done:
    """What a command did."""

    text: str
    """For the model, as documented."""
    outcomes: Sequence[Outcome] = ()
    """Its changes to memory, which are undone together."""


async def put(folder: Folder, wanted: Sequence[tuple[MemoryFile, str]]) -> Sequence[Outcome]:
    """Gives files these texts, as one change to undo: all of it, or nothing. Raises: MemoryRefused,
    StorageError, BusyError."""
    system, done = folder.system, list[Outcome]()
    if fixed := next((file for file, _ in wanted if file.write is None), None):
        raise MemoryRefused(
            f"{ROOT}/{fixed.name} is written by kode alone and can only be viewed. Nothing was "
            "changed."
        )
    try:
        with together() as batch:
            for file, text in wanted:
                done += await file.write(text) if file.write else ()
    except MemoryRefused:
        made = [one for one in system.history.in_effect(system.name) if one.batch == batch]
        for change in made:
            await system.undo_change(change)
        raise
    return done


async def view(folder: Folder, path: str, view_range: Sequence[int] | None = None) -> Done:
    """Shows a file with numbered lines, or the files of a directory. Raises: MemoryRefused."""
    name = name_of(path)
    files = await folder.files()
    for file in files:
        if file.name == name:
            if view_range is None:
                replacing.note(folder.seen, f"{ROOT}/{name}", file.text)
            return Done(text=_number_lines(file.text, view_range, path))
    below = [file for file in files if not name or file.name.startswith(f"{name}/")]
    if name and not below:
        raise _missing(path)
    sizes = [len(file.text.encode(errors="replace")) for file in below]
    lines = [
        f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:",
        f"{_size(sum(sizes))}\t{path}",
        *(f"{_size(size)}\t{ROOT}/{file.name}" for size, file in zip(sizes, below, strict=True)),
    ]
    abouts = [f"{ROOT}/{file.name}: {file.about}" for file in below if file.about]
    return Done(text="\n".join([*lines, "", folder.notice, *abouts]))


async def create(folder: Folder, path: str, text: str) -> Done:
    """Creates a file. Raises: MemoryRefused if it has content already, or is not allowed."""
    name = _file_name(path)
    if any(file.name == name and file.text.strip() for file in await folder.files()):
        raise MemoryRefused(f"File {path} already exists")
    if not text.strip():
        raise MemoryRefused("`file_text` is empty: memory keeps no empty files.")
    outcomes = await put(folder, [(await _writable(folder, name), text)])
    return await _written(folder, path, "", text, outcomes, f"File created successfully at: {path}")


async def str_replace(folder: Folder, path: str, old: str, new: str) -> Done:
    """Replaces a text that occurs exactly once. Raises: MemoryRefused."""
    file = await _existing(folder, path, filled=False)
    count = file.text.count(old) if old else 0
    if count == 0:
        raise MemoryRefused(
            f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
        )
    if count > 1:
        raise MemoryRefused(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
            f"{_lines_with(file.text, old)}. Please ensure it is unique"
        )
    wanted = file.text.replace(old, new)
    outcomes = await put(folder, [(file, wanted)])
    first = file.text[: file.text.index(old)].count("\n") + 1
    said = "The memory file has been edited. Here is the snippet showing the change (with line "
    span = (max(1, first - AROUND), first + new.count("\n") + AROUND)
    snippet = _number_lines(wanted, span, "")
    return await _written(folder, path, file.text, wanted, outcomes, f"{said}numbers):\n{snippet}")


async def insert(folder: Folder, path: str, line: int, text: str) -> Done:
    """Inserts a text after a line; 0 is the beginning. Raises: MemoryRefused."""
    file = await _existing(folder, path, filled=False)
    lines = file.text.removesuffix("\n").split("\n") if file.text else []
    if not 0 <= line <= len(lines):
        raise MemoryRefused(
            f"Invalid `insert_line` parameter: {line}. "
            f"It should be within the range [0, {len(lines)}]."
        )
    lines.insert(line, text.rstrip("\n"))
    wanted = "\n".join(lines) + "\n"
    outcomes = await put(folder, [(file, wanted)])
    return await _written(
        folder, path, file.text, wanted, outcomes, f"The file {path} has been edited."
    )


async def delete(folder: Folder, path: str) -> Done:
    """Deletes a file with its content, or all files of a directory below `/memories`. Raises:
    MemoryRefused; then nothing was deleted."""
    name = name_of(path)
    if not name:
        raise MemoryRefused("Cannot delete the /memories directory itself")
    below = [one for one in await folder.files() if one.name.startswith(f"{name}/")]
    files = [one for one in below if one.text.strip()] or [await _existing(folder, path)]
    for file in files:
        _check_seen(folder, file)
    outcomes = await put(folder, [(file, "") for file in files])
    return Done(text=f"Successfully deleted {path}", outcomes=outcomes)


async def rename(folder: Folder, old_path: str, new_path: str) -> Done:
    """Moves a file's content to another, empty file. Raises: MemoryRefused; then nothing was
    moved."""
    if not name_of(old_path):
        raise MemoryRefused("Cannot rename the /memories directory itself")
    file = await _existing(folder, old_path)
    _check_seen(folder, file)
    new = await _writable(folder, _file_name(new_path))
    if new.text.strip():
        raise MemoryRefused(f"The destination {new_path} already exists")
    outcomes = await put(folder, [(new, file.text), (file, "")])
    return Done(text=f"Successfully renamed {old_path} to {new_path}", outcomes=outcomes)


def name_of(path: str) -> str:
    """The name of a path below `/memories`; "" for the directory itself. Raises: MemoryRefused."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise MemoryRefused(f"Path must start with {ROOT}, got: {path}")
    parts = [part for part in path.removeprefix(ROOT).split("/") if part not in ("", ".")]
    if ".." in parts or "\\" in path or not path.isprintable():
        raise MemoryRefused(f"Path {path!r} would escape {ROOT} directory")
    return "/".join(parts)


def _file_name(path: str) -> str:
    name = name_of(path)
    if not name:
        raise MemoryRefused(f"The path {path} is not a file.")
    return name


async def _writable(folder: Folder, name: str) -> MemoryFile:
    """The file of a name, which may not be there yet. Raises: MemoryRefused."""
    files = {file.name: file for file in await folder.files()}
    if name in files:
        return files[name]
    if folder.new is not None:
        return folder.new(name)
    listed = ", ".join(f"{ROOT}/{file.name}" for file in files.values() if file.write)
    raise MemoryRefused(
        f"This memory keeps no {ROOT}/{name}. Put it into one of: {listed}. Nothing was changed."
    )


async def _existing(folder: Folder, path: str, *, filled: bool = True) -> MemoryFile:
    """The file to change; `filled`: it must have content. Raises: MemoryRefused."""
    name = _file_name(path)
    files = await folder.files()
    for file in files:
        if file.name == name and (file.text.strip() or not filled):
            return file
    if any(file.name.startswith(f"{name}/") for file in files):
        raise MemoryRefused(f"The path {path} is not a file. Name one of its files.")
    raise _missing(path)


def _check_seen(folder: Folder, file: MemoryFile) -> None:
    """A file that goes as a whole needs to have been read. Raises: NotReplaced."""
    replacing.check(
        folder.seen,
        f"{ROOT}/{file.name}",
        file.text,
        "",
        named=(file.text,),
        to_read="View all of it first.",
        to_lose="",
    )


async def _written(
    folder: Folder, path: str, before: str, wanted: str, outcomes: Sequence[Outcome], said: str
) -> Done:
    """Reports a write, with what memory stored if that differs. Who knew all of the file before
    knows all of it now."""
    name = name_of(path)
    now = next((file.text for file in await folder.files() if file.name == name), "")
    if now.strip() == wanted.strip() and (
        not before.strip() or folder.seen.get(f"{ROOT}/{name}") == version_of(before)
    ):
        replacing.note(folder.seen, f"{ROOT}/{name}", now)
    if now.strip() != wanted.strip():
        kept = _number_lines(now, None, path) if now else f"{path} holds nothing."
        said = f"{said}\nMemory keeps it in its own form. {kept}"
    return Done(text=said, outcomes=outcomes)


def _missing(path: str) -> MemoryRefused:
    return MemoryRefused(f"The path {path} does not exist. Please provide a valid path.")


def _number_lines(text: str, view_range: Sequence[int] | None, path: str) -> str:
    """Numbered lines, below the documented header if a path is given."""
    lines = text.split("\n")
    first, last = 1, len(lines)
    if view_range is not None:
        if len(view_range) != 2:
            raise MemoryRefused("`view_range` is two numbers: the first line and the last, or -1.")
        first = max(1, view_range[0])
        last = len(lines) if view_range[1] == -1 else min(view_range[1], len(lines))
    numbered = "\n".join(
        f"{number:>{LINE_NUMBER_WIDTH}}\t{lines[number - 1]}" for number in range(first, last + 1)
    )
    return f"Here's the content of {path} with line numbers:\n{numbered}" if path else numbered


def _lines_with(text: str, part: str) -> str:
    found = []
    at = text.find(part)
    while at >= 0:
        found.append(str(text.count("\n", 0, at) + 1))
        at = text.find(part, at + 1)
    return ", ".join(found)


def _size(count: int) -> str:
    """`0B`, `512B`, `1.5K`."""
    if count < 1024:
        return f"{count}B"
    return f"{count / 1024:.1f}K"

"""Finds the files and images that a message names after `@`, and keeps what goes with it: images,
and pasted blocks, which are folded in the line.

Whether the model may read a file is decided elsewhere.
"""

import asyncio
import heapq
import itertools
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kode import paths
from kode.errors import GitError, UserError
from kode.git import run_git
from kode.images import Picture, fit_picture, read_header, read_picture
from kode.process import find_program
from kode.values import dataclass, field

if TYPE_CHECKING:
    from kode.conversation import Conversation

T = TypeVar("T")

MAX_FILES = 200_000  # more would slow down every completion
MAX_WALKED = 30_000  # folders read one by one are slower than git's index


def list_files(root: Path) -> list[str]:
    """Relative paths below `root`, without what `.gitignore` names; [] if nothing can be listed.
    Slow for a large folder."""
    try:
        listed = run_git(root, ["ls-files", "-co", "--exclude-standard", "-z"])
        names = listed.decode("utf-8", "surrogateescape").split("\0")
    except (GitError, OSError):
        from kode.tools.search_worker import walk_files

        real = paths.real_path(root)
        walked = itertools.islice(walk_files(real), MAX_WALKED)
        names = [os.path.relpath(path, real) for path in walked]
        names.sort(key=lambda path: (path.count("/"), path))
    return [name for name in names[:MAX_FILES] if name and name.isprintable()]


FRESH_S = 10.0
"""An older listing is renewed on completion."""


@dataclass
class FileIndex:
    """Relative paths of the files below `root`, and of the folders that contain some, with a
    trailing `/`."""

    root: Path
    _paths: Sequence[str] = ()
    _listed_at: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, query: str, limit: int = 50) -> list[str]:
        """Returns the best matches of a fuzzy query, best first. Lists the files again if the last
        listing is old, so it must not be called on the event loop's thread."""
        with self._lock:
            if time.monotonic() - self._listed_at >= FRESH_S:
                files = list_files(self.root)
                self._paths, self._listed_at = [*folders_of(files), *files], time.monotonic()
        return best_matches(self._paths, query, limit)


def best_matches(among: Sequence[str], query: str, limit: int) -> list[str]:
    """Returns at most `limit` paths that contain the query's letters in order, the likeliest first.
    Fast enough to run at each key: 100,000 paths take less time than passes between two keys."""
    letters = query.lower().replace(" ", "")
    if not letters:
        return heapq.nsmallest(limit, among, lambda path: (path.count("/", 0, -1), len(path), path))
    # Possessive, so that no path is scanned twice.
    in_order = "".join(f"[^{re.escape(letter)}]*+{re.escape(letter)}" for letter in letters)
    fits = re.compile(in_order, re.DOTALL).match

    def rank(path: str) -> tuple[object, ...]:
        """The sort key: lowest if the name, or else one of the folders, begins with the letters."""
        parts = path.lower().rstrip("/").split("/")
        begins = [part.startswith(letters) for part in parts]
        return not begins[-1], not any(begins), letters not in path.lower(), len(path), path

    return heapq.nsmallest(limit, (path for path in among if fits(path.lower())), rank)


def folders_of(files: Iterable[str]) -> list[str]:
    """The folders that contain the files, at any depth, each with a trailing `/`."""
    folders: set[str] = set()
    for path in files:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return sorted(f"{folder}/" for folder in folders)


_BEFORE = r"(?:^|(?<=[\s(\"'`]))"
_MENTION = re.compile(
    _BEFORE + r"""@(?:"(?P<quoted>(?:[^"\\\n]|\\.)+)"|(?P<plain>(?:\\.|[^\s@"\\])+))"""
)
BEING_TYPED = re.compile(
    _BEFORE + r"""@(?:"(?P<quoted>(?:[^"\\\n]|\\.)*)|(?P<plain>(?:\\.|[^\s@"\\])*))$"""
)
"""A mention right before the cursor, complete or not."""

_AFTER_A_NAME = ".,;:!?)]}'"


def format_mention(path: str) -> str:
    """Returns a path as it is written after `@`: in quotes if it needs them."""
    if not re.search(r"[\s\"@\\]", path):
        return path
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def mention_query(typed: re.Match[str]) -> str:
    """The search text of a mention matched by `BEING_TYPED`."""
    return unescape(typed["plain"] if typed["quoted"] is None else typed["quoted"])


def find_mentions(text: str) -> list[str]:
    """The names after `@` in a text, in order, without duplicates. A plain name that ends in
    punctuation is followed by variants with less and less of that."""
    names: list[str] = []
    for match in _MENTION.finditer(text):
        if match["quoted"] is not None:
            names.append(unescape(match["quoted"]))
            continue
        name = unescape(match["plain"])
        names.append(name)
        while name[1:] and name.strip(".") and name[-1] in _AFTER_A_NAME:
            name = name[:-1]
            names.append(name)
    return list(dict.fromkeys(names))


def unescape(text: str) -> str:
    """The text without the backslashes that escape its characters."""
    return re.sub(r"\\(.)", r"\1", text)


FOLD_LINES = 5  # a pasted text of this length would hide what was typed
FOLD_CHARACTERS = 1000
"""A paste of at least this many lines or characters is folded."""


@dataclass
class Pastes:
    """Everything folded since the program started, by placeholder."""

    _folded: dict[str, str] = field(default_factory=dict)
    _pictures: dict[str, Picture] = field(default_factory=dict)

    def fold(self, text: str) -> str:
        """Returns what the input line shows for a pasted text: a placeholder unless it is short."""
        lines = text.rstrip("\n").count("\n") + 1
        if lines < FOLD_LINES and len(text) < FOLD_CHARACTERS:
            return text
        what = f"{lines} lines" if lines > 1 else f"{len(text):,} characters"
        return _add_placeholder(self._folded, f"pasted {what}", text)

    def add_picture(self, picture: Picture) -> str:
        """Keeps an image, and returns its placeholder for the input line."""
        name = re.sub(r"[\[\]\s]+", " ", picture.name)
        return _add_placeholder(self._pictures, f"image {name}", picture)

    def pictures_in(self, line: str) -> list[Picture]:
        """The images whose placeholders are in the line, in the order pasted."""
        return [picture for place, picture in self._pictures.items() if place in line]

    def unfold(self, line: str) -> str:
        """Replaces the placeholder of each pasted text by that text; those of images stay."""
        if not self._folded:
            return line
        # One pass, so that a placeholder inside a pasted text stays text.
        places = re.compile("|".join(map(re.escape, self._folded)))
        return places.sub(lambda match: self._folded[match[0]], line)


def _add_placeholder(values: dict[str, T], what: str, value: T) -> str:
    """Stores a value under a unique placeholder, which it returns."""
    place, number = f"[{what}]", 2
    while values.get(place, value) != value:
        place, number = f"[{what}, #{number}]", number + 1
    values[place] = value
    return place


def read_mentioned(text: str, cwd: Path) -> list[Picture]:
    """The images named after `@` in a message. Any other file is left to the model, which reads it
    as the permissions allow."""
    named = dict.fromkeys(cwd / paths.expand_path(name) for name in find_mentions(text))
    return [picture for path in named if (picture := read_picture(path))]


CLIPBOARD_TIMEOUT_S = 3.0  # a picture of a whole screen takes longer than text
_PASTE = (
    ("WAYLAND_DISPLAY", "wl-paste --no-newline --type image/png"),
    ("DISPLAY", "xclip -selection clipboard -target image/png -out"),
    ("", "pngpaste -"),
)
"""(variable that must be set, command that prints the clipboard's image)"""


def use_clipboard(
    commands: Sequence[tuple[str, str]], data: bytes | None = None
) -> tuple[str, bytes | None]:
    """Runs the first available command with `data` on its standard input. Returns its name ("" if
    none is available) and its output (None if it failed). Blocking: call it in a thread."""
    for variable, command in commands:
        name, *arguments = command.split()
        program = find_program(name)
        if program is None or (variable and not os.environ.get(variable)):
            continue
        # A program that copies leaves a child that serves the selection and would hold a pipe open.
        output = subprocess.PIPE if data is None else subprocess.DEVNULL
        try:
            done = subprocess.run(
                [program, *arguments],
                input=data or b"",
                stdout=output,
                stderr=subprocess.DEVNULL,
                timeout=CLIPBOARD_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return name, None
        if done.returncode != 0:
            # A program that pastes fails where the clipboard holds no image.
            return name, b"" if data is None else None
        return name, done.stdout or b""
    return "", None


def clipboard_picture() -> tuple[Picture | None, str]:
    """The image in the clipboard, or None with the reason. Slow: call it in a thread."""
    name, data = use_clipboard(_PASTE)
    if not name:
        return None, (
            "kode cannot read images from the clipboard here. Install wl-paste, xclip or pngpaste; "
            "or name a file after @."
        )
    if data is None:
        return None, f"{name} did not answer. Try again, or name a file after @."
    if read_header(data) is None:
        return None, "There is no image in the clipboard."
    return Picture("clipboard.png", data), ""


async def attach_to_next_turn(
    conversation: "Conversation",
    text: str,
    pasted: Sequence[Picture],
    report: Callable[[str, str], None],
) -> None:
    """Attaches pasted images, and those named after `@`, to the next turn. `report` gets a line
    about each, and its style. An image that cannot be attached does not stop the message. Raises:
    StorageError."""
    named = await asyncio.to_thread(read_mentioned, text, conversation.place.cwd)
    pictures = []
    for picture in (*pasted, *named):
        try:
            pictures.append((picture, await asyncio.to_thread(fit_picture, picture)))
        except UserError as error:
            report(str(error), "warning")
    # No await from here on: a stop must not leave an image attached to some later message.
    for picture, fit in pictures:
        try:
            image = conversation.keep_picture(fit.name, fit.data)
        except UserError as error:
            report(str(error), "warning")
            continue
        conversation.attachments.append(image)
        note = "" if fit is picture else ", made smaller"
        report(f"with the image {image.description}{note}", "dim")

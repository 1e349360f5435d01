"""Images at the prompt: pasted as a path, dropped, from the clipboard, or named after `@`.

`kode.images` stores them; `paste` makes the placeholder in the line; `kode.images` shrinks a
large one.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kode import paths
from kode.cli.prompt.mentions import mentions
from kode.images import NAMED_SO, Picture, looks_of, read_picture
from kode.programs import find_program

CLIPBOARD_TIMEOUT_S = 3.0  # a picture of a whole screen takes longer than text
CLIPBOARDS = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")),
    ("", ("pngpaste", "-")),
)
"""(variable that must be set, command that prints the clipboard's image)"""

_QUOTED = re.compile(r"""(?<!\S)(?P<quote>["'])([^"'\n]{1,400})(?P=quote)""")


def pasted_pictures(text: str, cwd: Path) -> list[Picture]:
    """The images whose paths were pasted or dropped; [] for any other text. Terminals write a
    dropped path in quotes, with backslashes, or as a file URL, several in one line."""
    text = text.strip()
    if not text or "\n" in text or not re.search(r"\.\w{3,4}['\"]?$", text):
        return []
    whole = read_picture(_path(text, cwd))
    if whole is not None:
        return [whole]
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    found = [read_picture(_path(word, cwd)) for word in words]
    pictures = [picture for picture in found if picture is not None]
    return pictures if len(pictures) == len(found) else []


def _path(written: str, cwd: Path) -> Path:
    if written.startswith("file://"):
        return Path(unquote(urlsplit(written).path))
    return cwd / paths.expand(written)


def mentioned_pictures(text: str, cwd: Path) -> Iterator[Picture]:
    """The images named after `@` or in quotes in a message, and those files named after `@` that
    are only called like one."""
    seen: set[Path] = set()
    quoted = [name for _, name in _QUOTED.findall(text) if name.lower().endswith(NAMED_SO)]
    named = mentions(text)
    for name in (*named, *quoted):
        path = cwd / paths.expand(name)
        picture = read_picture(path) if path not in seen else None
        if (
            picture is None
            and name in named
            and path.name.lower().endswith(NAMED_SO)
            and path.is_file()
        ):
            picture = Picture(path.name, b"")  # whoever attaches it says that it is none
        if picture is not None and path not in seen:
            seen.add(path)
            yield picture


def clipboard_picture() -> tuple[Picture | None, str]:
    """The image in the clipboard, or None with the reason. Slow: call it in a thread."""
    commands = [
        (program, *command[1:])
        for variable, command in CLIPBOARDS
        if (not variable or os.environ.get(variable)) and (program := find_program(command[0]))
    ]
    if not commands:
        return None, (
            "kode cannot read images from the clipboard here. Install wl-paste, xclip or "
            "pngpaste; or paste or drop the path of a file, or name it after @."
        )
    try:
        done = subprocess.run(
            commands[0],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=CLIPBOARD_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        name = os.path.basename(commands[0][0])
        return None, f"{name} did not answer. Try again, or name a file after @."
    if looks_of(done.stdout) is None:
        return None, "There is no image in the clipboard."
    return Picture("clipboard.png", done.stdout), ""

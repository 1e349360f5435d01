"""What a vault file may be called, and where it is: two folders deep, Markdown, never outside.

A path comes from a model. It is read as a name below the vault (`facts/user.md`,
`episodes/2026-03.md`) and refused unless it is one. Not here: what is in the files (`files`).
"""

import os
import re
from datetime import datetime
from pathlib import Path

from kode.errors import MemoryRefused

FOLDERS = ("facts", "episodes")
SHARED = frozenset({"facts/user.md", "facts/preferences.md"})
"""Files about the person, one for all projects; every other one belongs to a project."""
MAX_NAME_CHARS = 100

_MONTH = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])\.md")


def checked_name(path: str) -> str:
    """`path` as a name below the vault, `./` and doubled slashes taken out.

    Raises: MemoryRefused that names the path and says what is allowed.
    """
    if not path.isprintable() or "\\" in path:
        raise _refused(path, "it holds characters that a name does not have")
    if path.startswith(("/", "~")):
        raise _refused(path, "it is absolute")
    parts = [part for part in path.strip().split("/") if part not in ("", ".")]
    if ".." in parts:
        raise _refused(path, "it leaves the memory folder")
    if len(parts) != 2 or parts[0] not in FOLDERS:
        raise _refused(path, "it is not directly in facts/ or episodes/")
    name = parts[1]
    if not name.endswith(".md") or name.startswith(".") or len(name) > MAX_NAME_CHARS:
        raise _refused(path, "it is not the name of a .md file")
    return f"{parts[0]}/{name}"


def confined(root: Path, name: str) -> Path:
    """Where the file of a checked name is. A symlink on the way may not lead out of the vault.

    Raises: MemoryRefused naming the file.
    """
    path = root / name
    real = Path(os.path.realpath(path))
    home = Path(os.path.realpath(root))
    if home not in real.parents or real.suffix != ".md":
        raise _refused(name, "it is a link out of the memory folder")
    if real.exists() and not real.is_file():
        raise _refused(name, "it is not a file")
    return path


def month_file(now: datetime) -> str:
    """The episodes' file of the month; `now` is local time."""
    return f"episodes/{now:%Y-%m}.md"


def is_episodes(name: str) -> bool:
    return name.startswith("episodes/")


def is_month(name: str) -> bool:
    return is_episodes(name) and _MONTH.fullmatch(name.removeprefix("episodes/")) is not None


def title_of(name: str) -> str:
    """The heading of a new file: `# User Facts`, `# 2026-02 Episodes`."""
    folder, _, file = name.partition("/")
    stem = file.removesuffix(".md")
    if folder == "episodes":
        return f"# {stem} Episodes"
    return f"# {stem.replace('-', ' ').replace('_', ' ').title()} Facts"


def _refused(path: str, why: str) -> MemoryRefused:
    shown = path if path.isprintable() else repr(path)
    shown = shown if len(shown) <= 120 else shown[:119] + "…"
    return MemoryRefused(
        f"{shown}: no file of memory can be called that: {why}. Use facts/NAME.md or "
        "episodes/YYYY-MM.md; `memory_list` shows what there is."
    )

"""The words kode sends to a model on its own account: Markdown files beside this module, and the
functions that put them together. Changing them changes behaviour as surely as code does.

Tool descriptions live with their tools; what memory asks a model lives with memory.
"""

import platform
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path

FILES = Path(__file__).parent


@cache
def template(name: str) -> str:
    """The text of `NAME.md`, without the trailing line feed."""
    return (FILES / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


def system_sections(
    *,
    base: str | None,
    cwd: Path,
    repository: Path | None,
    today: date,
    project_instructions: str,
    late: Mapping[str, str],
    append: str,
) -> dict[str, str]:
    """The sections of the system prompt by name, rendered when a process opens a session and after
    a compaction. They are joined by blank lines.

    `base` replaces kode's own text (`--system`); `late` are the sections that memory and extensions
    bring. Empty ones are left out. The order runs from what never changes to what changes most, so
    that caches of common beginnings hit.
    """
    sections = {
        "kode": template("system") if base is None else base,
        "place": _environment(cwd, repository, today),
        "instructions": project_instructions,
        **late,
        "appended": append,
    }
    return {name: text.strip("\n") for name, text in sections.items() if text.strip()}


def compaction_prompt(max_words: int, wish: str = "") -> str:
    """The system prompt of the request that summarizes a session; `wish` is what the person wants
    of the note."""
    prompt = template("compaction").replace("{max_words}", str(max_words))
    return f"{prompt.rstrip()}\n\nThe person asks of this note: {wish}\n" if wish else prompt


def _environment(cwd: Path, repository: Path | None, today: date) -> str:
    if repository is None:
        place = "not in a git repository"
    elif repository == cwd:
        place = "the root of a git repository"
    else:
        place = f"inside the git repository {repository}"
    return (
        "# Where you are\n"
        f"Working directory: {cwd} ({place}). System: {platform.system()} {platform.machine()}. "
        f"Date at the start: {today.isoformat()}."
    )

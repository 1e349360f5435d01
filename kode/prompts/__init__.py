"""The texts kode itself sends to a model: Markdown files beside this module, and the functions that
assemble them. Changing them changes behaviour as surely as code does.

Tool descriptions live with their tools; memory's prompts live with memory.
"""

import platform
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path

INSTRUCTIONS_CUT = "\n[Cut here to fit a small window: read the file for the rest.]"


@cache
def template(name: str) -> str:
    """The text of `NAME.md`, without the trailing line feed."""
    return Path(__file__).with_name(f"{name}.md").read_text("utf-8").rstrip("\n")


def system_sections(
    *, base: str | None, append: str, late: Mapping[str, str], small: bool = False
) -> dict[str, str]:
    """The sections of the system prompt by name, rendered when a process opens a session and after
    a compaction. They are joined by blank lines.

    `base` replaces kode's own text (`--system`), which is short with `small`; `late` are memory's
    sections. Empty sections are left out. Nothing else depends on the folder or the day, and what
    changes most comes last: many servers put the tools after the system prompt, and would read them
    all again after the first different byte.
    """
    kode_text = template("system_small" if small else "system")
    first = {"kode": kode_text} if base is None else {"given": base}
    sections = {**first, "appended": append, **late}
    return {name: text.strip("\n") for name, text in sections.items() if text.strip()}


def opening_sections(
    *, cwd: Path, repository: Path | None, today: date, project_instructions: str, window: int
) -> dict[str, str]:
    """The sections for a session's first message, by name: project instructions and workplace.
    The one that changes most comes last. Instructions are cut to as many characters as the window
    has tokens, which is about a quarter of the window."""
    if len(project_instructions) > window:
        project_instructions = project_instructions[:window] + INSTRUCTIONS_CUT
    place = _describe_workplace(cwd, repository, today)
    sections = {"instructions": project_instructions} if project_instructions else {}
    return {**sections, "place": place}


def compaction_prompt(max_words: int, wish: str = "") -> str:
    """The message that asks for a hand-over note at the end of a conversation; `wish` is what the
    person wants in the note."""
    prompt = template("compaction").replace("{max_words}", str(max_words))
    return f"{prompt.rstrip()}\n\nThe person asks of this note: {wish}\n" if wish else prompt


def _describe_workplace(cwd: Path, repository: Path | None, today: date) -> str:
    if repository is None:
        place = "not in a git repository"
    elif repository == cwd:
        place = "the root of a git repository"
    else:
        place = f"inside the git repository {repository}"
    return (
        "# Where you are\n"
        f"Working directory: {cwd} ({place}). System: {platform.system()} {platform.machine()}. "
        f"Today is {today.isoformat()}."
    )

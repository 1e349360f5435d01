"""The `skill` tool: returns the body of a skill, or one of its files.

Its result survives when the beginning of the conversation is summarized.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from kode.errors import ConfigError, ToolError
from kode.extensions.found_extensions import reread
from kode.extensions.places import read_text
from kode.extensions.skills import Skill
from kode.function_tool import tool
from kode.paths import real_path
from kode.tool import Tool, ToolContext, ToolOutput

DESCRIPTION = """\
Load a skill: instructions for a kind of task, from the list in the system prompt. `file` reads \
one of its files instead. Its scripts are run with `shell`."""


def skill_tool(skills: Sequence[Skill], home: Path, project: Path) -> Tool:
    """The tool for one session; `home` is `$KODE_HOME`."""
    by_name = {skill.item.name: skill for skill in skills}

    async def skill(
        context: ToolContext,
        name: str,
        file: Annotated[str | None, "Relative to the skill's folder"] = None,
    ) -> ToolOutput:
        loaded = reread(_named(by_name, name), home, project)
        if file is not None:
            text = _file_of(loaded, file)
            read = (str(loaded.folder / file),)
            return ToolOutput(text=text, summary=f"{len(text.splitlines())} lines", files_read=read)
        return ToolOutput(text=loaded.instructions(), summary="loaded", lasting=True)

    return tool(effect="none", subject="name", parallel=True, description=DESCRIPTION)(skill)


def _named(skills: Mapping[str, Skill], name: str) -> Skill:
    if name in skills:
        return skills[name]
    similar = difflib.get_close_matches(name, skills, n=1)
    hint = f" Did you mean {similar[0]}?" if similar else ""
    raise ToolError(f"There is no skill {name!r}.{hint} The skills are: {', '.join(skills)}.")


def _file_of(skill: Skill, file: str) -> str:
    """Raises: ToolError."""
    path = Path(real_path(skill.folder / file))
    if Path(real_path(skill.folder)) not in path.parents:
        raise ToolError(f"{file} is outside of the skill's folder. Read it with read_file.")
    try:
        return read_text(path, replace(skill.place, folder=skill.folder))
    except ConfigError as error:
        raise ToolError(f"{error}. Its files are: {', '.join(skill.files) or 'none'}.") from None

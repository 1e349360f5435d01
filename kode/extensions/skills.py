"""Skills: folders with a SKILL.md, instructions for a kind of task. A model gets their names and
descriptions in the system prompt, and a body on request.

A skill's script runs like any other command, by the model and through the gate.
"""

import contextlib
import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from kode.errors import ConfigError, ToolError
from kode.extensions.places import (
    MAX_DEPTH,
    SKIPPED,
    Place,
    files_below,
    read_document,
    read_text,
)
from kode.extensions.trust import FOREIGN, Item, folder_content
from kode.function_tool import tool
from kode.messages import first_of, shorten
from kode.paths import real_path
from kode.tool import Tool, ToolContext, ToolOutput

FILE = "SKILL.md"
MAX_NAME_CHARS = 64
"""As agentskills.io specifies it."""
MAX_DESCRIPTION_CHARS = 1_024
"""As agentskills.io specifies it."""
MAX_LISTED_FILES = 50  # a few hundred tokens

CATALOGUE_SHARE = 0.02
"""Share of the model's window for names and descriptions."""
CHARS_PER_TOKEN = 4
"""OpenAI's rule of thumb for English text."""
LENGTHS = (MAX_DESCRIPTION_CHARS, 700, 500, 350, 250, 180, 130, 90, 60, 40)
"""How many characters of each description are listed, at the first of these that fits; fewer would
not say when to use it."""

HEADING = """\
# Skills
Instructions for kinds of tasks. Where one fits the task, load it with `skill` before you begin.
"""


@dataclass(frozen=True, kw_only=True)
class Skill:
    item: Item
    place: Place
    description: str
    body: str
    files: tuple[str, ...] = ()
    """Other files in its folder, relative to it."""
    for_model: bool = True
    """Whether the model may load it; the person always may."""

    @property
    def folder(self) -> Path:
        return self.item.origin

    def instructions(self) -> str:
        """The body for a model, and where its files are."""
        files = ", ".join(first_of(self.files, MAX_LISTED_FILES))
        about = f" It has these files: {files}." if files else ""
        return f"[Skill {self.item.name}, from {self.folder}.{about}]\n{self.body}"


def read_skill(folder: Path, place: Place, given: str = "") -> Skill:
    """Reads one skill. Raises: ConfigError that says in a few words why it cannot be used."""
    text = read_text(folder / FILE, replace(place, folder=folder))
    document = read_document(text)
    if document.problem:
        raise ConfigError(f"{folder / FILE}: {document.problem}")
    description = " ".join(document.text("description").split())
    if not description:
        raise ConfigError(f"{folder / FILE} has no description")
    name = given or document.text("name") or folder.name
    # A person's own skills are not pinned, so there is no need to read them in full at each start.
    is_whole = place.scope in FOREIGN
    content = folder_content(folder) if is_whole else text
    names = (path.relative_to(folder).as_posix() for path in files_below(folder, ""))
    return Skill(
        item=Item(
            kind="skill",
            name=given or shorten(name, MAX_NAME_CHARS),
            origin=folder,
            scope=place.scope,
            content=content,
            covers=(str(folder if is_whole else folder / FILE),),
        ),
        place=place,
        description=shorten(description, MAX_DESCRIPTION_CHARS),
        body=document.body,
        files=tuple(name for name in names if name != FILE),
        for_model=not document.is_set("disable-model-invocation"),
    )


def catalogue(skills: Sequence[Skill], window: int) -> str:
    """The section of the system prompt: names and descriptions, in at most `CATALOGUE_SHARE` of a
    window in tokens. Cuts descriptions before omitting names. "" without skills."""
    offered = [skill for skill in skills if skill.for_model]
    fewer = ((shown, LENGTHS[-1]) for shown in range(len(offered) - 1, 0, -1))
    for shown, longest in (*((len(offered), longest) for longest in LENGTHS), *fewer):
        lines = [f"- {it.item.name}: {shorten(it.description, longest)}" for it in offered[:shown]]
        if shown < len(offered):
            lines.append(f"- and {len(offered) - shown} more: a wrong name lists them all")
        section = HEADING + "\n".join(lines)
        if offered and len(section.encode()) <= window * CATALOGUE_SHARE * CHARS_PER_TOKEN:
            return section
    return ""


def list_skills(folder: Path, depth: int = MAX_DEPTH) -> Iterator[tuple[str, Path]]:
    """Folders with a SKILL.md, sorted; anything inside one belongs to it."""
    with contextlib.suppress(OSError):
        for path in sorted(path for path in folder.iterdir() if path.is_dir()):
            if (path / FILE).exists():
                yield "", path
            elif depth > 1 and path.name not in SKIPPED and not path.is_symlink():
                yield from list_skills(path, depth - 1)


# ── the tool ─────────────────────────────────────────────────────────────────────────────────

DESCRIPTION = """\
Load a skill: instructions for a kind of task, from the list in the system prompt. `file` reads \
one of its files instead. Its scripts are run with `shell`."""


def skill_tool(skills: Sequence[Skill], reread: Callable[[Skill], Skill]) -> Tool:
    """The tool for one session. Its result survives when the beginning of the conversation is
    summarized. `reread` reads a skill again, and raises ToolError if it changed."""
    by_name = {skill.item.name: skill for skill in skills}

    async def skill(
        context: ToolContext,
        name: str,
        file: Annotated[str | None, "Relative to the skill's folder"] = None,
    ) -> ToolOutput:
        if name not in by_name:
            similar = difflib.get_close_matches(name, by_name, n=1)
            hint = f" Did you mean {similar[0]}?" if similar else ""
            names = ", ".join(by_name)
            raise ToolError(f"There is no skill {name!r}.{hint} The skills are: {names}.")
        loaded = reread(by_name[name])
        if file is None:
            return ToolOutput(text=loaded.instructions(), summary="loaded", lasting=True)
        path = Path(real_path(loaded.folder / file))
        if Path(real_path(loaded.folder)) not in path.parents:
            raise ToolError(f"{file} is outside of the skill's folder. Read it with read_file.")
        try:
            text = read_text(path, replace(loaded.place, folder=loaded.folder))
        except ConfigError as error:
            files = ", ".join(loaded.files) or "none"
            raise ToolError(f"{error}. Its files are: {files}.") from None
        read = (str(loaded.folder / file),)
        return ToolOutput(text=text, summary=f"{len(text.splitlines())} lines", files_read=read)

    return tool(effect="none", subject="name", parallel=True, description=DESCRIPTION)(skill)

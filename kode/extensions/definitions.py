"""Skills, commands and agents: Markdown files with front matter, written for any agent.

A skill is a folder with a SKILL.md, instructions for a kind of task: a model gets its name and
description in the system prompt, and its body on request. A command stands for a prompt: `/review
12` for the text of `review.md`. An agent says what a subagent is for, which tools it has, and how
it works. What they run passes the gate like any command; see `kode.conversation.turns`.
"""

import contextlib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from kode.errors import ConfigError, ToolError
from kode.extensions.places import (
    Document,
    ExtensionFolder,
    Surroundings,
    files_below,
    parts,
    places,
    read_document,
    read_text,
)
from kode.extensions.trust import FOREIGN, Candidate, Kind, folder_content
from kode.messages import cut_list, shorten
from kode.paths import real_path
from kode.permissions.names import MODE_CALLED, PermissionMode, rules_of, tools_of
from kode.permissions.rules import parse
from kode.provider import EFFORTS, Effort
from kode.tool import Tool, ToolContext, ToolOutput, tool
from kode.values import dataclass, replace

FILE = "SKILL.md"
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1_024
"""Limits of skills, as agentskills.io specifies them."""
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
class ExtensionDefinition:
    item: Candidate
    place: ExtensionFolder
    description: str
    """When to use it, for the model or the person."""
    body: str
    model: str = ""
    """For what it starts; "": the current one."""


def _fields_of_all(
    kind: Kind,
    name: str,
    origin: Path,
    place: ExtensionFolder,
    document: Document,
    most: int,
    **of_item: Any,
) -> dict[str, Any]:
    """The fields of every definition. Raises: ConfigError if it is for nothing."""
    first_line = document.body.partition("\n")[0].lstrip("# ") if kind == "command" else ""
    description = " ".join((document.text("description") or first_line).split())
    if not description and kind != "command":
        raise ConfigError(f"{origin} has no description")
    of_item = {"scope": place.scope, "content": document.whole, **of_item}
    return {
        "item": Candidate(kind=kind, name=name, origin=origin, **of_item),
        "place": place,
        "description": shorten(description, most),
        "body": document.body,
        "model": document.text("model"),
    }


# ── skills ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Skill(ExtensionDefinition):
    files: tuple[str, ...] = ()
    """All others in its folder, relative to it."""
    for_model: bool = True
    """Whether the model may load it; the person always may."""

    @property
    def folder(self) -> Path:
        return self.item.origin

    def instructions(self) -> str:
        """The body for a model, and where its files are."""
        files = ", ".join(cut_list(self.files, MAX_LISTED_FILES))
        about = f" It has these files: {files}." if files else ""
        return f"[Skill {self.item.name}, from {self.folder}.{about}]\n{self.body}"


def list_skills(folder: Path) -> Iterator[tuple[str, Path]]:
    """Folders with a SKILL.md, sorted; anything inside one belongs to it."""
    return (("", path.parent) for path in sorted(folder.glob(f"*/{FILE}")))


def read_skill(folder: Path, place: ExtensionFolder, called: str = "") -> Skill:
    """Reads one skill. Raises: ConfigError that says in a few words why it cannot be used."""
    document = read_document(folder / FILE, replace(place, folder=folder))
    # A person's own skills are not pinned, so there is no need to read them in full at each start.
    is_whole = place.scope in FOREIGN
    of_item = {
        "content": folder_content(folder) if is_whole else document.whole,
        "covers": (str(folder if is_whole else folder / FILE),),
    }
    name = called or shorten(document.text("name") or folder.name, MAX_NAME_CHARS)
    names = (path.relative_to(folder).as_posix() for path in files_below(folder, ""))
    return Skill(
        **_fields_of_all("skill", name, folder, place, document, MAX_DESCRIPTION_CHARS, **of_item),
        files=tuple(name for name in names if name != FILE),
        for_model=document.text("disable-model-invocation").lower() not in ("true", "yes"),
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
            names = ", ".join(by_name)
            raise ToolError(f"There is no skill {name!r}. The skills are: {names}.")
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


# ── commands ─────────────────────────────────────────────────────────────────────────────────

MAX_MENU_CHARS = 200  # a line or two of a menu
MAX_FILES = 20
"""Limit of files that a command may include with `@`."""

_ARGUMENT = re.compile(r"\$(?:ARGUMENTS\b|([1-9])(?!\d))")
_RUN = re.compile(r"(?:^|(?<=[\s(]))!`([^`\n]+)`", re.MULTILINE)
_FILE = re.compile(r"(?:^|(?<=[\s(`\"']))@((?:~/)?[\w./-]*\w)")
_NAME = re.compile(r"[\w.-]+(?::[\w.-]+)*")


@dataclass(frozen=True, kw_only=True)
class CommandDefinition(ExtensionDefinition):
    argument_hint: str = ""
    allowed: tuple[str, ...] | None = None
    """Rules that the calls of its turn must match; None: no such limit. They allow nothing."""


class CommandPiece(NamedTuple):
    """A part of a command's text, which `runs` if it stands for the output of a command line."""

    text: str
    runs: bool = False


def list_commands(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of commands in a folder, with their names."""
    for path in files_below(folder, ".md"):
        yield path.relative_to(folder).with_suffix("").as_posix().replace("/", ":"), path


def read_command(path: Path, place: ExtensionFolder, name: str) -> CommandDefinition:
    """Raises: ConfigError that says in a few words why it cannot be used."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{path} has a name that cannot be typed as a command")
    document = read_document(path, place)
    return CommandDefinition(
        **_fields_of_all("command", name, path, place, document, MAX_MENU_CHARS),
        argument_hint=document.text("argument-hint"),
        allowed=_read_allowed(document),
    )


def files_named(body: str, arguments: str, cwd: Path) -> list[str]:
    """The files that a command names after `@`, relative to the working directory; anything else is
    just a word."""
    text = _fill_arguments(_RUN.sub("", body), arguments, _words(arguments))
    names = dict.fromkeys(match[1] for match in _FILE.finditer(text))
    return [name for name in names if (cwd / name).is_file()][:MAX_FILES]


def _read_allowed(document: Document) -> tuple[str, ...] | None:
    """The rules in `allowed-tools`; an invalid one matches nothing. Never raises."""
    if "allowed-tools" not in document.fields:
        return None
    pieces = []
    for text in rules_of(document.text("allowed-tools")):
        with contextlib.suppress(ConfigError):
            pieces.append(str(parse(text)))
    return tuple(pieces)


def pieces(body: str, arguments: str) -> list[CommandPiece]:
    """Expands a body with these arguments, in order. Substituted words for `$ARGUMENTS` and `$1` to
    `$9` are not expanded again. Arguments without a placeholder follow at the end."""
    words = _words(arguments)
    pieces, position = list[CommandPiece](), 0
    for match in _RUN.finditer(body):
        pieces.append(
            CommandPiece(_fill_arguments(body[position : match.start()], arguments, words))
        )
        pieces.append(CommandPiece(_fill_arguments(match[1], arguments, words), runs=True))
        position = match.end()
    pieces.append(CommandPiece(_fill_arguments(body[position:], arguments, words)))
    if arguments and not _ARGUMENT.search(body):
        pieces.append(CommandPiece(f"\n\nARGUMENTS: {arguments}"))
    return [piece for piece in pieces if piece.text]


def _fill_arguments(text: str, arguments: str, words: Sequence[str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return arguments
        number = int(match[1])
        return words[number - 1] if number <= len(words) else ""

    return _ARGUMENT.sub(value, text)


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # an unclosed quote, as in "don't"
        return arguments.split()


# ── agents ───────────────────────────────────────────────────────────────────────────────────

MAX_AGENT_CHARS = 400  # a hundred tokens of every request


@dataclass(frozen=True, kw_only=True)
class AgentDefinition(ExtensionDefinition):
    tools: frozenset[str] | None = None
    """The names of its only tools; None: those of every subagent."""
    without: frozenset[str] = frozenset()
    """The names of tools that it does not get."""
    effort: Effort | None = None
    """How much it thinks; None: as much as the parent."""
    mode: PermissionMode | None = None
    """Restricts the parent's mode; never widens it."""

    def has(self, tool: str) -> bool:
        """Whether it has a tool of kode's own."""
        return tool not in self.without and (self.tools is None or tool in self.tools)


def has_all_tools(agent: AgentDefinition | None) -> bool:
    """Whether an agent gets every tool of the servers that it gets."""
    return agent is None or (
        agent.tools is None and not any(name.startswith("mcp__") for name in agent.without)
    )


def may_use(agent: AgentDefinition | None, tool: Tool) -> bool:
    """Whether an agent gets this tool of one server of its parent's."""
    if agent is None or tool.target is None:
        return has_all_tools(agent)
    server, _, name = tool.target({}).partition(":")
    prefix = f"mcp__{server}"
    ways = {tool.name, prefix, f"{prefix}__*", f"{prefix}__{name}", "mcp__*"}
    return ways.isdisjoint(agent.without) and (agent.tools is None or bool(ways & agent.tools))


def list_agents(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of agents in a folder, without names: each file names its agent."""
    return (("", path) for path in files_below(folder, ".md"))


def read_agent(path: Path, place: ExtensionFolder, called: str) -> AgentDefinition:
    """Raises: ConfigError that says in a few words why it cannot be used."""
    document = read_document(path, place)
    name, tools = called or document.text("name") or path.stem, document.text("tools")
    fields = _fields_of_all("agent", name, path, place, document, MAX_AGENT_CHARS)
    if not document.body:
        raise ConfigError(f"{path} has no prompt")
    efforts = [document.text(field).lower() for field in ("effort", "reasoningEffort")]
    return AgentDefinition(
        **{**fields, "model": "" if fields["model"] == "inherit" else fields["model"]},
        tools=tools_of(tools) if "tools" in document.fields and tools != "*" else None,
        without=tools_of(document.text("disallowedTools")),
        effort=next((level for level in EFFORTS if level in efforts), None),
        mode=MODE_CALLED.get(document.text("permissionMode")),
    )


# ── all of them ──────────────────────────────────────────────────────────────────────────────

Lister = Callable[[Path], Iterator[tuple[str, Path]]]
"""Of a place's folder: what may be there, each with the name that its place gives it, or ""."""
READERS: Mapping[str, tuple[Lister, Callable[[Path, ExtensionFolder, str], Any]]] = {
    "skills": (list_skills, read_skill),
    "commands": (list_commands, read_command),
    "agents": (list_agents, read_agent),
}


def find_definitions(around: Surroundings, kind: str) -> tuple[list[Any], list[str]]:
    """Those of a kind ("skills"), nearest first and bundles last, and a sentence for each unusable
    one. Of a bundle's the person saw those when they approved it."""
    problems: list[str] = []
    list_files, folders = READERS[kind][0], places(around, kind)
    files = ((name, path, it) for it in folders for name, path in list_files(it.folder))
    definitions = [*read_definitions(kind, files, problems)]
    return [*definitions, *read_definitions(kind, parts(around.bundles, kind), [])], problems


def read_definitions(
    kind: str, files: Iterable[tuple[str, Path, ExtensionFolder]], problems: list[str]
) -> Iterator[Any]:
    """Reads each; adds to `problems` a sentence for each unusable one."""
    for name, path, place in files:
        try:
            yield READERS[kind][1](path, place, name)
        except ConfigError as error:
            reason = str(error).rstrip(".")
            problems.append(f"The {kind[:-1]} {name or path.stem} was left out: {reason}.")

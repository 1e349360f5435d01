"""Finds the folders and bundles with extensions, nearest first, and reads skills, commands and
agents: Markdown files with front matter, written for any agent.

A skill is a folder with instructions for a kind of task: a model gets its name and description in
the system prompt, and its body on request. A command stands for a prompt: `/review 12` sends the
text of `review.md`. An agent describes a kind of subagent. Whatever these run passes the gate like
any command; see `kode.conversation.turns`.
"""

import contextlib
import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from kode import installed, paths
from kode.config.files import project_folders, resolve_inside
from kode.errors import ConfigError, ToolError
from kode.extensions.trust import FOREIGN, Candidate, Kind, Scope, folder_content
from kode.messages import cut_list, shorten
from kode.permissions.names import MODE_CALLED, PermissionMode, listed_tools, split_rules
from kode.permissions.rules import parse
from kode.provider import EFFORTS, Effort
from kode.tool import Tool, ToolContext, ToolOutput, tool
from kode.values import Value, dataclass, field, replace

MAX_FILE_BYTES = 256 * 1024  # 64,000 tokens: nobody means to send more
MAX_FOUND = 500
"""Limit of files of one kind in one folder; a folder with more was not made for agents."""
MAX_DEPTH = 4  # a group in a group, and one level to spare
SKIPPED = (".git", "node_modules", "__pycache__")
MAX_HEAD_CHARS = 16_000  # many times the longest description

_HEAD = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r"^(?=(?:agent|allowed-tools|argument-hint|arguments|color|context|description|disallowedTools|"
    r"disable-model-invocation|effort|hooks|license|mcpServers|metadata|model|name|permissionMode|"
    r"reasoningEffort|skills|tools|user-invocable|version)[ \t]*:)",
    re.MULTILINE,
)
"""The start of a field that agents know: examples in descriptions have lines like `user: ...`."""
PLUGIN_ROOT = "${CLAUDE_PLUGIN_ROOT}"
"""The variable for the bundle's folder in the texts of a bundle."""


class Bundle(Value):
    """Skills, commands, agents, hooks and servers that a person approved as one, all in one copy in
    `$KODE_HOME`. Their names are qualified: `BUNDLE:NAME`, or `BUNDLE.NAME` for servers."""

    name: str
    folder: Path
    skills: Mapping[str, Path] = field(default_factory=dict)
    """Name → folder with a SKILL.md."""
    commands: Mapping[str, Path] = field(default_factory=dict)
    agents: Mapping[str, Path] = field(default_factory=dict)
    hooks: Mapping[str, Any] = field(default_factory=dict)
    """Event → groups, as `hooks` in a settings file."""
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name → entry, as `mcpServers` in a config file."""


@dataclass(frozen=True)
class Surroundings:
    """Where to search for extensions."""

    cwd: Path
    project: Path
    """The folder that approvals are stored for."""
    home: Path
    """`$KODE_HOME`."""
    user_home: Path
    bundles: tuple[Bundle, ...] = ()
    faults: tuple[str, ...] = ()
    """A sentence for each bundle that is off."""


@dataclass(frozen=True)
class ExtensionFolder:
    """A folder that may contain extensions."""

    folder: Path
    scope: Scope
    top: Path
    """The project, or the person's home, around it."""


def find_surroundings(cwd: Path, home: Path, user_home: Path | None) -> Surroundings:
    """The surroundings of a working directory, for a person with this home folder, or none."""
    user_home = user_home or paths.NO_HOME
    return Surroundings(cwd, paths.project_root(cwd), home, user_home, *bundles_in(home))


def bundles_in(home: Path) -> tuple[tuple[Bundle, ...], tuple[str, ...]]:
    """Returns the bundles that are unchanged since a person approved them, and a sentence for each
    other one. Never raises."""
    bundles, faults = list[Bundle](), list[str]()
    try:
        for plugin in installed.enabled_plugins() if paths.bundles_folder(home).is_dir() else ():
            if plugin.bundles:
                usable, off = installed.call_part(plugin, plugin.bundles, home)
                bundles += usable
                faults += off
    except ConfigError as error:
        faults.append(str(error))
    return tuple(bundles), tuple(faults)


def list_parts(bundles: Iterable[Bundle], kind: str) -> Iterator[tuple[str, Path, ExtensionFolder]]:
    """Yields the name, path and place of each part of one kind ("skills")."""
    for bundle in bundles:
        place = ExtensionFolder(folder=bundle.folder, scope="bundle", top=bundle.folder)
        yield from ((name, path, place) for name, path in getattr(bundle, kind).items())


def list_folders(around: Surroundings, kind: str) -> list[ExtensionFolder]:
    """The folders for `kind` ("skills"), nearest first: from the working directory up to the
    repository's root, then the home."""
    families = (".kode", *((".agents",) if kind == "skills" else ()), ".claude")
    personal = [around.home / kind, *(around.user_home / family / kind for family in families[1:])]
    above = [top / family / kind for top in project_folders(around.cwd) for family in families]
    places = [ExtensionFolder(folder, "home", around.user_home) for folder in personal]
    places += [ExtensionFolder(folder, "project", around.project) for folder in above]
    # If two paths lead to the same folder, the person's own one counts.
    by_path = {paths.real_path(it.folder): it for it in reversed(places) if it.folder.is_dir()}
    return sorted(by_path.values(), key=lambda it: (it.scope == "home", places.index(it)))


def files_below(folder: Path, suffix: str) -> Iterator[Path]:
    """Files with this suffix, sorted, at most `MAX_FOUND` and `MAX_DEPTH` folders deep; does not
    follow links to folders."""

    def walk() -> Iterator[Path]:
        for where, folders, names in os.walk(folder):
            depth = len(Path(where).relative_to(folder).parts)
            folders[:] = sorted(set(folders) - set(SKIPPED)) if depth < MAX_DEPTH else []
            yield from (Path(where) / name for name in sorted(names) if name.endswith(suffix))

    return itertools.islice(walk(), MAX_FOUND)


def read_text(path: Path, place: ExtensionFolder) -> str:
    """Returns the text of a file of a place.

    Raises: ConfigError if it is unreadable, too large or not text, or if a repository's or bundle's
        link leads out of the place: a repository must not choose which of the reader's files leak,
        nor load what the person does not see beside it.
    """
    folders = (place.top, place.folder) if place.scope in FOREIGN else ()
    try:
        real = resolve_inside(path, *folders)
        if not real.is_file():
            raise ConfigError(f"{path} is not a file")
        with real.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} could not be read ({error.strerror})") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES // 1024} KB")
    if b"\0" in data:
        raise ConfigError(f"{path} is not text")
    text = data.decode("utf-8-sig", "replace")
    return text.replace(PLUGIN_ROOT, str(place.top)) if place.scope == "bundle" else text


# ── front matter: YAML between two lines of `---`. Parsing is lenient, because the files were
# written for other agents, some of which accept what is not YAML.


class Document(Value):
    whole: str
    body: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A field as one text, a list joined with commas; "" if the field is missing."""
        value = self.fields.get(name)
        return ", ".join(filter(None, map(_plain, value if isinstance(value, list) else [value])))


def read_document(path: Path, place: ExtensionFolder) -> Document:
    """Reads a file with its front matter. Raises: ConfigError as `read_text`, and if the fields
    cannot be told apart: without them, a definition would lose the limits that they set."""
    try:
        return parse_document(read_text(path, place))
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse_document(text: str) -> Document:
    """Splits a text into fields and body. If the front matter is not YAML, as in `description: Use
    when: it rains`, each known field is read alone: as YAML, or else as the text up to the next
    field. Raises: ValueError."""
    plain = text.replace("\r\n", "\n").removeprefix("\ufeff")
    match = _HEAD.match(plain)
    if match is None:
        return Document(whole=text, body=plain.strip())
    if len(head := match[1]) > MAX_HEAD_CHARS:
        raise ValueError(f"its front matter has over {MAX_HEAD_CHARS} characters")
    if (fields := _load(head)) is None:
        first, *parts = _FIELD.split(head)
        if first and not re.match(r"[A-Za-z][\w-]*[ \t]*:", first):
            raise ValueError("its front matter is not YAML")
        fields = {}
        for part in parts:
            name, _, value = part.partition(":")
            loaded = _load(part) or {}
            fields[name.strip()] = loaded[name] if [*loaded] == [name] else value.strip()
    return Document(whole=text, body=plain[match.end() :].strip(), fields=fields)


def _load(head: str) -> dict[str, Any] | None:
    import yaml

    try:
        # The same in C, five times as fast, if the wheel has it.
        value = yaml.load(head, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError):  # an invalid date is a ValueError
        return None
    if value is None:
        return {}
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else None


def _plain(value: Any) -> str:
    """Allows only plain values: an alias in YAML can expand to more text than fits in memory."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip() if isinstance(value, str | int | float) else ""


FILE = "SKILL.md"
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1_024
"""Limits of skills, as agentskills.io specifies them."""
MAX_LISTED_FILES = 50  # a few hundred tokens

CATALOGUE_SHARE = 0.02
"""The share of the model's window that names and descriptions may take."""
CHARS_PER_TOKEN = 4
"""OpenAI's rule of thumb for English text."""
LENGTHS = (MAX_DESCRIPTION_CHARS, 700, 500, 350, 250, 180, 130, 90, 60, 40)
"""The most characters of a description in the catalogue: the first of these with which all fit.
With fewer, a description would not say when to use the skill."""

HEADING = """\
# Skills
Instructions for kinds of tasks. Where one fits the task, load it with `skill` before you begin.
"""


class ExtensionDefinition(Value):
    item: Candidate
    place: ExtensionFolder
    description: str
    """When to use it, for the model or the person."""
    body: str
    model: str = ""
    """The model for what it starts; "" for the current one."""


def _fields_of_all(
    kind: Kind,
    name: str,
    origin: Path,
    place: ExtensionFolder,
    document: Document,
    most: int,
    **of_item: Any,
) -> dict[str, Any]:
    """The fields that all definitions share. Raises: ConfigError if it needs a description."""
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


class Skill(ExtensionDefinition):
    files: tuple[str, ...] = ()
    """All other files in its folder, relative to it."""
    for_model: bool = True
    """Whether the model may load it; the person always may."""

    def instructions(self) -> str:
        """The body for a model, after a line that says where the skill's files are."""
        files = ", ".join(cut_list(self.files, MAX_LISTED_FILES))
        about = f" It has these files: {files}." if files else ""
        return f"[Skill {self.item.name}, from {self.item.origin}.{about}]\n{self.body}"


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
    """The skills' section of the system prompt, in at most `CATALOGUE_SHARE` of a window of so many
    tokens. Shortens descriptions before it omits names. "" if there is nothing to list."""
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
    """Makes the tool for one session. Its result survives when the beginning of the conversation is
    summarized. `reread` reads a skill again, and raises ToolError if it has changed."""
    by_name = {skill.item.name: skill for skill in skills}

    async def skill(
        context: ToolContext,
        name: str,
        file: Annotated[str | None, "Relative to the skill's folder"] = None,
    ) -> ToolOutput:
        if name not in by_name:
            raise ToolError(f"There is no skill {name!r}. The skills are: {', '.join(by_name)}.")
        loaded = reread(by_name[name])
        if file is None:
            return ToolOutput(text=loaded.instructions(), summary="loaded", lasting=True)
        path = Path(paths.real_path(loaded.item.origin / file))
        if Path(paths.real_path(loaded.item.origin)) not in path.parents:
            raise ToolError(f"{file} is outside of the skill's folder. Read it with read_file.")
        try:
            text = read_text(path, replace(loaded.place, folder=loaded.item.origin))
        except ConfigError as error:
            files = ", ".join(loaded.files) or "none"
            raise ToolError(f"{error}. Its files are: {files}.") from None
        read = (str(loaded.item.origin / file),)
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


class CommandDefinition(ExtensionDefinition):
    argument_hint: str = ""
    allowed: tuple[str, ...] | None = None
    """Rules that every call of its turn must match; None for no limit. The rules allow nothing."""


class CommandPiece(NamedTuple):
    """A part of a command's text, which `runs` if it stands for the output of a command line."""

    text: str
    runs: bool = False


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
    """The files that a command names after `@`, relative to the working directory, at most
    `MAX_FILES`. A name without a file is an ordinary word."""
    text = _fill_arguments(_RUN.sub("", body), arguments, _split_arguments(arguments))
    names = dict.fromkeys(match[1] for match in _FILE.finditer(text))
    return [name for name in names if (cwd / name).is_file()][:MAX_FILES]


def _read_allowed(document: Document) -> tuple[str, ...] | None:
    """The rules in `allowed-tools`, without invalid ones; None if there is no such field."""
    if "allowed-tools" not in document.fields:
        return None
    pieces = []
    for text in split_rules(document.text("allowed-tools")):
        with contextlib.suppress(ConfigError):
            pieces.append(str(parse(text)))
    return tuple(pieces)


def pieces(body: str, arguments: str) -> list[CommandPiece]:
    """Expands a command's body into its pieces. What replaces `$ARGUMENTS` and `$1` to `$9` is not
    expanded again. If the body has no placeholder, the arguments follow at the end."""
    words = _split_arguments(arguments)
    texts = [_fill_arguments(text, arguments, words) for text in _RUN.split(body)]
    # Every second text is a command line.
    pieces = [CommandPiece(text, runs=index % 2 == 1) for index, text in enumerate(texts)]
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


def _split_arguments(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # an unclosed quote, as in "don't"
        return arguments.split()


# ── agents ───────────────────────────────────────────────────────────────────────────────────

MAX_AGENT_CHARS = 400  # a hundred tokens of every request


class AgentDefinition(ExtensionDefinition):
    tools: frozenset[str] | None = None
    """The names of the only tools that it gets; None for those of every subagent."""
    without: frozenset[str] = frozenset()
    """The names of tools that it does not get."""
    effort: Effort | None = None
    """How much it thinks; None: as much as the parent."""
    mode: PermissionMode | None = None
    """Restricts the parent's mode; never widens it."""

    def has(self, tool: str) -> bool:
        """Whether the agent gets this tool, which is one of kode's own."""
        return tool not in self.without and (self.tools is None or tool in self.tools)


def has_all_tools(agent: AgentDefinition | None) -> bool:
    """Whether an agent gets every tool of its parent's MCP servers."""
    return agent is None or (
        agent.tools is None and not any(name.startswith("mcp__") for name in agent.without)
    )


def may_use(agent: AgentDefinition | None, tool: Tool) -> bool:
    """Whether an agent gets this tool, which belongs to an MCP server of its parent."""
    if agent is None or tool.target is None:
        return has_all_tools(agent)
    server, _, name = tool.target({}).partition(":")
    prefix = f"mcp__{server}"
    ways = {tool.name, prefix, f"{prefix}__*", f"{prefix}__{name}", "mcp__*"}
    return ways.isdisjoint(agent.without) and (agent.tools is None or bool(ways & agent.tools))


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
        tools=listed_tools(tools) if "tools" in document.fields and tools != "*" else None,
        without=listed_tools(document.text("disallowedTools")),
        effort=next((level for level in EFFORTS if level in efforts), None),
        mode=MODE_CALLED.get(document.text("permissionMode")),
    )


# ── all of them ──────────────────────────────────────────────────────────────────────────────

READERS: dict[str, Any] = {"skills": read_skill, "commands": read_command, "agents": read_agent}


def _list_files(kind: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields the paths in a folder that may be definitions, each with the name that its path gives
    it, or "". Files below a skill's folder belong to that skill."""
    if kind == "skills":
        yield from (("", path.parent) for path in sorted(folder.glob(f"*/{FILE}")))
    for path in files_below(folder, ".md") if kind != "skills" else ():
        name = path.relative_to(folder).with_suffix("").as_posix().replace("/", ":")
        yield name if kind == "commands" else "", path


def find_definitions(around: Surroundings, kind: str) -> tuple[list[Any], list[str]]:
    """Returns the definitions of a kind ("skills"), nearest first and bundles last, and a sentence
    for each unusable one outside of bundles: the person saw a bundle's when they approved it."""
    problems: list[str] = []
    folders = list_folders(around, kind)
    files = ((name, path, it) for it in folders for name, path in _list_files(kind, it.folder))
    definitions = [*read_definitions(kind, files, problems)]
    return [*definitions, *read_definitions(kind, list_parts(around.bundles, kind), [])], problems


def read_definitions(
    kind: str, files: Iterable[tuple[str, Path, ExtensionFolder]], problems: list[str]
) -> Iterator[Any]:
    """Reads these files; adds to `problems` a sentence for each unusable one."""
    for name, path, place in files:
        try:
            yield READERS[kind](path, place, name)
        except ConfigError as error:
            reason = str(error).rstrip(".")
            problems.append(f"The {kind[:-1]} {name or path.stem} was left out: {reason}.")

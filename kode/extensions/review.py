"""Finds the extensions of a repository and a home, and which of them are used: the nearest approved
one of each name. Lists them, and asks one question about all that wait for approval.

Instruction files written by a session that had read outside text need the same approval.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from kode import paths
from kode.credentials import redact
from kode.errors import ConfigError, ToolError
from kode.extensions import trust
from kode.extensions.definitions import (
    CHARS_PER_TOKEN,
    READERS,
    AgentDefinition,
    Bundle,
    CommandDefinition,
    Skill,
    Surroundings,
    find_definitions,
    find_surroundings,
    list_parts,
    read_definitions,
)
from kode.extensions.hooks import Hook, find_hooks, hooks_of_bundles
from kode.extensions.mcp_config import ServerEntry, entries_in, find_servers
from kode.extensions.mcp_server import forget_server
from kode.extensions.trust import Approvals, Candidate
from kode.messages import align_columns, cut_list, shorten
from kode.permissions.places import is_named_like_keys
from kode.permissions.question import Ask, Question, visible
from kode.prompts.agents_files import InstructionsFile, ProjectInstructions, read_agents_files
from kode.values import Value, dataclass, field, replace

Kind = Literal["skills", "commands", "agents", "hooks"]
Standing = Literal["used", "new", "changed", "shadowed"]
"""`new` and `changed` are off until a person approves them; `shadowed` has a nearer namesake."""
Extension = Skill | CommandDefinition | AgentDefinition | Hook
T = TypeVar("T", bound=Extension, covariant=True)
SkillOrCommand = TypeVar("SkillOrCommand", Skill, CommandDefinition)


@dataclass(frozen=True)
class Found(Generic[T]):
    thing: T
    standing: Standing
    remark: str = ""
    """What shadows it."""


class FoundExtensions(Value):
    """The extensions found, in order of precedence."""

    skills: tuple[Found[Skill], ...] = ()
    commands: tuple[Found[CommandDefinition], ...] = ()
    agents: tuple[Found[AgentDefinition], ...] = ()
    hooks: tuple[Found[Hook], ...] = ()
    """All trusted ones are used: none shadows another."""
    problems: Mapping[Kind, list[str]] = field(default_factory=dict)
    """A sentence for each unusable one."""

    def items(self) -> tuple[Candidate, ...]:
        """All items, used or not, that a person may be asked about."""
        kinds = (self.skills, self.commands, self.agents, self.hooks)
        return tuple(extension.thing.item for kind in kinds for extension in kind)


def in_use(extensions: Iterable[Found[T]]) -> tuple[T, ...]:
    """The extensions that are used."""
    return tuple(extension.thing for extension in extensions if extension.standing == "used")


def find_extensions(around: Surroundings, approvals: Approvals) -> FoundExtensions:
    """Finds all extensions for the working directory. Only a trusted extension shadows others, so
    that a repository's unapproved one cannot take a name. Never raises."""
    problems: dict[Kind, list[str]] = {"skills": [*around.faults]}

    def judge(kind: Kind, things: list[T], faults: list[str]) -> tuple[Found[T], ...]:
        problems.setdefault(kind, []).extend(faults)
        nearest: dict[str, Path] = {}
        extensions = []
        for thing in things:
            name, state = thing.item.name, trust.state(thing.item, approvals)
            if state != "trusted":
                extensions.append(Found(thing, state))
            elif name in nearest and kind != "hooks":
                extensions.append(Found(thing, "shadowed", f"shadowed by {nearest[name]}"))
            else:
                nearest[name] = thing.item.origin
                extensions.append(Found(thing, "used"))
        return tuple(extensions)

    return FoundExtensions(
        skills=judge("skills", *find_definitions(around, "skills")),
        commands=judge("commands", *find_definitions(around, "commands")),
        agents=judge("agents", *find_definitions(around, "agents")),
        hooks=judge("hooks", *find_hooks(around)),
        problems=problems,
    )


def reread(thing: SkillOrCommand, home: Path, project: Path) -> SkillOrCommand:
    """Reads a skill or command again from disk. Raises: ToolError if it has changed since this
    session began: the person approved only that content."""
    item, about = thing.item, f"The {thing.item.kind} {thing.item.name}"
    try:
        now: SkillOrCommand = READERS[f"{item.kind}s"](item.origin, thing.place, item.name)
    except ConfigError as error:
        raise ToolError(f"{about} cannot be read any more: {error}.") from None
    changed = item.scope in trust.FOREIGN and now.item.content != item.content
    if changed or trust.is_held(now.item, home, project):
        about += " has changed since this session began, so it is off until it is approved again"
        raise ToolError(f"{about} (`kode extensions trust list`).")
    return now


class BundleItems:
    """The parts of one bundle as a person approves them: all at once, with the bundle."""

    def __init__(self, bundle: Bundle, home: Path) -> None:
        """Reads them. Never raises."""
        self._home, folder = home, bundle.folder
        self.problems: list[str] = []
        """A sentence for each part that cannot be used."""
        self._servers = [*entries_in(bundle.servers, folder, "bundle", folder, self.problems)]
        things: list[Extension | ServerEntry] = []
        for kind in READERS:
            things += read_definitions(kind, list_parts((bundle,), kind), self.problems)
        things += [*hooks_of_bundles((bundle,), self.problems), *self._servers]
        self.items = tuple(thing.item for thing in things)

    def forget_servers(self) -> None:
        """Removes the pins and caches of its servers. Raises: StorageError, BusyError."""
        for entry in self._servers:
            forget_server(self._home, entry, trust.load(self._home, entry.root))


HASH_CHARS = 12  # enough to tell versions apart
ABOUT_CHARS = 100  # one line

NONE: Mapping[Kind, str] = {
    "skills": "No skills here. kode reads .agents/skills, .claude/skills and .kode/skills.",
    "commands": "No commands here. kode reads .claude/commands and .kode/commands.",
    "agents": "No agents here. kode reads .claude/agents and .kode/agents.",
    "hooks": "No hooks here. kode reads .claude/settings.json and $KODE_HOME/config.json.",
}
"""Shown if there are none of a kind, in the project and in the home."""


def rows_of(extensions: FoundExtensions, kind: Kind) -> list[dict[str, Any]]:
    """A row for each extension of one kind, in order of precedence: `state` is a `Standing`, `hash`
    the SHA-256 of what an approval covers, `tokens` its estimated size in a model's window."""
    things: Sequence[Found[Extension]] = getattr(extensions, kind)
    return [
        {
            "name": it.thing.item.name,
            "state": it.standing,
            "scope": it.thing.item.scope,
            "origin": str(it.thing.item.origin),
            "hash": trust.digest(it.thing.item),
            "about": it.thing.description,
            "tokens": len(it.thing.body) // CHARS_PER_TOKEN,
            "remarks": (it.remark,) if it.remark else (),
        }
        for it in things
    ]


def lines_of(rows: Sequence[Mapping[str, Any]], kind: Kind) -> list[str]:
    """Formats rows for a person, and says how to approve pending ones."""
    if not rows:
        return [NONE[kind]]
    cells = [
        (
            row["state"],
            row["name"],
            row["hash"][:HASH_CHARS],
            f"{row['tokens']} tokens" if kind != "hooks" else "",
            "; ".join((shorten(row["about"], ABOUT_CHARS), *row["remarks"])),
            f"({row['origin']})",
        )
        for row in rows
    ]
    # Before padding, so that gaps within a name are escaped but alignment is not.
    lines = align_columns([[*map(visible, line)] for line in cells])
    if any(row["state"] in ("new", "changed") for row in rows):
        lines.append("`kode extensions approve NAME` shows a pending item, and asks.")
    return lines


# ── the question ─────────────────────────────────────────────────────────────────────────────

LONGEST_KEY_LINES = 200  # an RSA key of 16,384 bits, a line for each 64 characters
LASTS = "Your approval lasts until it changes; `kode extensions revoke NAME` withdraws it."

SHOWN_LINES = 60
"""Lines of one item in the question; `kode extensions trust show` shows everything."""

DOWNLOADS = (
    "It never ran here, and wants the network, as `npx` and `uvx` do to install a server. For "
    "this one start in the sandbox it sees this project, no other, and what `read` names here, "
    "changes only its own cache, and can send what it sees and the variables named here. Later "
    "starts have no network."
)
_OUTSIDE = (
    "Run it without a sandbox",
    "There is no sandbox here (`kode doctor`), you turned it off, or its entry says `outside`: it, "
    "and what it loads from the project, can read your keys, change files and use the network.",
)
ALONE: Mapping[str, tuple[str, str]] = {
    "mcp-outside": _OUTSIDE,
    "hook-outside": _OUTSIDE,
    "mcp-download": ("Start once with the network, for what it downloads", DOWNLOADS),
}
"""Kind of an item that is asked about alone → the question's title, and what approval means."""

_KINDS = {
    "mcp": "MCP server",
    "mcp-tool": "MCP tool",
    "mcp-outside": "without a sandbox: MCP server",
    "mcp-download": "one start with the network: MCP server",
    "hook-outside": "without a sandbox: hook",
}


@dataclass(frozen=True)
class Reviewer:
    """Asks a person about items, and never again in this process about refused ones."""

    home: Path
    ask: Ask | None
    """None if nobody can be asked: then whatever is not approved stays off."""
    trust_project: bool = False
    declined: set[str] = field(default_factory=set)
    """The keys of the items that the person refused."""

    async def review(self, project: Path, items: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """Asks one question about all items that are new or changed; returns those that stay off.
        Raises: StorageError, BusyError if an approval cannot be saved."""
        approvals = trust.load(self.home, project, trust_project=self.trust_project)
        pending = tuple(item for item in items if trust.state(item, approvals) != "trusted")
        asked = [item for item in pending if _item_key(item) not in self.declined]
        if self.ask is not None and asked:
            if await ask_approval(self.home, asked, approvals, self.ask):
                return tuple(item for item in pending if item not in asked)
            self.declined.update(map(_item_key, asked))
        return pending


def _item_key(item: Candidate) -> str:
    return f"{name_item(item)} {trust.digest(item)}"


async def ask_approval(
    home: Path, items: Sequence[Candidate], approvals: Approvals, ask: Ask, most: int = SHOWN_LINES
) -> bool:
    """Asks one question about all items; approves them as shown if the person agrees, and returns
    whether they did. Raises: StorageError, BusyError."""
    title = "Use this repository's extensions"
    reason = "Extensions can run programs and instruct the model."
    if items[0].kind in ALONE:
        title, reason = ALONE[items[0].kind]
    elif any(trust.find_tainting_source(item, approvals) for item in items):
        title = "Use what a session wrote that had read outside text"
    elif any(trust.state(item, approvals) == "changed" for item in items):
        title += ", which have changed since you approved them"
    if len(items) > 1 and items[0].kind not in ALONE:
        reason += " `kode extensions approve NAME` approves one alone."
    question = Question(
        tool="trust",
        subject=visible(", ".join(map(name_item, items))),
        title=f"{title}?",
        preview=visible("\n\n".join(describe(item, approvals, lines=most) for item in items)),
        reason=f"{reason} {LASTS}",
        kind="trust",
        until_changed=True,
        takes_words=False,
    )
    if (await ask(question)).choice == "no":
        return False
    trust.approve_items(home, approvals.project, items)
    return True


def describe(item: Candidate, approvals: Approvals, *, lines: int = SHOWN_LINES) -> str:
    """Describes an item without credentials, by up to `lines` of its content or its changes."""
    state = trust.state(item, approvals)
    body = trust.diff(item, approvals) if state == "changed" else item.content
    every = body.rstrip("\n").split("\n")
    # A key has several lines: the text is redacted before it is cut off within a key.
    texts = redact("\n".join(every[: lines + LONGEST_KEY_LINES])).split("\n")[:lines]
    if len(every) > lines:
        texts.append(f"… {len(every) - lines} more lines: `kode extensions trust show {item.name}`")
    source = trust.find_tainting_source(item, approvals)
    after = f", written after reading {source}" if source else ""
    head = [f"{name_item(item)} ({state}, from {item.origin}{after})", item.can]
    return "\n".join((*filter(None, head), *texts))


def name_item(item: Candidate) -> str:
    """The kind and the name of an item, such as `MCP server files`."""
    return f"{_KINDS.get(item.kind, item.kind)} {item.name}"


# ── what waits for approval ──────────────────────────────────────────────────────────────────


def find_items(home: Path, cwd: Path) -> tuple[Candidate, ...]:
    """Everything found for `cwd`, trusted or not. Never raises."""
    servers = (entry.item for entry in find_servers(home, cwd)[0])
    extensions = find_extensions(find_surroundings(cwd, home, paths.user_home()), Approvals())
    return (*servers, *extensions.items(), *find_instruction_items(home, cwd))


MAX_NAMED = 5  # a note of one line


def read_instructions(home: Path, cwd: Path) -> ProjectInstructions:
    """The current instructions for agents in `cwd`, without those that wait for approval, which the
    warning names; see `prompts.agents_files`. Never raises."""
    project = paths.project_root(cwd)
    approvals = trust.load(home, project)
    instructions = _read_instructions(cwd, approvals)
    warnings = [instructions.warning, approvals.problem]
    if names := [_make_item(source, project).name for source in instructions.waiting]:
        warnings.append(
            f"Left out of the instructions: {', '.join(cut_list(names, MAX_NAMED))}, written by a "
            "session that had read outside text. `kode extensions approve` shows and approves it."
        )
    return replace(instructions, warning=" ".join(filter(None, warnings)))


def find_instruction_items(home: Path, cwd: Path) -> tuple[Candidate, ...]:
    """The instructions that wait for approval. Never raises."""
    project = paths.project_root(cwd)
    approvals = trust.load(home, project)
    if approvals.marks is None or not approvals.marks.paths:
        return ()
    waiting = _read_instructions(cwd, approvals).waiting
    return tuple(_make_item(source, project) for source in waiting)


def _read_instructions(cwd: Path, approvals: Approvals) -> ProjectInstructions:
    def waits(source: InstructionsFile) -> bool:
        return trust.state(_make_item(source, approvals.project), approvals) != "trusted"

    is_secret = partial(is_named_like_keys, is_folder=False)
    return read_agents_files(cwd, paths.repository_root(cwd), is_secret=is_secret, waits=waits)


def _make_item(source: InstructionsFile, project: Path) -> Candidate:
    real = Path(paths.real_path(source.path))
    return Candidate(
        kind="instructions",
        name=str(real.relative_to(project) if project in real.parents else real),
        origin=real,
        scope="project",
        content=f"{source.text}\n",
        sha256=source.sha256,
    )

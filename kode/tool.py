"""A tool, what it gets, and what it returns; and the values of a decision about a call."""

import os
from collections.abc import (
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from kode.events import Emit
from kode.messages import Image, Refusal
from kode.provider import ToolSpec
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.sandbox.values import WrapCommand
    from kode.tools.background import BackgroundCommands

Effect = Literal[
    "read",
    "edit",
    "run",
    "fetch",
    "mcp",
    "memory",
    "memory-read",
    "delegate",
    "none",
]
"""What a tool does to the world. `read` looks at files; `edit` changes them; `run` starts a
process; `fetch` talks to the network; `mcp` does whatever its MCP server does; `memory` remembers
or forgets, `memory-read` only searches; `delegate` starts subagents; `none` touches nothing outside
the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPart:
    """A command of a line that checks the project, and its place in its pipeline."""

    command: str
    """As written, without redirections."""
    alone: bool = False
    """Whether it is the whole line."""
    at: int = 0
    of: int = 0
    """It is number `at`, from 0, of so many; 0: nothing can tell how it ends, as in the
    background."""
    behind: int = 0
    """How many simple commands follow in the pipeline; others run in shells of their own."""
    forks: int = 0
    """How many others there are in the pipeline: subshells, loops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkStep:
    """What a call did that tells whether the project was checked since it was last edited."""

    checks: tuple[tuple[str, int | None], ...] = ()
    """As in `ToolOutput`."""
    is_edit: bool = False
    """Whether it changed files."""
    ran_programs: bool = False
    """Whether it ran a program that may have checked the project: anything but a command line that
    only reads, or one that only changes files."""


@dataclass(frozen=True, kw_only=True)
class ToolOutput:
    """A tool's result. A plain `str` is the same as `ToolOutput(text=...)`."""

    text: str
    """For the model: readable text, never JSON with escaped code."""
    summary: str = ""
    """For a person, a few words: "142 lines", "exit 1"."""
    diff: str = ""
    """A unified diff of what changed, for a person."""
    files_read: tuple[str, ...] = ()
    files_changed: tuple[str, ...] = ()
    """Absolute paths."""
    pictures: tuple[Image, ...] = ()
    """For a model that can see; sent after the text."""
    untrusted: str = ""
    """Names the outside source of the text (a URL, a file outside the project); "" when it is the
    project's own. Marks the session as having read untrusted content."""
    notes: tuple[str, ...] = ()
    """What kode says of the call: lines for the model, that follow the text."""
    refusals: tuple[Refusal, ...] = ()
    """What was refused of the call although it ran, or could not be kept of its changes."""
    exit_status: int | None = None
    """Of a finished command; -1 when it timed out. None for other tools."""
    lost: tuple[str, ...] = ()
    """The paths of a command's changes that were not kept; an ignored folder's ends with "/"."""
    ran_s: float | None = None
    """How long it ran, without the person's time to decide about it; None: as long as the call."""
    lasting: bool = False
    """See `ToolResult`."""
    checks: tuple[tuple[str, int | None], ...] = ()
    """The checks of a command line, each with its own exit status; None: not known, or not run."""
    ended_job: str = ""
    """The name of the background job whose end the text tells."""
    agent_steps: tuple[WorkStep, ...] = ()
    """What subagents did in the call, in the order in which it happened."""

    @property
    def for_model(self) -> str:
        """The text and its notes."""
        return "\n".join((self.text, *self.notes))


ChangeKind = Literal["work", "git", "cache", "dependency"]
"""What a changed file is: work; a record of git; byte code or the cache of a tool, which is made
again without a word; part of a folder of installed packages, which programs load unseen."""


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """What a sandboxed command did to one file of its copy of the project."""

    path: str
    """Absolute."""
    change: str
    """`created`, `changed` or `deleted`."""
    kind: ChangeKind = "work"
    ignored: str = ""
    """Absolute, a folder with "/" at its end: the outermost one, this or above it, that git ignores
    or that is a cache or a dependency. What is in it nobody sees in a `git status`. "" if there is
    none."""
    is_link: bool = False
    """Whether it is a symlink now, which may stand for a folder."""
    files: int = 1
    """How many files it stands for: a new folder of packages is one change, an empty one has 0."""
    runs_later: bool = False
    """Whether a program would run it, or what it names, without being asked to: a git hook."""

    @property
    def group(self) -> str:
        """The path it is named by: its own, or of an ignored folder that it is in, with "/"."""
        return self.ignored if self.ignored.endswith("/") else self.path

    @property
    def is_reported(self) -> bool:
        """Whether somebody is asked about it and told of it: not a cache or an empty folder."""
        return self.kind != "cache" and self.files > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeGroup:
    """Changes that have one name for a person: a file, or all in an ignored folder."""

    path: str
    """Absolute, an ignored folder with "/" at its end."""
    change: str
    """As in `FileChange`; `changed` if it is not the same for all."""
    files: int
    is_ignored: bool
    """Whether git ignores it."""

    @property
    def is_folder(self) -> bool:
        return self.path.endswith("/")


def group_changes(changes: Sequence[FileChange]) -> list[ChangeGroup]:
    """The changes by their names, in order, without what goes with a deleted folder."""
    groups: dict[str, list[FileChange]] = {}
    for change in changes:
        groups.setdefault(change.group, []).append(change)
    gone = {path for path, group in groups.items() if group[0].change == "deleted"}
    return [
        _group(path, group)
        for path, group in groups.items()
        if path not in gone or os.path.dirname(path) not in gone
    ]


def _group(path: str, changes: Sequence[FileChange]) -> ChangeGroup:
    kinds = {change.change for change in changes}
    folders = {os.path.dirname(change.path) for change in changes}
    return ChangeGroup(
        path=path,
        change=kinds.pop() if len(kinds) == 1 else "changed",
        files=sum(change.files for change in changes if change.path not in folders),
        is_ignored=bool(changes[0].ignored) and changes[0].kind == "work",
    )


@dataclass(frozen=True, slots=True)
class Blocked:
    """Something that the sandbox blocked."""

    what: Literal["write", "socket", "lookup", "connection", "port", "unknown"]
    """`socket`: a network connection to no known address; `lookup`: of a name on the network;
    `port`: a connection to a program on this machine; `unknown`: the system does not say."""
    where: str = ""
    """The path; host and port, or the port, of a connection; else ""."""

    @property
    def words(self) -> str:
        """A phrase that completes "it ...": "wrote to /etc/hosts"."""
        return _BLOCKED_WORDS[self.what].format(self.where)


_BLOCKED_WORDS: Mapping[str, str] = {
    "write": "wrote to {}",
    "socket": "opened a network connection",
    "lookup": "looked up a name on the network",
    "connection": "opened a connection to {}",
    "port": "connected to port {} of this machine",
    "unknown": "tried what the sandbox forbids",
}


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """What a tool may know about the turn it runs in."""

    place: Workplace
    call_id: str
    session_id: str | None
    emit: Emit
    seen_files: dict[str, str]
    """Absolute path → content hash as last read or written in this session; tools update it."""
    judged_path: str = ""
    """The real path that the gate judged, for a call about a path; "" if none was. The tool works
    on this path or not at all, so that swapping in a link achieves nothing."""
    opinion: "Opinion | None" = None
    """For the gate."""
    rewritten: str = ""
    """Who changed the call and what the model had asked, in a sentence; "" if nobody did."""
    wrap_command: "WrapCommand | None" = None
    """Wraps the command for the sandbox; None: it runs outside."""
    earlier: Callable[[str], str | None] = lambda entry_id: None
    """Returns a text of this session that is no longer sent, by its entry id."""
    background: "BackgroundCommands | None" = None
    """Where commands move to run in the background; None: there is no background."""
    room: int = 60_000
    """Characters that the result may have: a share of the model's window. A longer one is cut to
    both ends, and kept whole in a file; a tool that can show a smaller page does better."""
    checks: tuple[CheckPart, ...] = ()
    """See `Ruling`."""
    untrusted: str = ""
    """The outside source of what the call gets, as the gate knows it; "" if there is none."""
    only_seen: bool = False
    """See `Ruling`."""
    keep_output: "Callable[[ToolOutput], None]" = lambda output: None
    """Takes what a command printed, in case the turn is interrupted and the call has no result."""


@dataclass(frozen=True, kw_only=True)
class Opinion:
    """What an interceptor says about a call before it is decided, for this call only."""

    outcome: Literal["allow", "ask", "plan"]
    """`allow` and `ask` count as a rule of the person; `plan`: as mode `plan` decides, whatever
    allows it."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class Rewritten:
    """A call as an interceptor wants it instead. It is the call from then on: those that come after
    in the chain, and the gate, judge it as if the model had made it."""

    arguments: Mapping[str, Any]
    """Unchecked; the names may be those of another agent, as in a call of the model."""
    by: str
    """Who wants it: "The hook rtk"."""
    opinion: Opinion | None = None
    """About the call as it is now; what earlier ones allowed was about another."""


ToolRun = Callable[[ToolContext, Mapping[str, Any]], Awaitable["ToolOutput | str"]]


@dataclass(frozen=True, kw_only=True)
class Brief:
    """How a tool is described to a weak model: few words, few parameters and choices, none
    explained. The tool still accepts all the others."""

    description: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Parameter → the values to list, for a parameter that has more."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool, made from an async function by `kode.function_tool.tool`."""

    name: str
    description: str
    effect: Effect
    subject: str
    """The name of the argument that rules, prompts and display refer to; "" for none."""
    parallel: bool
    """Whether it may run concurrently with neighbouring calls of the same reply."""
    parameters: Callable[[], Mapping[str, Any]]
    """The JSON schema; computed on first use, because importing pydantic is slow."""
    check: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    """Validates decoded arguments. Raises ToolError that says what is wrong and what is allowed."""
    run: ToolRun
    """Takes checked arguments. Raises ToolError; CancelledError passes through."""
    effect_of: Callable[[Mapping[str, Any]], Effect] | None = None
    """The effect of one call, for a tool whose calls differ; None: always `effect`."""
    target: Callable[[Mapping[str, Any]], str] | None = None
    """The subject of a call for rules, prompts and display, when no single argument holds it."""
    preview: Callable[[ToolContext, Mapping[str, Any]], str] | None = None
    """For the permission question: what will happen (a diff, a command). May raise ToolError; the
    call then fails before anybody is asked."""
    api_type: str = ""
    """As in `ToolSpec`."""
    brief: Brief | None = None
    """None: described the same way to all models."""
    grammar: str = ""
    """As in `ToolSpec`."""
    parts: Callable[[Mapping[str, Any]], "Sequence[tuple[Tool, Mapping[str, Any]]]"] | None = None
    """The calls that a call stands for, each judged and run as such, once all are allowed; None: it
    is one itself. Takes checked arguments, gives unchecked ones. Raises: ToolError."""

    @property
    def spec(self) -> ToolSpec:
        """The description for a model."""
        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters=self.parameters(),
            api_type=self.api_type,
            grammar=self.grammar,
        )

    @property
    def brief_spec(self) -> ToolSpec:
        """The description for a weak model."""
        brief, known = self.brief, self.parameters().get("properties", {})
        if brief is None:
            return self.spec
        properties = {
            name: {key: known[name][key] for key in ("type", "items", "enum") if key in known[name]}
            for name in (*brief.required, *brief.optional)
        }
        for name, values in brief.choices.items():
            properties[name]["enum"] = list(values)
        schema = {"type": "object", "properties": properties, "required": list(brief.required)}
        return replace(self.spec, description=brief.description, parameters=schema)


CALLS_ANY = "mcp_call"
"""The tool that calls any tool of any MCP server."""


Around = Callable[
    [Tool, Mapping[str, Any], ToolContext, Callable[[], Awaitable[ToolOutput]]],
    Awaitable[ToolOutput],
]
"""`await around(tool, arguments, context, run)` runs a call that the gate has approved, and may add
to its result. Raises: what `run` raises."""


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """What is found out about a call before it runs."""

    reason: str
    """Why it runs or not: for the model with what would allow it, or for a person who is asked."""
    may_write: tuple[str, ...] | None = None
    """For a command on the host: absolute paths and patterns that it writes or deletes, judging by
    its words; it may write others too. None if it only reads."""
    sandboxed: bool = False
    """For a command: whether it runs in the sandbox, because nobody approved this exact command."""
    keeps: bool = True
    """For a command in the sandbox: whether anything of what it changes may be kept, or it may run
    outside, also if it ends when the mode or the limits of the turn are others. If not, `reason`
    says why."""
    untrusted: str = ""
    """The outside source that a command reads from; see `ToolOutput.untrusted`."""
    reads: tuple[str, ...] | None = None
    """The files and folders that a command reads, judging by its words; None: it could read
    anything."""
    checks: tuple[CheckPart, ...] = ()
    """The parts of a command line that check the project: tests, types, style, a build."""
    only_reads: bool = False
    """For a command: whether its words show that it only reads."""
    only_edits: bool = False
    """For a command: whether its words show that it only reads and changes files."""
    answers: bool = False
    """For a command: whether its exit status 1 is an answer and no failure, as that of `grep`."""
    only_seen: bool = False
    """For an edit: whether the model must have read the file first, because reading it may need a
    yes: the result of an edit, or why it does not fit, quotes the file."""


@dataclass(frozen=True, kw_only=True)
class Verdict(Ruling):
    allowed: bool
    refusal: Refusal | None = None
    """None when it is allowed. Of a refusal without one, `reason` is the message of a rule."""
    instead: str = ""
    """With a refusal: what the model can do, in a sentence only meant for it."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Which changes of a sandboxed command are applied to the project."""

    changes: tuple[FileChange, ...] = ()
    refused: tuple[tuple[FileChange, Refusal], ...] = ()
    """The others, but for caches and empty folders, each with why it is not."""

    @classmethod
    def nothing(cls, changes: Sequence[FileChange], refusal: Refusal) -> "Kept":
        """Keeps none of the changes."""
        return cls(refused=tuple((change, refusal) for change in changes if change.is_reported))


CallDecision = Verdict | Opinion | Rewritten


Interceptor = Callable[[Tool, Mapping[str, Any], ToolContext], Awaitable[CallDecision | None]]
"""`await interceptor(tool, arguments, context)` judges a call before the gate does. A verdict is
final, the gravest opinion goes to the gate, a rewritten call replaces the call, None says nothing.
Those that rewrite come first in the chain."""

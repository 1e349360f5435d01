"""The seams of the house, and the values that cross them: Provider, Tool, Gate, MemorySystem.

Implementations live in `providers/`, `tools/`, `permissions/` with `cli/ask.py`, and `memory/`.
Each seam has one contract suite in `tests/contracts/` that every implementation must pass.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from kode.events import Emit, Status
from kode.messages import Image, Message
from kode.workplace import Workplace

# ── providers ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """What kode knows of a model. Prices are US dollars per million tokens; None is unknown."""

    context_window: int
    max_output_tokens: int
    input_price: float | None = None
    output_price: float | None = None
    cached_price: float | None = None
    cache_write_price: float | None = None
    known: bool = False
    """False when the window is a cautious guess for a model that is in no table."""
    sees_images: bool | None = None
    """None: kode does not know; then pictures are sent, and the server says."""


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """How a tool is described to a model."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON schema of an object."""
    api_type: str = ""
    """What Anthropic's API knows it as, where its models were trained on it: it is declared there
    by this type, and its description and schema are theirs."""


@dataclass(frozen=True, kw_only=True)
class Request:
    system: str
    messages: Sequence[Message]
    """Every call has its result; the last message is of the user or of tools."""
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None
    """None: the model's own default (or, where the wire format demands one, its maximum)."""
    answer_schema: Mapping[str, Any] | None = None
    """The JSON schema to which the server is to hold the answer, which then has no calls; None: the
    answer is free."""
    context_apart: bool = False
    """Memory, and what stands with it before the person's words, goes as a message of its own that
    the model has answered: a weak model otherwise takes it for a part of the task, and reaches for
    tools."""


@dataclass(frozen=True, kw_only=True)
class ProviderSettings:
    """What a provider is made of."""

    model: str
    info: ModelInfo
    base_url: str | None = None
    api_key: str | None = None
    """None, as for the base URL: what the SDK's own environment variable says."""
    script: str | None = None
    """The file that `scripted` plays."""
    idle_timeout_s: float
    """How long an answer may pause."""
    total_timeout_s: float
    """How long it may take in all."""


class Provider(Protocol):
    """One model behind one wire format."""

    @property
    def name(self) -> str:
        """The name of its row in `kode.registry`."""

    @property
    def model(self) -> str: ...

    @property
    def info(self) -> ModelInfo: ...

    async def reply(self, request: Request, emit: Emit) -> Message:
        """One attempt at one reply; streams `TextDelta` and `ThinkingDelta` to `emit`.

        The message has a stop reason, usage where the server gave it, non-empty unique call ids
        and raw argument texts. With stop `length` its calls are kept for the record and must not
        be run. Retrying is the loop's business, not the provider's.

        Raises: TransientError, ContextOverflow, RefusedError (by a server that cannot keep
            `answer_schema`, too), AuthenticationError, asyncio.CancelledError (the connection is
            closed).
        """

    async def aclose(self) -> None:
        """Closes connections. May be called twice."""


# ── tools ────────────────────────────────────────────────────────────────────────────────────

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
process; `fetch` talks to the network; `mcp` does what only its MCP server knows; `memory` has
something remembered or forgotten, `memory-read` looks at what is; `delegate` starts subagents;
`none` touches nothing outside the session."""


@dataclass(frozen=True, kw_only=True)
class ToolOutput:
    """What a tool gives back. A plain `str` is the same as `ToolOutput(text=...)`."""

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
    """For a model that can see: they follow the text."""
    untrusted: str = ""
    """Names the outside source of the text (a URL, a file outside the project); "" when it is the
    project's own. The session then counts as having read untrusted content."""
    denied: str = ""
    """Why something that the call wanted was refused, though it ran; "" when nothing was."""
    exit_status: int | None = None
    """Of a command that has ended; -1 when it ran out of time. None for other tools."""
    lasting: bool = False
    """See `ToolResult`."""


class RunningCommand(Protocol):
    """A shell command that runs, and may go on doing so when its call has returned."""

    @property
    def command(self) -> str: ...

    @property
    def since(self) -> float:
        """When it was started, on the clock `time.monotonic`."""

    @property
    def output_path(self) -> Path | None:
        """The file with its output; None when none could be written."""

    def output(self) -> str:
        """Its output so far, cleaned; of much, both ends."""

    async def ended(self) -> str:
        """Waits until it has ended with all it started, and says how: `exit status 0`."""

    async def end(self) -> None:
        """Ends it with all it started."""


class Background(Protocol):
    """Where running commands go when the person sends them to the background."""

    def offer(self, call_id: str) -> asyncio.Event:
        """Says that the command of this call may be sent there; the event is set when it is to."""

    def withdraw(self, call_id: str) -> None:
        """The command of this call has ended or moved."""

    def take(self, command: RunningCommand, session_id: str | None) -> str:
        """Takes over a command and the promise that it ends; returns the name it has there."""

    def news(self, session_id: str | None) -> str:
        """News of commands that have ended, for the model of this session; each once."""


@dataclass(frozen=True, kw_only=True)
class Wrapped:
    """What runs a command in the sandbox. Whoever starts it, or fails to, calls `settle`."""

    argv: tuple[str, ...]
    descriptors: tuple[int, ...]
    """Have to be passed on to it, under the same numbers."""
    settle: Callable[[], None]
    """To be called when all that the command started has ended. A second call does nothing. Never
    raises."""


WrapCommand = Callable[[tuple[str, ...]], Wrapped]
"""The argument list of a command → what runs it in the sandbox. Raises: OSError."""


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """What a command in the sandbox did to one file of its copy of the project."""

    path: str
    """Absolute."""
    change: str
    """`created`, `changed` or `deleted`."""
    ignored: bool = False
    """Whether git ignores the file, or a tool makes it again: a cache, what was built."""

    def as_ignored(self) -> "FileChange":
        return replace(self, ignored=True)


class Attempt(Protocol):
    """One command in the sandbox. What it changed lies in a copy until it is applied."""

    @property
    def ended(self) -> asyncio.Event:
        """Set when the command and all it started have ended."""

    @property
    def hits(self) -> tuple[str, ...]:
        """What it ran into, each a phrase that completes "it ...": "wrote to /etc/hosts"."""

    def wrap(self, argv: tuple[str, ...]) -> Wrapped:
        """See `WrapCommand`; to be called once."""

    def changes(self) -> tuple[FileChange, ...]:
        """What it changed, sorted by path. Raises: SandboxError when there is too much of it."""

    def version(self, path: str) -> Path | None:
        """Where its version of a changed file lies; None where there is no copy."""

    def apply(self, changes: Sequence[FileChange]) -> Mapping[str, str]:
        """Makes changes real; returns the paths left alone, each with the reason. Never raises."""

    def carry_over(self, ignored: Sequence[FileChange]) -> None:
        """Has ignored files be there for the next command in the sandbox, and only there."""

    def close(self) -> None:
        """Drops what was not applied. To be called once, after the command has ended."""


class Sandbox(Protocol):
    """Where commands are tried that nobody was asked about."""

    def holds(self) -> bool:
        """Whether this machine has one. The first call finds out, by trying (about 0.1 s)."""

    def cannot_hold(self) -> str:
        """Why there is surely none, without trying; "" where one has to try."""

    def why_missing(self) -> str:
        """Once tried: why there is none, with the next step; "" where there is one."""

    def layered(self) -> bool:
        """Whether commands in it can write in a copy of the project."""

    def begin(self) -> Attempt:
        """An attempt at one command. Raises: OSError when the sandbox cannot be made."""

    def forget(self) -> None:
        """To be called before a command outside of it: drops what `carry_over` kept."""

    @property
    def carries(self) -> bool:
        """Whether `carry_over` has kept anything."""


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """What a tool may know of the turn it runs in."""

    place: Workplace
    call_id: str
    session_id: str | None
    emit: Emit
    seen_files: dict[str, str]
    """Absolute path → content hash as last read or written in this session; tools update it."""
    judged_path: str = ""
    """For a call about a path: the real path that the gate judged. The tool works on this one or
    not at all, so that a link swapped in between does not help. "" where nothing was judged."""
    opinion: "Opinion | None" = None
    """For the gate."""
    wrap_command: WrapCommand | None = None
    """Puts the command into the sandbox; None: it runs outside."""
    earlier: Callable[[str], str | None] = lambda entry_id: None
    """What was said in this session and is no longer sent, by the id of its entry."""
    background: Background | None = None
    """Where a command goes that is to run on; None: there is no background."""


@dataclass(frozen=True, kw_only=True)
class Opinion:
    """What a program of the person's says of a call before it is decided. It counts as a rule of
    theirs for this one call would."""

    outcome: Literal["allow", "ask"]
    reason: str


ToolRun = Callable[[ToolContext, Mapping[str, Any]], Awaitable["ToolOutput | str"]]


@dataclass(frozen=True, kw_only=True)
class Brief:
    """How a tool is described to a weak model: in few words, with few parameters and choices, none
    of them explained. The tool takes all the others as before."""

    description: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values to name of a parameter that has more."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """Made from an async function by `kode.function_tool.tool`; see there."""

    name: str
    description: str
    effect: Effect
    subject: str
    """The name of the argument that rules, prompts and display are about; "" for none."""
    parallel: bool
    """Whether it may run beside its neighbours in one reply."""
    parameters: Callable[[], Mapping[str, Any]]
    """The JSON schema; computed when first asked for, since pydantic's first use costs time."""
    check: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    """Validates decoded arguments. Raises ToolError that says what is wrong and what is allowed."""
    run: ToolRun
    """Takes checked arguments. Raises ToolError; CancelledError passes through."""
    effect_of: Callable[[Mapping[str, Any]], Effect] | None = None
    """The effect of one call, for a tool whose calls differ; None: always `effect`."""
    target: Callable[[Mapping[str, Any]], str] | None = None
    """What a call is about, for rules, prompts and display, where no one argument says it."""
    preview: Callable[[ToolContext, Mapping[str, Any]], str] | None = None
    """For the permission question: what will happen (a diff, a command). May raise ToolError,
    and then the call fails before anybody is asked."""
    api_type: str = ""
    """As in `ToolSpec`."""
    brief: Brief | None = None
    """None: it is the same for all models."""

    @property
    def spec(self) -> ToolSpec:
        """Its description for a model."""
        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters=self.parameters(),
            api_type=self.api_type,
        )

    @property
    def brief_spec(self) -> ToolSpec:
        """Its description for a weak model."""
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


Around = Callable[
    [Tool, Mapping[str, Any], ToolContext, Callable[[], Awaitable[ToolOutput]]],
    Awaitable[ToolOutput],
]
"""`await around(tool, arguments, context, run)` runs a call that the gate has let pass, and may add
to what it gives back. Raises: what `run` raises."""


# ── permission ───────────────────────────────────────────────────────────────────────────────

PermissionMode = Literal["ask", "auto-edit", "plan", "full"]

MODE_MEANS: Mapping[PermissionMode, str] = {
    "ask": "Asks before edits, and before commands that change, send or destroy.",
    "auto-edit": "Edits and sandboxed commands may change the project; asks before all else.",
    "plan": "Read-only: nothing can be changed.",
    "full": "Runs without asking or sandbox, except what destroys, files with keys, and rules.",
}
"""Each permission mode in a person's words. What each lets run is `kode.permissions.decide`."""

MODE_CALLED: Mapping[str, PermissionMode] = {
    **{mode: mode for mode in MODE_MEANS},
    "acceptEdits": "auto-edit",
    "bypassPermissions": "full",
    "default": "ask",
}
"""Each mode by the names that are taken for it: its own, and those of other agents."""


@dataclass(frozen=True, kw_only=True)
class AtStake:
    """What a command may change or lose, as far as its words tell: kept before it runs, so that
    it can be undone. Absolute paths; a glob keeps its marks."""

    changed: tuple[str, ...] = ()
    """Files it writes."""
    deleted: tuple[str, ...] = ()
    """Files it deletes or empties, and folders with all that is in them."""
    discarded: tuple[str, ...] = ()
    """Folders in which it discards work that is in no commit."""

    @property
    def is_lost(self) -> bool:
        """Whether something would be gone that nothing else brings back."""
        return bool(self.deleted or self.discarded)


NOTHING_AT_STAKE = AtStake()


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """What is found out about a call before it runs."""

    reason: str
    """Why it runs or not, for the model, with what would allow it; or for a person who is asked."""
    at_stake: AtStake = NOTHING_AT_STAKE
    sandboxed: bool = False
    """For a command: whether it runs in the sandbox, since nobody allowed this very command."""
    untrusted: str = ""
    """Names the outside source that a command reads from; see `ToolOutput.untrusted`."""
    reads: tuple[str, ...] | None = None
    """The files and folders that a command reads, as far as its words tell; None: it could read
    anything."""
    checks: tuple[str, ...] = ()
    """The parts of a command that check the project (tests, types, style, a build), where its exit
    status tells how they ended."""
    only_reads: bool = False
    """For a command: whether its words say that it only reads."""


@dataclass(frozen=True, kw_only=True)
class Verdict(Ruling):
    allowed: bool


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Which changes of a command in the sandbox become real."""

    changes: tuple[FileChange, ...]
    reason: str = ""
    """For the model, about the others: why they do not."""


class Gate(Protocol):
    """Decides what runs."""

    mode: PermissionMode
    """May be set; takes effect with the next check, one that waits for its question included."""
    only: tuple[str, ...] | None
    """May be set: rules that name the only calls there may be, whatever is allowed otherwise; None:
    no such limit."""

    @property
    def approved_in_session(self) -> tuple[str, ...]:
        """The rules that answers of "session" have added."""

    def approve_in_session(self, rules: Sequence[str]) -> None:
        """Adds rules as an answer of "session" does. Raises: ConfigError for a bad rule."""

    def describe_rules(self) -> tuple[str, ...]:
        """One line a rule, with where it came from, for a person."""

    async def check(
        self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext
    ) -> Verdict:
        """Decides, asking a person where the rules say so; one question at a time.

        Raises: ToolError when the call cannot succeed anyway (its preview failed).
        """

    async def check_changes(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        changes: Sequence[FileChange],
        diff: str,
        *,
        may_ask: bool,
    ) -> Kept:
        """Decides what a command in the sandbox may change for real, file by file as for edits by
        a tool; one question for all that need one. `diff` is for a person."""

    async def check_outside(
        self, tool: Tool, arguments: Mapping[str, Any], hits: Sequence[str]
    ) -> Verdict:
        """Whether a command that failed in the sandbox, and ran into `hits`, runs again without
        it."""


# ── memory ───────────────────────────────────────────────────────────────────────────────────

InjectReason = Literal["start", "resume", "compacted"]
DropReason = Literal["window", "reset", "exit"]

AskModel = Callable[[str, str, int], Awaitable[str]]
"""`await ask_model(system, prompt, max_output_tokens)` → the answer's text, one attempt, counted in
the session's budget. Raises ProviderError. `kode.memory.ask` is the only caller in memory."""

AskReply = Callable[[Request], Awaitable[Message]]
"""`await ask_reply(request)` → the whole message, with its stop reason and its calls: for memory
that hands the model tools, or must know whether an answer was cut. Otherwise as `AskModel`."""


@dataclass(frozen=True, kw_only=True)
class MemoryContext:
    """What a memory system may know of the process and session that opened it."""

    root: Path
    """`$KODE_HOME/memory`; the system keeps to its own part."""
    cwd: Path
    project_root: Path | None
    """The repository root, symlinks resolved; None outside a repository."""
    session_id: str | None
    emit: Emit
    ask_model: AskModel | None
    """None where no model is available (the `kode memory` commands without a key)."""
    now: Callable[[], datetime]
    """The clock, aware and in local time."""
    read_only: bool = False
    session_path: Path | None = None
    """The session's file, named in raw fallback entries."""
    ask_reply: AskReply | None = None
    """The same model as `ask_model`; None where no model is available, or only texts."""
    expected_s: Callable[[int, int], float] = lambda input_tokens, output_tokens: 0.0
    """How long a reply of so many tokens takes by what this process has seen of the model that
    memory asks; 0.0 where it has seen nothing yet."""
    tainted: Callable[[], bool] = lambda: False
    """Whether the session has read untrusted content by now. What is kept of it then waits for
    a person's approval: asked when it is put down, since text may have come in since a hook was
    last called."""


@dataclass(frozen=True, kw_only=True)
class Injection:
    system: str = ""
    """A section for the system prompt; "" for none."""
    first_user: str = ""
    """A text that goes before the first user message after the injection; "" for none."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A turn as memory sees it. In `recall` only `number`, `text` and `tainted` are set."""

    number: int
    """From 1 within the session."""
    text: str
    """What the person asked."""
    answer: str = ""
    status: Status = "success"
    messages: tuple[Message, ...] = ()
    """Everything said in this turn, the person's message first."""
    steps: int = 0
    """Requests to the model."""
    tools: tuple[tuple[str, str], ...] = ()
    """(name, subject) of each tool call that ran."""
    files_changed: tuple[str, ...] = ()
    tainted: bool = False
    """Whether the session has read untrusted content so far."""


@dataclass(frozen=True, kw_only=True)
class Drop:
    """What memory wants of a coming loss of messages."""

    keep: int | None = None
    """How many of the latest messages to keep; None leaves it to the context."""
    recap: str | None = None
    """A text to stand for what was dropped; None leaves it to the context, "" wants none."""
    done: bool = True
    """False when memory could not take in the messages in time (it kept raw material)."""


@dataclass(frozen=True, kw_only=True)
class Hit:
    score: float
    text: str
    where: str
    """The file or note it is from."""
    why: str = ""
    """What matched."""


@dataclass(frozen=True, kw_only=True)
class SnapshotSection:
    title: str
    content: str


class MemorySystem(Protocol):
    """One way of remembering. The engine calls these moments and knows no system by name.

    Every hook may be slow or fail: `kode.memory.guarded` gives each a time limit, turns errors
    into the neutral answer and one Notice, lets CancelledError through, and stops calling a hook
    that failed three times in a row.
    """

    @property
    def name(self) -> str: ...

    @property
    def message_window(self) -> int | None:
        """How many user and final assistant messages a session may hold before the engine calls
        `before_drop("window")` by itself; None: only when the model's window is full."""

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        """A process opens a session, before anything else. `state` is what `state()` last gave
        for this session and this system, else empty."""

    async def inject(self, reason: InjectReason) -> Injection:
        """Once after `open`, and again only after a compaction."""

    async def recall(self, turn: Turn) -> str:
        """Each turn: text that travels inside the user message and stays there; "" for none."""

    def tools(self) -> tuple[Tool, ...]:
        """Once, after `open`; fixed names and order."""

    async def after_turn(self, turn: Turn) -> None:
        """After the final text of a turn."""

    async def before_drop(self, messages: Sequence[Message], reason: DropReason) -> Drop:
        """Before the context loses messages; `messages` is all that it holds."""

    async def maintain(self) -> None:
        """In the background after opening, then every six hours."""

    async def search(self, query: str, k: int) -> list[Hit]:
        """Best first. A query that matches nothing gives nothing."""

    async def snapshot(self) -> tuple[SnapshotSection, ...]:
        """What a subagent gets to read."""

    def state(self) -> Mapping[str, Any]:
        """JSON to keep in the session; called after each turn and at the end."""

    async def close(self, grace_s: float) -> None:
        """The process ends: finishes background work within `grace_s`, leaves the rest pending."""

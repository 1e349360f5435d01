"""A tool, what it gets, and what it returns; and the values of a decision about a call.

A tool is made of an async function: the signature is the schema, the docstring the description.

    @tool(effect="read", subject="path", parallel=True)
    async def read_file(context: ToolContext, path: str, offset: int = 1) -> ToolOutput:
        '''Read a text file. ...'''

The first parameter is the `ToolContext`; the others are what the model sees. Describe a parameter
with `Annotated[str, "..."]`. A default makes it optional. A program that embeds kode passes plain
functions without a `ToolContext`: `plain_tool`.
"""

import functools
import inspect
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

from kode.errors import KodeError, ToolError, UserError
from kode.events import Emit
from kode.messages import Image, Refusal, RefusedBy, ToolCall, shorten
from kode.provider import ToolSpec
from kode.values import Value, dataclass, field, replace
from kode.workplace import Workplace

if TYPE_CHECKING:
    from pydantic import BaseModel

    from kode.permissions.shell.judge import ShellLine
    from kode.permissions.shell.parse import CheckPart
    from kode.sandbox.sandbox import WrapCommand
    from kode.tools.background import BackgroundCommands

Effect = Literal["read", "edit", "run", "fetch", "mcp", "memory", "memory-read", "delegate", "none"]
"""What a tool does to the world: looks at files, changes them, starts a process, talks to the
network, does what its MCP server does, remembers or forgets, only searches memory, starts
subagents; `none` touches nothing outside the session."""

Checks = tuple[tuple[str, int | None], ...]
"""The checks of a command line, each with its own exit status; None: not known, or not run."""


class WorkStep(Value):
    """What a call did that tells whether the project was checked since it was last edited."""

    checks: Checks = ()
    is_edit: bool = False
    ran_programs: bool = False
    """Whether it ran a program that may have checked the project: anything but a command line that
    only reads, or one that only changes files."""


class ToolOutput(Value):
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
    """What kode says about the call: lines for the model that follow the text."""
    refusals: tuple[Refusal, ...] = ()
    """Refusals of parts of a call that ran: what was not done, or which changes were not kept."""
    exit_status: int | None = None
    """The status of a finished command; -1 if it timed out. None for other tools."""
    lost: tuple[str, ...] = ()
    """The paths of a command's changes that were not kept; an ignored folder's ends with "/"."""
    ran_s: float | None = None
    """How long it ran, without the person's time to decide about it; None: as long as the call."""
    lasting: bool = False
    """See `ToolResult`."""
    checks: Checks = ()
    ended_job: str = ""
    """The name of the background job whose end the text tells."""
    agent_steps: tuple[WorkStep, ...] = ()
    """What subagents did in the call, in the order in which it happened."""

    @property
    def for_model(self) -> str:
        """The text and its notes."""
        return "\n".join((self.text, *self.notes))


ChangeKind = Literal["work", "git", "cache", "dependency"]
"""What a changed file is: work; a record of git; byte code or a cache, which is made again; part of
a folder of installed packages, which programs load unseen."""


class FileChange(Value):
    """What a sandboxed command did to one file of its copy of the project."""

    path: str
    """Absolute."""
    change: str
    """`created`, `changed` or `deleted`."""
    kind: ChangeKind = "work"
    ignored: str = ""
    """The outermost path, this or above it, that git ignores or that is a cache or a dependency: it
    is absolute, a folder with "/" at its end. "" if there is none."""
    is_link: bool = False
    """Whether it is a symlink now, which may stand for a folder."""
    files: int = 1
    """How many files it stands for: a new folder of packages is one change, an empty one has 0."""
    runs_later: bool = False
    """Whether a program would run it, or what it names, without being asked to: a git hook."""

    @property
    def is_reported(self) -> bool:
        """Whether a person is asked and told about the change: not a cache or an empty folder."""
        return self.kind != "cache" and self.files > 0

    @property
    def is_folder(self) -> bool:
        """Whether it stands for all changes in an ignored folder: see `group_changes`."""
        return self.path.endswith("/")


def group_changes(changes: Sequence[FileChange]) -> list[FileChange]:
    """The changes as a person reads about them, in order, without those inside a deleted folder.
    All in an ignored folder are one whose path ends with "/", `changed` if their kinds differ."""
    members: dict[str, list[FileChange]] = {}
    for change in changes:
        name = change.ignored if change.ignored.endswith("/") else change.path
        members.setdefault(name, []).append(change)
    gone = {path for path, group in members.items() if group[0].change == "deleted"}
    groups = []
    for path, group in members.items():
        if path in gone and os.path.dirname(path) in gone:
            continue
        changed_as = {change.change for change in group}
        what = changed_as.pop() if len(changed_as) == 1 else "changed"
        folders = {os.path.dirname(change.path) for change in group}
        files = sum(change.files for change in group if change.path not in folders)
        groups.append(replace(group[0], path=path, change=what, files=files))
    return groups


@dataclass(frozen=True)
class Blocked:
    """Something that the sandbox blocked."""

    what: Literal["write", "hidden", "socket", "lookup", "connection", "port", "unknown"]
    """`hidden`: a path that is there, but not for the command; `socket`: a network connection to no
    known address; `lookup`: of a name on the network; `port`: a connection to a program on this
    machine; `unknown`: the system does not say."""
    where: str = ""
    """The path; host and port, or the port, of a connection; else ""."""

    @property
    def words(self) -> str:
        """A phrase that completes "it ...": "wrote to /etc/hosts"."""
        return {
            "write": f"wrote to {self.where}",
            "hidden": f"looked for {self.where}, which is hidden from it",
            "socket": "opened a network connection",
            "lookup": "looked up a name on the network",
            "connection": f"opened a connection to {self.where}",
            "port": f"connected to port {self.where} of this machine",
            "unknown": "tried what the sandbox forbids",
        }[self.what]


class Consent(Value):
    """What a question for the person's consent, or a refusal if nobody can be asked, contains."""

    flag: str = ""
    """The flag that would allow it."""
    rules: tuple[str, ...] = ()
    """Rules that would settle it permanently; empty if "always" is not offered."""
    narrow_rules: tuple[str, ...] = ()
    """The narrowest rules, if `rules` are wider: for this file, for the exact command."""
    dangers: tuple[str, ...] = ()
    """What the call would destroy, a sentence each."""
    decisive: str = ""
    """The decisive reason in a sentence, if the reason and `dangers` say more than that."""
    instead: str = ""
    """What the model can do instead without consent, in a sentence for the model alone."""
    only_mode_asks: bool = False
    """Whether mode `ask` is the only reason to ask."""
    runs_unattended: bool = False
    """Whether the call runs all the same if nobody can be asked (mode `full`)."""


class Decision(Value):
    """Whether a call may run, and where: from the rules to the recorded result."""

    outcome: Literal["allow", "ask", "deny"]
    reason: str
    """Why: for the model, or for a person who is asked. For a `deny` by a person: their words."""
    by: RefusedBy = "rule"
    """With `deny`: what denies."""
    run_in: Literal["host", "sandbox", "read_only"] = "host"
    """Where a command runs. `sandbox`: nobody approved this exact command. `read_only`: in the
    sandbox, nothing that it changes is kept, nor may it run outside; `reason` says why."""
    line: "ShellLine | None" = None
    """For a command: what its words tell."""
    untrusted: str = ""
    """The outside source that a command reads from; see `ToolOutput.untrusted`."""
    must_read_first: bool = False
    """For an edit: whether the model must have read the file, which the result quotes, before."""
    consent: Consent = Consent()
    """For `ask`, and for a `deny` instead of which somebody would have been asked."""

    @property
    def is_allowed(self) -> bool:
        return self.outcome == "allow"

    @property
    def only_reads(self) -> bool:
        """Whether the words of a command show that it only reads."""
        return self.line is not None and self.line.only_reads

    @property
    def checks(self) -> "tuple[CheckPart, ...]":
        """See `ShellLine`."""
        return () if self.line is None else self.line.checks

    @property
    def refusal(self) -> Refusal:
        """The decision as the refusal that a result reports."""
        decisive, passes = self.consent.decisive, self.consent.flag
        return Refusal(by=self.by, message=self.reason, decisive=decisive, passes=passes)


ALLOWED = Decision(outcome="allow", reason="")


class ToolContext(Value):
    """What a tool may know about the turn it runs in."""

    place: Workplace
    call_id: str
    session_id: str | None = None
    emit: Emit
    seen_files: dict[str, str] = field(default_factory=dict)
    """Absolute path → content hash as last read or written in this session; tools update it."""
    path: str = ""
    """See `Action`."""
    decision: Decision = ALLOWED
    """The decision that lets the call run."""
    wrap_command: "WrapCommand | None" = None
    """Wraps the command for the sandbox; None: it runs outside."""
    earlier: Callable[[str], str | None] = lambda entry_id: None
    """Returns a text of this session that is no longer sent, by its entry id."""
    background: "BackgroundCommands | None" = None
    """Where commands move to run in the background; None: there is no background."""
    room: int = 60_000
    """Characters that the result may have: a share of the model's window. A longer one is cut to
    both ends, and kept whole in a file."""
    keep_output: "Callable[[ToolOutput], None]" = lambda output: None
    """Stores what a command has printed, in case an interruption leaves the call without result."""


class Tool(Value):
    """A tool, made of a function by `tool` or `plain_tool`."""

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
    run: Callable[[ToolContext, Mapping[str, Any]], Awaitable[ToolOutput | str]]
    """Takes checked arguments. Raises ToolError; CancelledError passes through."""
    effect_of: Callable[[Mapping[str, Any]], Effect] | None = None
    """The effect of one call, for a tool whose calls differ; None: always `effect`."""
    target: Callable[[Mapping[str, Any]], str] | None = None
    """The subject of a call for rules, prompts and display, when no single argument holds it."""
    preview: Callable[[ToolContext, Mapping[str, Any]], str] | None = None
    """For the permission question: what will happen. Raises: ToolError; then nobody is asked."""
    api_type: str = ""
    """As in `ToolSpec`."""
    grammar: str = ""
    """As in `ToolSpec`."""
    parts: Callable[[Mapping[str, Any]], "Sequence[tuple[Tool, Mapping[str, Any]]]"] | None = None
    """Splits a call into several, which are judged one by one and run once all are allowed; None:
    no call is split. Takes checked arguments, returns unchecked ones. Raises: ToolError."""

    @property
    def spec(self) -> ToolSpec:
        """The description for a model."""
        alike = ("name", "description", "api_type", "grammar")
        return ToolSpec(parameters=self.parameters(), **{it: getattr(self, it) for it in alike})


CALLS_ANY = "mcp_call"
"""The tool that calls any tool of any MCP server."""


class Action(Value):
    """One thing that a call does, parsed and checked."""

    call_id: str
    tool: Tool
    arguments: Mapping[str, Any]
    path: str = ""
    """The real path that the gate judges, for a call about one. The tool works on this path or not
    at all, so that swapping in a link achieves nothing."""
    advice: Decision | None = None
    """An interceptor's decision about this call: `allow` and `ask` count like a rule of the person;
    `run_in="read_only"` counts like mode `plan`, whatever else allows the call."""
    changed_by: str = ""
    """Who replaced the model's action by this one: "The hook rtk"; "" for nobody."""
    change: str = ""
    """Who changed it and how, in a sentence; "" if nobody did."""

    @functools.cached_property
    def subject(self) -> str:
        """The argument that identifies the call, or what the tool makes of all."""
        if self.tool.target is not None:
            return self.tool.target(self.arguments)
        value = self.arguments.get(self.tool.subject, "") if self.tool.subject else ""
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    @functools.cached_property
    def effect(self) -> Effect:
        """What it does: "read", "edit", "run", ..."""
        tool = self.tool
        return tool.effect_of(self.arguments) if tool.effect_of else tool.effect


Around = Callable[[Action, Callable[[], Awaitable[ToolOutput]]], Awaitable[ToolOutput]]
"""`await around(action, run)` runs a call that the gate has approved, and may add to its result.
Raises: what `run` raises."""

CallDecision = Decision | Action

Interceptor = Callable[[Action], Awaitable[CallDecision | None]]
"""`await interceptor(action)` judges a call before the gate does. `deny` is final; another decision
is advice, of which the gravest counts. An action, with unchecked arguments, takes the place of the
call for all who judge after it. None says nothing. Those that rewrite come first in the chain."""


Function = Callable[..., Awaitable[ToolOutput | str]]
_NAMED = ("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY")


def tool(
    *,
    effect: Effect,
    name: str | None = None,
    description: str | None = None,
    subject: str = "",
    parallel: bool = False,
    unlisted: Sequence[str] = (),
    **more: Any,
) -> Callable[[Function], Tool]:
    """Declares a tool. `name` and `description` default to the function's own; `unlisted` are
    optional parameters that it takes and does not describe: their words are sent with every
    request; `more` are further fields of the `Tool`."""

    def declare(function: Function) -> Tool:
        tool_name = name or function.__name__
        model = functools.cache(lambda: _arguments_model(function, tool_name))

        def run(context: ToolContext, arguments: Mapping[str, Any]) -> Awaitable[ToolOutput | str]:
            return function(context, **arguments)

        return Tool(
            name=tool_name,
            description=description or inspect.cleandoc(function.__doc__ or ""),
            effect=effect,
            subject=subject,
            parallel=parallel,
            parameters=functools.cache(lambda: _make_schema(model(), unlisted)),
            check=functools.partial(_validate, model),
            run=run,
            **more,
        )

    return declare


def plain_tool(function: Callable[..., Any]) -> Tool:
    """A tool made from a plain function of an embedding program. Its parameters are what the model
    sees. It counts as touching nothing, so it runs without a question unless a rule names it. A
    sync function runs in a thread. Return values other than text are shown as JSON; an exception
    becomes the call's error.

    Raises: UserError for a function that cannot be described to a model.
    """
    name = getattr(function, "__name__", repr(function))
    if not name.isidentifier() or not inspect.getdoc(function):
        raise UserError(
            f"{name} cannot be a tool: give a named function with a docstring that says to the "
            "model what it does."
        )
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise UserError(f"{name} cannot be a tool: a type in its signature: {error}.") from None
    parameters = list(inspect.signature(function).parameters.values())
    for parameter in parameters:
        if parameter.name not in hints or parameter.kind.name not in _NAMED:
            raise UserError(
                f"{name} cannot be a tool: its parameter {parameter.name} needs a type, and a "
                "name that the model can give it by (no *args, no **kwargs)."
            )

    from asyncio import to_thread

    async def call(context: ToolContext, **arguments: Any) -> ToolOutput | str:
        try:
            is_async = inspect.iscoroutinefunction(function)
            run = function if is_async else functools.partial(to_thread, function)
            value = await run(**arguments)
            if isinstance(value, ToolOutput | str):
                return value
            from pydantic_core import to_json

            return "Done." if value is None else to_json(value, indent=2, fallback=str).decode()
        except KodeError:
            raise
        except Exception as error:
            raise ToolError(f"{name} failed ({type(error).__name__}: {error}).") from error

    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_ONLY)
    by_name = [it.replace(kind=inspect.Parameter.KEYWORD_ONLY) for it in parameters]
    call.__signature__ = inspect.Signature([first, *by_name])  # type: ignore[attr-defined]
    call.__annotations__ = hints
    return tool(effect="none", name=name, description=inspect.getdoc(function))(call)


def _arguments_model(function: Function, tool_name: str) -> "type[BaseModel]":
    from pydantic import ConfigDict, Field, create_model

    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        hint, text = hints[parameter.name], None
        if get_origin(hint) is Annotated:
            hint, *extras = get_args(hint)
            text = next((extra for extra in extras if isinstance(extra, str)), None)
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hint, Field(default, description=text))
    return create_model(tool_name, __config__=ConfigDict(extra="forbid"), **fields)


def _make_schema(model: "type[BaseModel]", unlisted: Sequence[str]) -> Mapping[str, Any]:
    full = model.model_json_schema()
    schema = _slim_schema(full, full.pop("$defs", {}))
    properties = schema.get("properties", {})
    schema["properties"] = {name: properties[name] for name in properties if name not in unlisted}
    return {"type": "object", **{k: v for k, v in schema.items() if k != "type"}}


def _slim_schema(node: Any, definitions: Mapping[str, Any]) -> Any:
    """Drops what costs tokens and tells a model nothing: titles, null alternatives, empty defaults
    (None, false, 0, ""), `additionalProperties: false`. Replaces references by what they refer to,
    because some servers do not follow `$ref`."""
    if isinstance(node, list):
        return [_slim_schema(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        rest = {key: value for key, value in node.items() if key != "$ref"}
        node = {**definitions[node["$ref"].removeprefix("#/$defs/")], **rest}
    slim = {
        key: {name: _slim_schema(item, definitions) for name, item in value.items()}
        if key == "properties"
        else _slim_schema(value, definitions)
        for key, value in node.items()
        if key not in ("title", "additionalProperties") and not (key == "default" and not value)
    }
    choices = [c for c in slim.get("anyOf", []) if c != {"type": "null"}]
    if "anyOf" in slim and len(choices) == 1:
        del slim["anyOf"]
        slim = {**choices[0], **slim}
    return slim


def _validate(
    make_model: "Callable[[], type[BaseModel]]", arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    from pydantic import ValidationError

    model = make_model()
    try:
        return dict(model.model_validate(dict(arguments)))
    except ValidationError as error:
        faults = "; ".join(map(_describe_fault, error.errors()[:5]))
        fields = model.model_fields.items()
        names = ", ".join(name if field.is_required() else f"{name}?" for name, field in fields)
        raise ToolError(
            f"{model.__name__} was not run: {faults}. Its parameters are: {names}."
        ) from None


def _describe_fault(fault: Any) -> str:
    place = ".".join(str(step) for step in fault["loc"]) or "arguments"
    if fault["type"] == "missing":
        return f"`{place}` is required"
    if fault["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"there is no parameter `{place}`"
    value = shorten(repr(fault["input"]), 80)
    return f"`{place}`: {fault['msg'][:1].lower()}{fault['msg'][1:]}, got {value}"


def parse_arguments(call: ToolCall, *, free_text: bool = False) -> dict[str, Any]:
    """Parses the arguments of a call: one JSON object, strictly. An empty text means no arguments.
    With `free_text` a text that begins none is the argument `input`.

    Raises: ToolError that says what is wrong and where.
    """
    if not call.arguments.strip():
        return {}
    if free_text and not call.arguments.lstrip().startswith("{"):
        return {"input": call.arguments}
    import jiter  # not for `--help`

    try:
        arguments = jiter.from_json(call.arguments.encode(), allow_inf_nan=False)
    except ValueError as error:
        raise ToolError(
            f"{call.name} was not run: its arguments are not valid JSON ({error}). "
            f"They began: {call.arguments[:200]!r}. Send one JSON object."
        ) from None
    if not isinstance(arguments, dict):
        raise ToolError(
            f"{call.name} was not run: its arguments must be one JSON object, "
            f"not {type(arguments).__name__}."
        )
    return arguments

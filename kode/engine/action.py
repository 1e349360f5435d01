"""What a call of the model means: the actions that it stands for, parsed and checked, and whether
each may run. Interceptors judge it first, in order, then the gate."""

import contextlib
import difflib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from kode import paths
from kode.credentials import mask
from kode.engine.agent import Agent
from kode.engine.run import Effect, Run
from kode.errors import ToolError, ToolRefused
from kode.events import Emit, Event, Notice, ToolFinished, ToolStarted
from kode.events import ToolOutput as OutputEvent
from kode.extensions.familiar_calls import arguments as translate
from kode.extensions.familiar_calls import called
from kode.function_tool import parse_arguments
from kode.messages import ToolCall, shorten
from kode.plain_text import printable
from kode.session.messages import text_by_id
from kode.tool import Action, Decision, Tool, ToolContext, ToolOutput
from kode.workplace import located, real_path

MAX_CHANGE_CHARS = 500
"""Of a call that was changed, in the line about it; the session has all of it."""


@dataclass
class Progress:
    """What is known of a call so far, also if it fails."""

    call: ToolCall
    name: str = field(init=False)
    share: int = 0
    """Characters that its result may have."""
    subject: str = ""
    started: float = field(default_factory=time.monotonic)
    is_running: bool = False
    effects: set[Effect] = field(default_factory=set)
    """What the model asked for, if that is more than to read or remember."""
    untrusted: str = ""
    """The outside source of what it gets."""
    has_failed: bool = False
    """Whether a command of it failed, or a check in it."""
    output_so_far: ToolOutput | None = None
    """What a command printed that was stopped."""

    def __post_init__(self) -> None:
        self.name = printable(self.call.name)

    def finish(self, output: ToolOutput, **others: Any) -> ToolFinished:
        """The event of its end, with the output's own fields and others."""
        took_s = time.monotonic() - self.started if output.ran_s is None else output.ran_s
        same = {item.name for item in fields(ToolFinished)} & {item.name for item in fields(output)}
        return ToolFinished(
            call_id=self.call.id,
            name=self.name,
            subject=self.subject,
            duration_ms=int(took_s * 1000),
            **others,
            **{name: getattr(output, name) for name in same},
        )


def parse(agent: Agent, progress: Progress) -> Sequence[Action]:
    """What a call does: its actions, checked. Raises: ToolError."""
    tool = _find_tool(agent, progress.call.name)
    progress.name = tool.name
    arguments = translate(tool, parse_arguments(progress.call, free_text=bool(tool.grammar)))
    progress.subject = mask(tool.subject_in(arguments), agent.secrets)
    parts = parts_of(tool, arguments)
    progress.name = parts[0][0].name
    actions = [
        Action(call_id=progress.call.id, tool=tool, arguments=_without_label(agent, tool, given))
        for tool, given in parts
    ]
    progress.subject = name_subject(agent, actions)
    actions = [_checked(agent, action) for action in actions]
    if any(map(_is_work, actions)):
        progress.effects = set(map(effect_of, actions))
    return actions


def _checked(agent: Agent, action: Action) -> Action:
    """The action with checked arguments and its real path. Raises: ToolError."""
    arguments = action.tool.check(action.arguments)
    return replace(action, arguments=arguments, path=_real_path(agent, action.tool, arguments))


def name_subject(agent: Agent, actions: Sequence[Action]) -> str:
    return mask(", ".join(dict.fromkeys(action.subject for action in actions)), agent.secrets)


def parts_of(tool: Tool, arguments: Mapping[str, Any]) -> Sequence[tuple[Tool, Mapping[str, Any]]]:
    """The calls that a call stands for, with unchecked arguments. Raises: ToolError."""
    return ((tool, arguments),) if tool.parts is None else tool.parts(tool.check(arguments))


def _is_work(action: Action) -> bool:
    """Whether it does more than read or remember."""
    effect = action.tool.effect_on(action.arguments)
    return effect in ("edit", "run", "fetch", "mcp", "delegate")


def effect_of(action: Action) -> Effect:
    """Calls with the same effect: an edit of the same file, whatever the tool; the same command; of
    other tools, the same arguments."""
    if action.path:
        return "edit", action.path
    same = action.subject if action.tool.effect == "run" else ""
    return action.tool.name, same or json.dumps(action.arguments, sort_keys=True, default=str)


def _find_tool(agent: Agent, name: str) -> Tool:
    if tool := called(agent.tools, name) or called(agent.withheld, name):
        return tool
    names = [tool.name for tool in agent.tools]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean `{near[0]}`?" if near else ""
    raise ToolError(
        f"There is no tool `{printable(name)}`.{hint} The tools are: {', '.join(names)}."
    )


def _real_path(agent: Agent, tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The real path of a file tool's call, before it is judged; "" for other calls. An impossible
    path is left for the tool to refuse."""
    if tool.effect not in ("read", "edit") or "path" not in arguments:
        return ""
    value = arguments["path"]
    try:
        return real_path(agent.place, value if isinstance(value, str) else "")
    except (OSError, ValueError):
        return ""


def _without_label(agent: Agent, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Strips `path:` from a path `path:a.py` if only `a.py` exists: small models copy the
    argument's name into its value."""
    path, place = arguments.get("path"), agent.place
    if tool.effect not in ("read", "edit") or not isinstance(path, str):
        return arguments
    plain = path.removeprefix("path:").lstrip()
    if plain and plain != path:
        with contextlib.suppress(ValueError):  # a NUL, which the tool refuses
            full = [located(place, str(place.cwd / paths.expand(name))) for name in (path, plain)]
            if [*map(os.path.lexists, full)] == [False, True]:
                return {**arguments, "path": plain}
    return arguments


# ── whether it may run ───────────────────────────────────────────────────────────────────────


async def judge(run: Run, action: Action, progress: Progress) -> tuple[Action, ToolContext]:
    """The action as interceptors want it, and what its tool gets: it may run. Raises: ToolRefused,
    and ToolError if the call cannot succeed."""
    agent, asked = run.agent, action
    for intercept in agent.interceptors:
        answer = await intercept(action)
        if isinstance(answer, Action):
            action = _rewritten(agent, answer, asked, action.advice)
            if action.change:
                run.emit(Notice(text=mask(action.change, agent.secrets)))
        elif answer is not None and answer.outcome == "deny":
            raise _refused(answer, action)
        elif answer is not None:
            action = replace(action, advice=_gravest(action.advice, answer))
    context = _tool_context(run, action, progress)
    decision = await agent.gate.judge(action, context)
    if not decision.is_allowed:
        raise _refused(decision, action)
    return action, replace(context, decision=decision)


def _refused(decision: Decision, action: Action) -> ToolRefused:
    refusal = decision.refusal
    instead = f"{decision.consent.instead} {action.change}".strip()
    return ToolRefused(refusal.for_model, refusal=refusal, instead=instead)


def _gravity(advice: Decision) -> int:
    return 2 if advice.run_in == "read_only" else 1 if advice.outcome == "ask" else 0


def _gravest(before: Decision | None, now: Decision | None) -> Decision | None:
    """The advice that counts: nothing that allows outweighs what asks."""
    return max(filter(None, (now, before)), key=_gravity, default=None)


def _rewritten(agent: Agent, action: Action, asked: Action, before: Decision | None) -> Action:
    """An interceptor's action, checked, with the advice that still counts: what earlier ones
    allowed was about another. Raises: ToolError."""
    try:
        arguments = translate(action.tool, action.arguments)
        arguments = dict(_without_label(agent, action.tool, arguments))
        action = _checked(agent, replace(action, arguments=arguments))
    except ToolError as error:
        by = action.changed_by
        raise ToolError(f"{by} made a call of this one that cannot run: {error}") from error
    before = before if before is not None and _gravity(before) else None
    change = _describe_change(asked, action) if action.arguments != asked.arguments else ""
    return replace(action, advice=_gravest(before, action.advice), change=change)


def _describe_change(asked: Action, action: Action) -> str:
    """What somebody changed in a call, in a sentence."""
    short = partial(shorten, max_chars=MAX_CHANGE_CHARS)
    if asked.subject != action.subject:
        new, old = short(action.subject), short(asked.subject)
        return f"{action.changed_by} changed this call: `{new}` instead of `{old}`."
    before, now = asked.arguments, action.arguments
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    parts = (f"`{name}` is now {short(json.dumps(now.get(name), default=str))}" for name in names)
    return f"{action.changed_by} changed this call: {', '.join(parts)}."


def _tool_context(run: Run, action: Action, progress: Progress) -> ToolContext:
    agent = run.agent
    return ToolContext(
        place=agent.place,
        call_id=action.call_id,
        session_id=run.context.session.id,
        emit=_masking(run.emit, agent.secrets),
        seen_files=agent.seen_files,
        path=action.path,
        earlier=partial(text_by_id, run.context.session.entries),
        background=agent.background,
        room=progress.share,
        keep_output=partial(setattr, progress, "output_so_far"),
    )


def _masking(emit: Emit, secrets: tuple[str, ...]) -> Emit:
    """Masks the output that a tool emits while running, like its result."""

    def masked(event: Event) -> None:
        if isinstance(event, OutputEvent):
            text, partial = mask(event.text, secrets), mask(event.partial, secrets)
            event = replace(event, text=text, partial=partial)
        emit(event)

    return masked if secrets else emit


@dataclass(frozen=True, kw_only=True)
class PreviewedCall:
    """A call whose outcome is not known yet, as far as its arguments tell."""

    event: ToolStarted
    """As its start would be announced."""
    effect: str = ""
    """The tool's; "" for a name that means no tool."""
    arguments: Mapping[str, Any]
    """In the tool's terms, credentials in use masked; empty if they are no JSON object."""


def preview_call(agent: Agent, call: ToolCall) -> PreviewedCall:
    """A call for display. Never raises, whatever its arguments are."""
    text = mask(call.arguments, agent.secrets)
    try:
        arguments = json.loads(text, parse_constant=lambda name: None)  # `NaN` is not JSON
    except (ValueError, RecursionError):
        arguments = None
    is_object = isinstance(arguments, dict)
    tool, subject = called(agent.tools, call.name), ""
    if tool is None:
        event = ToolStarted(call_id=call.id, name=printable(call.name), subject="")
        return PreviewedCall(event=event, arguments=arguments if is_object else {})
    whole = arguments if is_object else {"input": text} if tool.grammar else {}
    arguments = translate(tool, whole)
    with contextlib.suppress(ToolError):
        tool, arguments = parts_of(tool, arguments)[0]
    with contextlib.suppress(Exception):  # a tool expects valid arguments; these may not be
        subject = tool.subject_in(arguments)
    event = ToolStarted(call_id=call.id, name=tool.name, subject=subject)
    return PreviewedCall(event=event, effect=tool.effect, arguments=arguments)

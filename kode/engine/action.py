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
from kode.engine.command import Command
from kode.engine.run import Effect, Run
from kode.errors import ToolError, ToolRefused
from kode.events import Event, Notice, ToolFinished, ToolStarted
from kode.events import ToolOutput as OutputEvent
from kode.extensions.familiar_calls import arguments as translate
from kode.extensions.familiar_calls import called
from kode.function_tool import parse_arguments
from kode.messages import ToolCall, shorten
from kode.session.messages import text_by_id
from kode.tool import Action, Decision, Tool, ToolContext, ToolOutput
from kode.workplace import located, real_path

MAX_CHANGE_CHARS = 500  # of a changed call in the line about it; the session has all of it
WORK = ("edit", "run", "fetch", "mcp", "delegate")
"""The effects of calls that do more than read or remember."""


@dataclass
class Progress:
    """What is known of a call so far, also if it fails."""

    call: ToolCall
    secrets: tuple[str, ...]
    """Values to mask in its subject."""
    actions: Sequence[Action] = ()
    """What it stands for; empty before it is parsed."""
    share: int = 0
    """Characters that its result may have."""
    started: float = 0.0
    """When its tool began to run; 0.0 before."""
    effects: set[Effect] = field(default_factory=set)
    """What the model asked for, if that is more than to read or remember."""
    untrusted: str = ""
    """The outside source of what it gets."""
    error: Exception | None = None
    """Why it has no result of its tool."""
    has_failed: bool = False
    """Whether a command of it failed, or a check in it."""
    output_so_far: ToolOutput | None = None
    """What a command printed that was stopped."""

    @property
    def name(self) -> str:
        return self.actions[0].tool.name if self.actions else self.call.name

    @property
    def subject(self) -> str:
        subjects = dict.fromkeys(action.subject for action in self.actions)
        return mask(", ".join(subjects), self.secrets)

    def finish(self, output: ToolOutput, *, stopped: bool = False) -> ToolFinished:
        """The event of its end, with the output's own fields."""
        took_s = output.ran_s
        if took_s is None:
            took_s = time.monotonic() - self.started if self.started else 0.0
        same = {item.name for item in fields(ToolFinished)} & {item.name for item in fields(output)}
        return ToolFinished(
            call_id=self.call.id,
            name=self.name,
            subject=self.subject,
            duration_ms=int(took_s * 1000),
            is_error=stopped or self.error is not None,
            refused=isinstance(self.error, ToolRefused),
            failed=self.has_failed,
            stopped=stopped,
            **{name: getattr(output, name) for name in same},
        )


def parse(agent: Agent, progress: Progress) -> Sequence[Action]:
    """What a call does: its actions, checked. Raises: ToolError."""
    call, tool = progress.call, _find_tool(agent, progress.call.name)
    arguments = translate(tool, parse_arguments(call, free_text=bool(tool.grammar)))
    action = Action(call_id=call.id, tool=tool, arguments=arguments)
    progress.actions = (action,)  # also where the next step fails
    progress.actions = _parts_of(action)
    progress.actions = actions = [_check(agent, part) for part in progress.actions]
    if any(action.effect in WORK for action in actions):
        progress.effects = set(map(effect_of, actions))
    return actions


def _parts_of(action: Action) -> Sequence[Action]:
    """The actions that a call stands for, with unchecked arguments. Raises: ToolError."""
    tool = action.tool
    if tool.parts is None:
        return (action,)
    parts = tool.parts(tool.check(action.arguments))
    return [replace(action, tool=part, arguments=arguments) for part, arguments in parts]


def _check(agent: Agent, action: Action) -> Action:
    """The action with checked arguments and the real path of a file tool's call. Raises:
    ToolError."""
    tool, arguments, path = action.tool, action.arguments, ""
    if tool.effect not in ("read", "edit"):
        return replace(action, arguments=tool.check(arguments))
    arguments = tool.check(_without_label(agent, arguments))
    if "path" in arguments:
        with contextlib.suppress(OSError, ValueError):  # impossible: left for the tool to refuse
            path = real_path(agent.place, arguments["path"] or "")
    return replace(action, arguments=arguments, path=path)


def _without_label(agent: Agent, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Strips `path:` from a path `path:a.py` if only `a.py` exists: small models copy the
    argument's name into its value."""
    path, place = arguments.get("path"), agent.place
    path = path if isinstance(path, str) else ""
    plain = path.removeprefix("path:").lstrip()
    if plain != path:
        with contextlib.suppress(ValueError):  # a NUL, which the tool refuses
            full = [located(place, str(place.cwd / paths.expand(name))) for name in (path, plain)]
            if plain and [*map(os.path.lexists, full)] == [False, True]:
                return {**arguments, "path": plain}
    return arguments


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
    raise ToolError(f"There is no tool `{name}`.{hint} The tools are: {', '.join(names)}.")


async def judge(run: Run, action: Action, progress: Progress) -> Command:
    """The action as interceptors want it, with what its tool gets: it may run. Raises: ToolRefused,
    and ToolError if the call cannot succeed."""
    agent, original = run.agent, action
    for intercept in agent.interceptors:
        match await intercept(action):
            case Action() as answer:
                action = _rewrite(agent, answer, original, action.advice)
                if action.change:
                    run.emit(Notice(text=mask(action.change, agent.secrets)))
            case Decision(outcome="deny") as answer:
                raise _refusal_error(answer, action)
            case Decision() as answer:
                action = replace(action, advice=_gravest(answer, action.advice))
    context = ToolContext(
        place=agent.place,
        call_id=action.call_id,
        session_id=run.context.session.id,
        emit=partial(_emit_masked, run),
        seen_files=agent.seen_files,
        path=action.path,
        earlier=partial(text_by_id, run.context.session.entries),
        background=agent.background,
        room=progress.share,
        keep_output=partial(setattr, progress, "output_so_far"),
    )
    decision = await agent.gate.judge(action, context)
    if not decision.is_allowed:
        raise _refusal_error(decision, action)
    return Command(agent=agent, action=action, context=replace(context, decision=decision))


def _emit_masked(run: Run, event: Event) -> None:
    """Masks the output that a tool emits while running, like its result."""
    if isinstance(event, OutputEvent):
        hide = partial(mask, values=run.agent.secrets)
        event = replace(event, text=hide(event.text), partial=hide(event.partial))
    run.emit(event)


def _refusal_error(decision: Decision, action: Action) -> ToolRefused:
    refusal = decision.refusal
    instead = f"{decision.consent.instead} {action.change}".strip()
    return ToolRefused(refusal.for_model, refusal=refusal, instead=instead)


def _gravity(advice: Decision) -> int:
    return 2 if advice.run_in == "read_only" else 1 if advice.outcome == "ask" else 0


def _gravest(now: Decision | None, before: Decision | None) -> Decision | None:
    """The advice that counts: nothing that allows outweighs what asks."""
    return max(filter(None, (now, before)), key=_gravity, default=None)


def _rewrite(agent: Agent, answer: Action, original: Action, before: Decision | None) -> Action:
    """An interceptor's action, checked, with the advice that still counts: what earlier ones
    allowed was about another. Raises: ToolError."""
    try:
        arguments = translate(answer.tool, answer.arguments)
        action = _check(agent, replace(answer, arguments=arguments))
    except ToolError as error:
        by = f"{answer.changed_by} made a call of this one that cannot run"
        raise ToolError(f"{by}: {error}") from error
    before = before if before is not None and _gravity(before) else None
    change = _describe_change(original, action)
    return replace(action, advice=_gravest(action.advice, before), change=change)


def _describe_change(original: Action, action: Action) -> str:
    """What somebody changed in a call, in a sentence; "" for nothing."""
    short = partial(shorten, max_chars=MAX_CHANGE_CHARS)
    old, new = original.arguments, action.arguments
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    parts = [f"`{name}` is now {short(json.dumps(new.get(name), default=str))}" for name in names]
    if original.subject != action.subject:
        parts = [f"`{short(action.subject)}` instead of `{short(original.subject)}`"]
    return f"{action.changed_by} changed this call: {', '.join(parts)}." if parts else ""


def preview_call(agent: Agent, call: ToolCall) -> tuple[ToolStarted, Action | None]:
    """A call for display: as its start would be announced, and what it does in the tool's terms, as
    far as its arguments tell, with credentials in use masked; None for a name that means no tool.
    Never raises."""
    masked, tool = mask(call.arguments, agent.secrets), called(agent.tools, call.name)
    if tool is None:
        return ToolStarted(call_id=call.id, name=call.name, subject=""), None
    arguments, subject = dict[str, Any](), ""
    with contextlib.suppress(ToolError):
        text = replace(call, arguments=masked)
        arguments = parse_arguments(text, free_text=bool(tool.grammar))
    action = Action(call_id=call.id, tool=tool, arguments=translate(tool, arguments))
    with contextlib.suppress(Exception):  # a tool expects valid arguments; these may not be
        action = _parts_of(action)[0]
        subject = action.subject
    return ToolStarted(call_id=call.id, name=action.tool.name, subject=subject), action

"""What the agent of a replay is made of: the settings and tools of the record, results that come
from it, and a session whose entries get the recorded ids."""

from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kode.plugin import (
    AnyEntry,
    Config,
    MessageEntry,
    ModelInfo,
    Session,
    Text,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolResult,
    ToolSpec,
    Verdict,
    models,
    results_of,
    section_of,
)
from kode.plugin import builtin_tools as BUILTIN
from kode.plugins.replay.played import Played
from kode.plugins.replay.recording import PastTurn, Recording

MANY_STEPS = 1_000_000
"""The record determines when a turn ends."""


@dataclass(kw_only=True)
class RecordedResults:
    """Answers calls from the record. None of them runs."""

    played: Played
    results: Mapping[str, ToolResult]
    """Call id → its result."""
    answered: set[str] = field(default_factory=set)
    """The calls that were answered; the engine itself made the results of all others."""

    async def allow(
        self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext
    ) -> Verdict:
        """An `Interceptor`. Raises: CancelledError where the turn was interrupted before the
        call."""
        then = self.results.get(context.call_id)
        if then is not None and then.cut == "not_run":
            raise self.played.interruption()
        return Verdict(allowed=True, reason="The result is from the record.", reads=())

    async def answer(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolContext,
        run: Callable[[], Awaitable[ToolOutput]],
    ) -> ToolOutput:
        """An `Around`; `ReplayedSession` has the whole result. Raises: CancelledError where the
        turn was interrupted in the call; ToolError if the record has no result."""
        then = self.results.get(context.call_id)
        if then is None:
            raise ToolError("The record has no result of this call.")
        if then.cut == "interrupted":
            raise self.played.interruption()
        self.answered.add(context.call_id)
        return ToolOutput(text=then.text)


@dataclass
class ReplayedSession(Session):
    """A session whose entries get the recorded ids, so that references to them still work, and the
    recorded results of the calls that were answered from the record."""

    then: dict[str, deque[AnyEntry]] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)

    def append(self, *entries: AnyEntry) -> None:
        """See `Session.append`."""
        super().append(*map(self._as_recorded, entries))

    def _as_recorded(self, entry: AnyEntry) -> AnyEntry:
        waiting = self.then.get(_kind(entry))
        if not waiting:
            return entry
        then = waiting.popleft()
        results = results_of(entry) if isinstance(entry, MessageEntry) else ()
        return (
            then
            if any(one.call_id in self.answered for one in results)
            else replace(entry, id=then.id)
        )


def replay_session(
    session: Session, entries: Sequence[AnyEntry], answered: set[str]
) -> ReplayedSession:
    """A new session that takes ids and results from these entries."""
    then: dict[str, deque[AnyEntry]] = defaultdict(deque)
    for entry in entries:
        then[_kind(entry)].append(entry)
    return ReplayedSession(**vars(session), then=dict(then), answered=answered)


def _kind(entry: AnyEntry) -> str:
    """A key that corresponding entries share; results come in any order."""
    if not isinstance(entry, MessageEntry):
        return entry.type
    called = results_of(entry)
    return f"result {called[0].call_id}" if called else f"message {entry.role}"


def tools_of(recording: Recording, turn: PastTurn) -> Sequence[Tool]:
    """The tools of this kode, and those that only the record knows, in the recorded order."""
    own = {tool.name: tool for tool in BUILTIN}
    begun = recording.beginning(turn) if recording.begins_process(turn) else None
    specs = [ToolSpec(**tool) for tool in begun.tools] if begun is not None else []
    return [own.get(spec.name) or _recorded_tool(spec) for spec in specs] or BUILTIN


def _recorded_tool(spec: ToolSpec) -> Tool:
    """A tool that only the record knows: of a server, of memory, a skill, subagents."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolOutput | str:
        raise ToolError(f"{spec.name} does not run in a replay.")

    return Tool(
        name=spec.name,
        description=spec.description,
        effect="mcp",
        subject="",
        parallel=False,
        parameters=lambda: spec.parameters,
        check=lambda arguments: arguments,
        run=run,
    )


def skills_of(prompt: AnyEntry) -> str:
    """The list of skills that was sent with a message; "" if none was."""
    assert isinstance(prompt, MessageEntry)
    texts = (part for part in prompt.parts if isinstance(part, Text))
    return next((part.text for part in texts if section_of(part) == "skills"), "")


def settings_of(config: Config, recording: Recording) -> Config:
    """The person's settings, overridden by the record."""
    begun = recording.beginning()
    modes = [turn.end.permission_mode for turn in recording.turns if turn.end is not None]
    mode = next((mode for mode in modes if mode), config.permissions.mode)
    return config.model_copy(
        update={
            "max_steps": MANY_STEPS,
            "timeout_s": None,
            "max_budget_usd": None,
            "append_system": begun.texts.get("appended", "") if begun is not None else "",
            "add_dirs": (),
            "permissions": config.permissions.model_copy(update={"mode": mode}),
            "provider": "scripted",
        }
    )


def info_now(config: Config, recording: Recording) -> ModelInfo:
    """The recorded model's figures, with the person's overrides."""
    model, window = recording.header.model, config.context.window
    return models.info_of(model, {} if window is None else {model: {"context_window": window}})

"""Keeps a replay to its record, and away from everything but its copy: the gate, the tools and the
memory of its agent, and a session whose entries get the recorded ids.

A call runs for real if it can only touch the copy. Otherwise its recorded result is used: for
memory, the network, servers, subagents, files elsewhere, and commands without a sandbox.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kode.plugin import Answer, BareSession, Question, Session
from kode.plugin.contracts import Tool, ToolContext, ToolOutput, ToolSpec, Verdict
from kode.plugin.entries import AnyEntry, HookEntry, MessageEntry
from kode.plugin.errors import ToolError
from kode.plugin.messages import ToolResult, results_of
from kode.plugins.replay.played import Played
from kode.plugins.replay.scratch import Scratch

ONLY_THE_COPY = (
    "This is a replay: only files of the copy can be read and changed. Work inside the project, or "
    "say in your answer what is needed."
)
NOT_IN_A_REPLAY = "{name} is not there in a replay. Continue without it."
DELEGATE = "delegate_tasks"
"""The tool whose calls change files by others than the turn itself: its subagents."""
IN_THE_COPY = ("edit", "run", "keep")
"""Prefixes of question kinds that only concern the copy."""


@dataclass(kw_only=True)
class Answers:
    """Decides for each call whether it runs, and has the recorded results."""

    played: Played
    scratch: Scratch
    bare: BareSession
    """Its sandbox takes commands that ran without one, too."""
    network: bool
    """Whether calls may go to the network."""
    results: Mapping[str, ToolResult] = field(init=False)
    denied_by_hooks: frozenset[str] = field(init=False)
    has_refusals: bool = field(init=False)
    """Without them, nobody knows which errors a person's no made."""
    call_id: str = ""
    """The call that a question is about."""
    edited: set[str] = field(default_factory=set)
    """The recorded paths that calls of the current turn have edited."""
    unread: set[str] = field(default_factory=set)
    """Calls that would read what only a person may allow: the record may be a stranger's, and so
    may its approval."""

    def __post_init__(self) -> None:
        self.results = self.played.recording.results()
        self.has_refusals = self.played.recording.has_refusals
        self.denied_by_hooks = _denied_by_hooks(self.played.recording.entries)

    def result_of(self, call_id: str) -> ToolResult | None:
        """The recorded result of a call of the recorded model; None for a live model, whose ids may
        collide."""
        steps = self.played.steps
        return None if steps and steps[-1].live else self.results.get(call_id)

    def recorded(self, tool: Tool, context: ToolContext) -> ToolResult | None:
        """The recorded result of a call that does not run; None for one that runs."""
        then = self.result_of(context.call_id)
        if then is None:
            return None
        apart = (
            context.call_id in self.unread
            or tool.effect in ("mcp", "memory", "memory-read", "delegate")
            or (tool.effect == "fetch" and not self.network)
            or (tool.effect == "edit" and not self.scratch.holds(context.judged_path))
            or (tool.effect == "run" and self.bare.sandbox is None)
            or context.call_id in self.denied_by_hooks
            or then.cut == "unknown"
            or (then.is_error and not self.has_refusals)
        )
        return then if apart else None

    def may_run_live(self, tool: Tool) -> bool:
        """Whether a call that the record does not know may run."""
        reach = {"read": True, "edit": True, "none": True, "fetch": self.network}
        return reach.get(tool.effect, tool.effect == "run" and self.bare.sandbox is not None)

    def tool(self, tool: Tool) -> Tool:
        """The tool as it is in a replay."""

        async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolOutput | str:
            return await self._run(tool, context, arguments)

        return replace(tool, run=run)

    async def _run(
        self, tool: Tool, context: ToolContext, arguments: Mapping[str, Any]
    ) -> ToolOutput | str:
        then = self.result_of(context.call_id)
        if then is not None and then.cut == "interrupted":
            raise self.played.interruption()
        if (recorded := self.recorded(tool, context)) is not None:
            return self._answer(tool, recorded)
        if tool.effect == "edit":
            inside = str(context.judged_path).removeprefix(str(self.scratch.project))
            self.edited.add(self.scratch.recording.project + inside)
        if tool.effect == "run" and context.wrap_command is None:
            return await self._run_confined(tool, context, arguments)
        return await tool.run(context, arguments)

    def _answer(self, tool: Tool, result: ToolResult) -> ToolOutput:
        step = self.played.steps[-1]
        step.answered.append(tool.name)
        if tool.effect == "delegate" and self.played.turn is not None:
            for file in self.scratch.recording.after(self.played.turn.changes):
                if file[0] not in self.edited:
                    self.scratch.set(*file)
        if result.is_error:
            raise ToolError(result.text)
        return ToolOutput(text=result.text)

    async def _run_confined(
        self, tool: Tool, context: ToolContext, arguments: Mapping[str, Any]
    ) -> ToolOutput | str:
        """Runs a command that was allowed outside the sandbox; keeps all its changes to the
        copy."""
        if self.bare.sandbox is None:
            raise ToolError(NOT_IN_A_REPLAY.format(name=tool.name))
        attempt = await asyncio.to_thread(self.bare.sandbox.begin)
        try:
            output = await tool.run(replace(context, wrap_command=attempt.wrap), arguments)
            changes = await asyncio.to_thread(attempt.changes)
            await asyncio.to_thread(attempt.apply, changes)
        finally:
            await asyncio.to_thread(attempt.close)
        return output

    async def intercept(
        self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext
    ) -> Verdict | None:
        """Judges a call as it was in the session; what it leaves to the gate, the gate decides with
        the recorded answers to its questions. Raises: ToolError as the gate does; CancelledError
        where the turn was interrupted."""
        then = self.result_of(context.call_id)
        if then is not None and then.cut == "not_run":
            raise self.played.interruption()
        if self.recorded(tool, context) is not None:
            return Verdict(allowed=True, reason="The result is from the record.")
        if tool.effect == "edit" and not self.scratch.holds(context.judged_path):
            return Verdict(allowed=False, reason=ONLY_THE_COPY)
        if then is None and not self.may_run_live(tool):
            return Verdict(allowed=False, reason=NOT_IN_A_REPLAY.format(name=tool.name))
        unattended = then is not None and any(refusal.by == "nobody" for refusal in then.refusals)
        self.call_id = context.call_id
        self.bare.gate.state.attended = tool.effect != "read" and not unattended
        if tool.effect != "read":
            return None
        # Whatever mode and answers the record has, only the copy is read, except what a person
        # would be asked about now.
        verdict = await self.bare.gate.check(tool, arguments, context)
        if context.judged_path and not self.scratch.owns(context.judged_path):
            verdict = Verdict(allowed=False, reason=ONLY_THE_COPY)
        if verdict.allowed or then is None:
            return verdict
        self.unread.add(context.call_id)
        return Verdict(allowed=True, reason="The result is from the record.")

    async def answer(self, question: Question) -> Answer:
        """The person's recorded answer, as far as the call's result shows it."""
        then = self.result_of(self.call_id)
        if then is None:
            # A live model's edits and commands stay in the copy.
            return Answer(choice="once" if question.kind.startswith(IN_THE_COPY) else "no")
        by_person = [r.message for r in then.refusals if r.by == "person" and r.of == question.of]
        return Answer(choice="no", message=by_person[0]) if by_person else Answer(choice="once")


def _denied_by_hooks(entries: Sequence[AnyEntry]) -> frozenset[str]:
    """The calls that hooks changed, or whose results follow a hook's refusal: hooks do not run in a
    replay."""
    found, denied = set(), False
    for entry in entries:
        if isinstance(entry, HookEntry):
            denied = denied or entry.outcome == "deny"
            found |= {entry.call_id} if entry.updated_input else set()
        elif isinstance(entry, MessageEntry):
            found |= {result.call_id for result in results_of(entry)} if denied else set()
            denied = False
    return frozenset(found)


@dataclass
class ReplayedSession(Session):
    """A session whose entries get the recorded ids, so that references to them still work."""

    ids_then: dict[str, deque[str]] = field(default_factory=dict)

    def append(self, *entries: AnyEntry) -> None:
        """See `Session.append`."""
        super().append(*(self._with_id_then(entry) for entry in entries))

    def _with_id_then(self, entry: AnyEntry) -> AnyEntry:
        waiting = self.ids_then.get(_kind(entry))
        return replace(entry, id=waiting.popleft()) if waiting else entry


def replay_session(session: Session, entries: Sequence[AnyEntry]) -> ReplayedSession:
    """A new session that takes its ids from these entries."""
    ids: dict[str, deque[str]] = defaultdict(deque)
    for entry in entries:
        ids[_kind(entry)].append(entry.id)
    return ReplayedSession(**vars(session), ids_then=dict(ids))


def _kind(entry: AnyEntry) -> str:
    """A key that corresponding entries share; results come in any order."""
    if not isinstance(entry, MessageEntry):
        return entry.type
    called = results_of(entry)
    return f"result {called[0].call_id}" if called else f"message {entry.role}"


def tool_of(spec: ToolSpec) -> Tool:
    """A tool that only the record knows: of a server, of memory, a skill, subagents."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolOutput | str:
        raise ToolError(NOT_IN_A_REPLAY.format(name=spec.name))

    return Tool(
        name=spec.name,
        description=spec.description,
        effect="delegate" if spec.name == DELEGATE else "mcp",
        subject="",
        parallel=False,
        parameters=lambda: spec.parameters,
        check=lambda arguments: arguments,
        run=run,
    )

"""Runs hooks at their events and applies their answers: around calls, at questions, at the start
and end of turns and sessions. Each run is recorded in the session.

The caller supplies how a hook runs in the sandbox; `hook_protocol` builds its input and
reads its answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kode.credentials import mask
from kode.errors import StorageError, ToolError, ToolRefused
from kode.events import Notice
from kode.extensions.hook_protocol import (
    MODES,
    HookAnswer,
    answer_of,
    call_fields,
    describe_lost,
    join_answers,
    line_of,
    names_of,
    output_fields,
    updated_call,
)
from kode.extensions.hooks import Event, Hook
from kode.permissions.question import Answer, Ask, Question
from kode.session.entries import HookEntry
from kode.tool import Action, CallDecision, Decision, ToolOutput
from kode.tools.processes import ProgramRun

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation

RunHook = Callable[["Hooks", Hook, bytes], Awaitable[ProgramRun]]
"""`await run(hooks, hook, stdin)` runs a hook. Raises: StorageError."""

CHANGED = (
    "has changed since you approved it, or what it loads has, so it is off until you approve it "
    "again (`kode extensions approve`); if its settings or program changed, start kode again then"
)


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """The hooks of one session."""

    conversation: "Conversation"
    hooks: tuple[Hook, ...]
    """Those that count."""
    run: RunHook
    review: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a person may be asked about a hook that has changed."""
    _shown: set[tuple[str, str]] = field(default_factory=set)
    """Name of a hook, and the kind of remark that the person has seen about it."""
    _done: list[Hook] = field(default_factory=list)
    """Hooks that run no more in this session."""
    _context: dict[str, str] = field(default_factory=dict)
    """Call id → what hooks before the call say to the model."""
    _beside: set["asyncio.Task[None]"] = field(default_factory=set)

    def common(self) -> dict[str, str]:
        """Fields in every hook's input: the session, its file, the mode."""
        session = self.conversation.session
        return {
            "session_id": session.id or "",
            "transcript_path": str(session.path or ""),
            "cwd": str(self.conversation.place.cwd),
            "permission_mode": MODES[self.conversation.gate.mode],
        }

    def note(self, text: str) -> None:
        """Tells the model what a hook says, with the next message."""
        if text:
            try:
                self.conversation.note(f"[hook] {text}")
            except StorageError as error:
                self.conversation.report(error)

    async def at(
        self, event: Event, fields: Mapping[str, Any], names: Sequence[str] = ()
    ) -> HookAnswer:
        """Runs the hooks of an event whose matcher fits these names, one after the other, up to the
        first that refuses. What one makes of a call's input is the input for the next, and those
        before it look once more. Raises: StorageError if a run cannot be recorded."""
        hooks = [
            hook
            for hook in self.hooks
            if hook.event == event and hook not in self._done
            if hook.matches(names) and hook.applies(names, fields)
        ]
        for hook in hooks:
            if hook.is_async:
                self._start(self._run_aside(hook, event, dict(fields)))
        hooks = [hook for hook in hooks if not hook.is_async]
        original, answers, changed_at = fields.get("tool_input"), dict[int, HookAnswer](), 0
        fields = dict(fields)
        for number, hook in enumerate(hooks):
            answers[number] = answer = await self._run(hook, event, fields)
            if answer.outcome == "deny":
                break
            if answer.updated is not None:
                fields["tool_input"], changed_at = answer.updated, number
        else:
            for number, hook in enumerate(hooks[:changed_at]):
                again = await self._run(hook, event, fields)
                if again.updated is not None:
                    again = _refuse(
                        again,
                        hook,
                        "another hook changed the call after it, and of what came out it wants "
                        "something else again. List them in the other order",
                    )
                answers[number] = again
        answer = join_answers(answers.values())
        if answer.outcome != "deny" and fields.get("tool_input") != original:
            by = ", ".join(hooks[n].item.name for n, it in answers.items() if it.updated)
            answer = replace(answer, updated=fields["tool_input"], by=by)
        self._tell(event, answer)
        return answer

    @property
    def judge_calls(self) -> bool:
        """Whether there are hooks that may allow or refuse a call."""
        return any(hook.event == "PreToolUse" and not hook.is_async for hook in self.hooks)

    async def before_call(self, action: Action) -> CallDecision | None:
        """See `tool.Interceptor`."""
        if not self._has("PreToolUse"):
            return None
        name, fields, names = self._about(action)
        answer = await self.at("PreToolUse", fields, names)
        if answer.context:
            self._context[action.call_id] = answer.context
        advice: Decision | None = None
        match answer.outcome:
            case "deny" | "allow" | "ask" as outcome:
                advice = Decision(outcome=outcome, reason=answer.reason, by="hook")
        if answer.updated is None or answer.outcome == "deny":
            return advice
        arguments = updated_call(name, fields["tool_input"], answer.updated)
        by = f"The hook {answer.by}"
        return replace(action, arguments=arguments, changed_by=by, advice=advice)

    def _about(self, action: Action) -> tuple[str, dict[str, Any], Sequence[str]]:
        """The name of an action's tool, and what hooks get and are chosen by."""
        name = action.tool.name
        fields = call_fields(name, action.arguments, self.conversation.place.cwd)
        fields["tool_use_id"] = action.call_id
        return name, fields, names_of(name, action.arguments)

    async def around(self, action: Action, run: Callable[[], Awaitable[ToolOutput]]) -> ToolOutput:
        """See `tool.Around`: adds what hooks say after a call to its result. Raises: as `run`;
        StorageError."""
        before = self._context.pop(action.call_id, "")
        if not before and not self._has("PostToolUse", "PostToolUseFailure"):
            return await run()
        _, given, names = self._about(action)
        try:
            output = await run()
        except (ToolRefused, StorageError):
            raise
        except ToolError as error:
            fault = {"error": self._mask(str(error)), "is_interrupt": False}
            answer = await self.at("PostToolUseFailure", {**given, **fault}, names)
            message = "\n".join((str(error), *_notes(before, answer)))
            raise ToolError(message, untrusted=error.untrusted) from error
        text = self._mask(output.text)
        if output.exit_status:
            fault = {"error": self._mask(output.for_model), "is_interrupt": False}
            answer = await self.at("PostToolUseFailure", {**given, **fault}, names)
        else:
            given |= output_fields(action.tool, output, text)
            answer = await self.at("PostToolUse", given, names)
        return replace(output, notes=(*output.notes, *_notes(before, answer)))

    def asking(self, ask: Ask) -> Ask:
        """An `Ask` whose questions hooks may answer; their yes counts only if a saved rule could
        have allowed it."""

        async def hooked(question: Question) -> Answer:
            if not self._has("PermissionRequest", "Notification"):
                return await ask(question)
            fields = call_fields(question.tool, question.arguments, self.conversation.place.cwd)
            names = names_of(question.tool, question.arguments)
            answer = await self.at("PermissionRequest", fields, names)
            if answer.outcome == "deny":
                return Answer(choice="no", message=answer.reason)
            if answer.outcome == "allow" and question.may_always:
                return Answer(choice="once")
            if self._has("Notification"):
                self._start(self._notify(question.title))
            return await ask(question)

        return hooked

    async def before_compaction(self, by_person: bool, wish: str) -> str:
        """The wish for a compaction's note, with hooks' additions. They cannot prevent it."""
        trigger = "manual" if by_person else "auto"
        fields = {"trigger": trigger, "custom_instructions": wish}
        answer = await self.at("PreCompact", fields, (trigger,))
        return "\n".join(filter(None, (wish, answer.context)))

    async def stop(self, wait_s: float) -> None:
        """Ends background hooks, those that take longer than this."""
        if self._beside:
            await asyncio.wait(self._beside, timeout=wait_s)
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)

    def show_status(self, fields: Mapping[str, Any]) -> None:
        """Has the person's own program make the line below the prompt, in the background."""

        async def make() -> None:
            line = (await self.at("StatusLine", fields)).context.partition("\n")[0]
            self.conversation.status_line = line

        if self._has("StatusLine"):
            self._start(make())

    async def _notify(self, message: str) -> None:
        kind = "permission_prompt"
        await self.at("Notification", {"message": message, "notification_type": kind}, (kind,))

    async def _run_aside(self, hook: Hook, event: Event, fields: Mapping[str, Any]) -> None:
        """Runs a hook that decides nothing: what it says goes with the next message."""
        answer = await self._run(hook, event, fields)
        self._tell(event, answer)
        self.note(answer.context)

    def _tell(self, event: Event, answer: HookAnswer) -> None:
        if answer.message and event != "StatusLine":
            self.conversation.settings.emit(Notice(text=answer.message))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs hooks in the background: nobody waits for them."""
        task = asyncio.ensure_future(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def _has(self, *events: Event) -> bool:
        return any(hook.event in events for hook in self.hooks)

    async def _run(self, hook: Hook, event: Event, fields: Mapping[str, Any]) -> HookAnswer:
        line = line_of(event, self.common(), fields).decode("utf-8", "replace")
        stdin = self._mask(line).encode("utf-8", "replace")
        ran = await self.run(self, hook, stdin)
        answer = answer_of(hook, ran)
        if hook.once and ran.exit_code == 0:
            self._done.append(hook)
        for kind, text in (("allows", answer.remark), ("lost", describe_lost(hook, ran))):
            if text and (hook.item.name, kind) not in self._shown:
                self._shown.add((hook.item.name, kind))
                self.conversation.settings.emit(Notice(text=self._mask(text)))
        answer = replace(answer, variables=ran.variables, variables_inside=ran.variables_inside)
        if answer.updated == fields.get("tool_input"):
            answer = replace(answer, updated=None)
        if ran.notes:
            answer = replace(answer, context="\n".join((*ran.notes, answer.context)).strip())
        if event == "StatusLine":  # runs after each turn, and does nothing
            return answer
        self.conversation.session.append(
            HookEntry(
                event=event,
                name=hook.item.name,
                origin=str(hook.item.origin),
                exit_code=ran.exit_code,
                outcome=answer.outcome,
                detail=answer.reason or answer.message,
                call_id=str(fields.get("tool_use_id", "")),
                updated_input=answer.updated,
                duration_ms=ran.duration_ms,
            )
        )
        if answer.updated is None or event == "PreToolUse":
            return answer
        # Too late: unchanged, the call would do what the hook meant to prevent.
        return _refuse(answer, hook, "only PreToolUse hooks can change a call")

    def _mask(self, text: str) -> str:
        return mask(text, self.conversation.agent.secrets)


def _refuse(answer: HookAnswer, hook: Hook, why: str) -> HookAnswer:
    reason = f"The hook {hook.item.name} refused it: {why}"
    return replace(answer, outcome="deny", reason=reason, updated=None)


def _notes(before: str, answer: HookAnswer) -> tuple[str, ...]:
    """What hooks say about a call, to put after its result."""
    refused = answer.reason if answer.outcome == "deny" else ""
    notes = [text for text in (before, refused, answer.context) if text]
    return tuple(f"\n[hook] {text}" for text in notes)

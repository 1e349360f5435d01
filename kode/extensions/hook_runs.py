"""Runs hooks at their events, and applies their answers. Each run is recorded in the session. The
caller supplies the function that runs a hook in the sandbox.

A hook gets one JSON object on stdin, in the terms of the agent it was written for. Its answer is
the exit status and the output:

    exit 0  its output may be a JSON object; else, at the start of a session or turn, it is context
    exit 2  it blocks; stderr gives the reason
    other   it failed: what it watches still happens, unless it is a guard. A PreToolUse hook counts
            as a guard if it could not be started (no sandbox).
"""

import asyncio
import json
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kode import paths
from kode.broken_json import object_of
from kode.credentials import mask
from kode.errors import Setting, StorageError, ToolError, ToolRefused
from kode.events import Notice
from kode.extensions.hooks import Hook
from kode.extensions.trust import FOREIGN
from kode.messages import cut_list
from kode.permissions.names import MODE_CALLED, TOOLS
from kode.permissions.question import Answer, Ask, Question
from kode.session.entries import HookEntry
from kode.tool import Action, CallDecision, Decision, Tool, ToolOutput
from kode.tools.processes import ProgramRun
from kode.values import Value, field, replace

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation

MAX_TEXT_CHARS = 100_000
"""Limit of a tool's output that hooks get."""

_MODES = {mode: name for name, mode in MODE_CALLED.items()}  # the last name of each is Claude's
_INPUT_NAMES = {"path": "file_path", "old_text": "old_string", "new_text": "new_string"}
"""kode's name for an argument of a tool for one file → the name that hooks get."""

TOPICS = ("tool_name", "source", "trigger", "notification_type", "reason", "agent_type")
"""The input fields that matchers are compared with; an event's input has at most one of them."""


def make_line(event: str, common: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
    """The line that a hook gets on stdin."""
    return json.dumps({**common, "hook_event_name": event, **fields}, ensure_ascii=False) + "\n"


def sample_line(event: str, matcher: str, common: Mapping[str, Any], cwd: Path) -> str:
    """Makes a line to try a hook with: a harmless call of the first tool that a matcher names."""
    tool = next(iter(re.findall(r"\w+", matcher)), "Bash")
    missing = str(cwd / "kode-sample")
    arguments = {"command": "true", "file_path": missing, "path": missing, "content": ""}
    fields = {"tool_name": tool, "tool_input": arguments, "tool_use_id": "sample"}
    return make_line(event, common, fields)


def names_of(tool: str) -> tuple[str, ...]:
    """All names by which a matcher may refer to a tool, given any one of them. Hooks get the first
    name, which is Claude Code's."""
    kode_name = TOOLS.get(tool, tool)
    return (*(other for other, name in TOOLS.items() if name == kode_name), kode_name)


def call_fields(tool: str, arguments: Mapping[str, Any], cwd: Path) -> dict[str, Any]:
    """Returns `tool_name` and `tool_input` of a call, in Claude Code's terms. Tools and arguments
    that it does not have keep kode's names."""
    from pydantic_core import to_jsonable_python  # arguments are checked by then

    plain = to_jsonable_python(dict(arguments), exclude_none=True)
    fields = {key: value for key, value in plain.items() if value is not None}
    if "path" in fields and tool in TOOLS.values():
        fields["path"] = os.path.normpath(cwd / paths.expand_path(str(fields["path"])))
    if tool == "shell":
        if timeout_s := fields.pop("timeout_s", 0):
            fields["timeout"] = int(timeout_s * 1000)
        if fields.pop("background", False):
            fields["run_in_background"] = True
    elif tool in ("read_file", "write_file", "edit_file"):
        edits = fields.pop("edits", [])
        for hunk in fields.pop("hunks", ()):
            edits += [{f"{key}_text": "\n".join(hunk[key]) for key in ("old", "new")}]
        fields = _rename_fields(fields | (edits.pop() if len(edits) == 1 else {}))
        if edits:
            fields["edits"] = [_rename_fields(edit) for edit in edits]
    return {"tool_name": names_of(tool)[0], "tool_input": fields}


def _rename_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    named = {_INPUT_NAMES.get(key, key): value for key, value in fields.items()}
    return {"replace_all": False, **named} if "old_string" in named else named


def output_fields(tool: Tool, output: ToolOutput, text: str) -> dict[str, Any]:
    """Returns the `tool_response` of a finished call."""
    text = text[:MAX_TEXT_CHARS]
    if tool.effect == "run":
        return {"tool_response": {"stdout": text, "stderr": "", "exit_code": output.exit_status}}
    files = output.files_changed or output.files_read
    response = {"success": True, "text": text, **({"filePath": files[0]} if files else {})}
    return {"tool_response": response}


Outcome = Literal["", "allow", "ask", "deny"]
_WEIGHT: tuple[Outcome, ...] = ("", "allow", "ask", "deny")
_BLOCKS = 2  # the exit status that blocks in Claude Code too
PRINTS_CONTEXT = ("SessionStart", "UserPromptSubmit", "PreCompact")
"""Events whose hooks may print plain text for the model."""
MAX_REASON_CHARS = 4_000  # a thousand tokens
MAX_NAMED = 5
"""How many effects of one hook are named; the rest are only counted."""
MAX_CONTEXT_CHARS = 10_000  # 2,500 tokens


class HookAnswer(Value):
    outcome: Outcome = ""
    reason: str = ""
    """Why, for the model or the person."""
    context: str = ""
    """For the model."""
    message: str = ""
    """For the person."""
    stops: bool = False
    """Whether it wants the agent to stop (`"continue": false`)."""
    updated: Mapping[str, Any] | None = None
    """The input that the hook wants the call to have instead, in the hook's terms."""
    by: str = ""
    """The name of the hook that changed it."""
    remark: str = ""
    """What the hook does in vain, told to the person once in a session."""


def parse_answer(hook: Hook, ran: ProgramRun) -> HookAnswer:
    """The answer of a hook that has run. Never raises."""
    name, blocked = hook.item.name, ", ".join(hit.words for hit in ran.blocked)
    hit = f"; in the sandbox it {blocked}" if blocked else ""
    if ran.exit_code == _BLOCKS:
        text = (ran.stderr.strip() or ran.stdout.strip())[:MAX_REASON_CHARS] or "no"
        return HookAnswer(outcome="deny", reason=f"The hook {name} refused it: {text}{hit}")
    fault = _describe_failure(ran)
    value = object_of(ran.stdout)
    if not fault and value is None and ran.stdout.lstrip().startswith("{"):
        fault = "printed invalid JSON"
    if fault:
        setting = Setting(f"hooks.{hook.event}", str(hook.item.origin))
        message = f"The hook {name} of {setting} {fault}{hit}."
        # Keeping a hook that judges calls from starting must not circumvent it.
        if hook.guard or (hook.event == "PreToolUse" and not ran.begun):
            reason = f"{message} It is a guard: the action is blocked."
            return HookAnswer(outcome="deny", reason=reason)
        return HookAnswer(message=message)
    if value is not None:
        answer = _read_answer_object(name, value)
        if answer.outcome == "allow" and hook.item.scope in FOREIGN:
            # Its answer may come from any file of the repository, which the model may edit.
            remark = f"The hook {name} allows calls, which a repository's cannot: use your config."
            return replace(answer, outcome="", reason="", remark=remark)
        return answer
    printed = ran.stdout.strip() if hook.event in PRINTS_CONTEXT else ""
    return HookAnswer(context=printed[:MAX_CONTEXT_CHARS])


def join_answers(answers: Iterable[HookAnswer]) -> HookAnswer:
    """Merges answers: deny beats ask beats allow; all context counts."""
    answers = [*answers] or [HookAnswer()]
    outcome: Outcome = max((answer.outcome for answer in answers), key=_WEIGHT.index)
    reasons = (answer.reason for answer in answers if answer.outcome == outcome)
    return HookAnswer(
        outcome=outcome,
        reason="\n".join(filter(None, reasons)),
        context="\n\n".join(answer.context for answer in answers if answer.context),
        message="\n".join(answer.message for answer in answers if answer.message),
        stops=any(answer.stops for answer in answers),
        updated=answers[0].updated,
        by=answers[0].by,
    )


def describe_lost(hook: Hook, ran: ProgramRun) -> str:
    """Sentences about what the sandbox kept a hook from doing, and what would allow it; "" if
    nothing was lost."""
    files = ", ".join(Path(path).name for path in ran.dropped)
    did = [*(hit.words for hit in ran.blocked), *([f"changed {files}"] if files else [])]
    if not did:
        return ""
    return (
        f"The hook {hook.item.name} {', '.join(cut_list(did, MAX_NAMED))}: in the sandbox that "
        f"has no effect. `kode extensions approve {shlex.quote(hook.item.name)} --outside` lets "
        "it, from the next session on."
    )


def _describe_failure(ran: ProgramRun) -> str:
    if ran.fault or ran.exit_code == 0:
        return ran.fault
    words = ran.stderr.strip().rpartition("\n")[2][:200]
    missing = ": its program was not found" if ran.exit_code == 127 else ""
    return f"failed with exit status {ran.exit_code}{missing}{f' ({words})' if words else ''}"


def _read_answer_object(name: str, value: dict[str, Any]) -> HookAnswer:
    specific = _object_or_empty(value.get("hookSpecificOutput"))
    asked = _object_or_empty(specific.get("decision"))
    decision = specific.get("permissionDecision") or asked.get("behavior") or value.get("decision")
    updated = specific.get("updatedInput", asked.get("updatedInput"))
    words = {"approve": "allow", "block": "deny", "allow": "allow", "deny": "deny", "ask": "ask"}
    outcome: Any = words.get(decision, "") if isinstance(decision, str) else ""
    reason = _text(specific.get("permissionDecisionReason")) or _text(value.get("reason"))
    stops = value.get("continue") is False
    if updated is not None and not isinstance(updated, dict) and outcome != "deny":
        # Without the change, the call would do what the hook meant to prevent.
        outcome, reason = "deny", "its updatedInput is no object"
    if stops:
        outcome, reason = "deny", _text(value.get("stopReason")) or reason
    verb = {"deny": "refused it", "ask": "wants you to decide", "allow": "allowed it"}.get(outcome)
    return HookAnswer(
        outcome=outcome,
        reason=f"The hook {name} {verb}: {reason or 'no reason given'}" if verb else "",
        context=_text(specific.get("additionalContext"))[:MAX_CONTEXT_CHARS],
        message=_text(value.get("systemMessage")),
        stops=stops,
        updated=updated if isinstance(updated, dict) and outcome != "deny" else None,
        by=name,
    )


def _object_or_empty(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value.strip()[:MAX_REASON_CHARS] if isinstance(value, str) else ""


CHANGED = (
    "has changed since you approved it, or what it loads has: it is off until `kode extensions "
    "approve`; if its settings or program changed, start kode again then"
)


class Hooks(Value):
    """The hooks of one session."""

    conversation: "Conversation"
    hooks: tuple[Hook, ...]
    """The trusted hooks, in the order in which they run."""
    run: Callable[["Hooks", Hook, str], Awaitable[ProgramRun]]
    """`await run(hooks, hook, stdin)` runs a hook. Raises: StorageError."""
    _shown: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of a hook's name and the kind of remark that the person has seen about it."""
    _context: dict[str, str] = field(default_factory=dict)
    """Call id → what PreToolUse hooks tell the model about the call."""
    _beside: set["asyncio.Task[Any]"] = field(default_factory=set)

    def common(self) -> dict[str, str]:
        """The fields in every hook's input: the session, its file, the folder, the mode."""
        session = self.conversation.session
        return {
            "session_id": session.id or "",
            "transcript_path": str(session.path or ""),
            "cwd": str(self.conversation.place.cwd),
            "permission_mode": _MODES[self.conversation.gate.state.mode],
        }

    def tell_model(self, text: str) -> None:
        """Tells the model what a hook says, with the next message; an empty text is ignored."""
        if text:
            try:
                self.conversation.note(f"[hook] {text}")
            except StorageError as error:
                self.conversation.report(error)

    async def at(
        self, event: str, fields: Mapping[str, Any], names: Sequence[str] = ()
    ) -> HookAnswer:
        """Runs the hooks of an event whose matcher fits one of these names, one after the other, up
        to the first that denies. Only the first hook may change a call's input; the others get the
        new one. Raises: StorageError if a run cannot be recorded."""
        hooks = [hook for hook in self.hooks if hook.event == event and hook.matches(names)]
        answers: list[HookAnswer] = []
        for hook in hooks:
            answer = await self._run_hook(hook, event, fields)
            if answer.updated is not None:
                if answers:  # the others have judged another call
                    answer = _refuse(answer, hook, "only the first hook of a call can change it")
                fields = {**fields, "tool_input": answer.updated}
            answers.append(answer)
            if answer.outcome == "deny":
                break
        joined = join_answers(answers)
        if joined.message:
            self.conversation.settings.emit(Notice(text=joined.message))
        return joined

    async def before_call(self, action: Action) -> CallDecision | None:
        """See `tool.Interceptor`."""
        if not self.has_hooks("PreToolUse"):
            return None
        fields, names = self._about(action)
        answer = await self.at("PreToolUse", fields, names)
        if answer.context:
            self._context[action.call_id] = answer.context
        advice = None
        if answer.outcome != "":
            advice = Decision(outcome=answer.outcome, reason=answer.reason, by="hook")
        if answer.updated is None or answer.outcome == "deny":
            return advice
        by = f"The hook {answer.by}"
        return replace(action, arguments=answer.updated, changed_by=by, advice=advice)

    def _about(self, action: Action) -> tuple[dict[str, Any], Sequence[str]]:
        """The fields that hooks get about a call, and the names that matchers are compared with."""
        name, arguments = action.tool.name, action.arguments
        fields = call_fields(name, arguments, self.conversation.place.cwd)
        return {**fields, "tool_use_id": action.call_id}, names_of(name)

    async def around(self, action: Action, run: Callable[[], Awaitable[ToolOutput]]) -> ToolOutput:
        """See `tool.Around`: adds to a call's result what hooks say before and after it. Raises: as
        `run`; StorageError."""
        before = self._context.pop(action.call_id, "")
        if not before and not self.has_hooks("PostToolUse", "PostToolUseFailure"):
            return await run()
        call_fields, names = self._about(action)

        async def fail(text: str) -> HookAnswer:
            fields = {**call_fields, "error": self._mask(text), "is_interrupt": False}
            return await self.at("PostToolUseFailure", fields, names)

        try:
            output = await run()
        except (ToolRefused, StorageError):
            raise
        except ToolError as error:
            message = "\n".join((str(error), *_join_notes(before, await fail(str(error)))))
            raise ToolError(message, untrusted=error.untrusted) from error
        if output.exit_status:
            answer = await fail(output.for_model)
        else:
            call_fields |= output_fields(action.tool, output, self._mask(output.text))
            answer = await self.at("PostToolUse", call_fields, names)
        return replace(output, notes=(*output.notes, *_join_notes(before, answer)))

    def wrap_ask(self, ask: Ask) -> Ask:
        """An `Ask` whose questions hooks may answer. A hook may allow only what a saved rule could
        also allow."""

        async def ask_with_hooks(question: Question) -> Answer:
            if not self.has_hooks("PermissionRequest", "Notification"):
                return await ask(question)
            fields = call_fields(question.tool, question.arguments, self.conversation.place.cwd)
            answer = await self.at("PermissionRequest", fields, names_of(question.tool))
            if answer.outcome == "deny":
                return Answer(choice="no", message=answer.reason)
            if answer.outcome == "allow" and question.rules:
                return Answer(choice="once")
            kind = "permission_prompt"
            fields = {"message": question.title, "notification_type": kind}
            # Nobody waits for it.
            task = asyncio.ensure_future(self.at("Notification", fields, (kind,)))
            self._beside.add(task)
            task.add_done_callback(self._beside.discard)
            return await ask(question)

        return ask_with_hooks

    async def before_compaction(self, by_person: bool, wish: str) -> str:
        """Adds what hooks say to the wish for a compaction, which they cannot prevent."""
        trigger = "manual" if by_person else "auto"
        fields = {"trigger": trigger, "custom_instructions": wish}
        answer = await self.at("PreCompact", fields, (trigger,))
        return "\n".join(filter(None, (wish, answer.context)))

    async def stop(self, wait_s: float) -> None:
        """Waits for running notifications for at most this long, then cancels them."""
        if self._beside:
            await asyncio.wait(self._beside, timeout=wait_s)
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)

    def has_hooks(self, *events: str) -> bool:
        return any(hook.event in events for hook in self.hooks)

    async def _run_hook(self, hook: Hook, event: str, fields: Mapping[str, Any]) -> HookAnswer:
        ran = await self.run(self, hook, self._mask(make_line(event, self.common(), fields)))
        answer = parse_answer(hook, ran)
        for kind, text in (("allows", answer.remark), ("lost", describe_lost(hook, ran))):
            if text and (hook.item.name, kind) not in self._shown:
                self._shown.add((hook.item.name, kind))
                self.conversation.settings.emit(Notice(text=self._mask(text)))
        if answer.updated == fields.get("tool_input"):
            answer = replace(answer, updated=None)
        if ran.notes:
            answer = replace(answer, context="\n".join((*ran.notes, answer.context)).strip())
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
        # Too late for a change: without it, the call would do what the hook meant to prevent.
        return _refuse(answer, hook, "only PreToolUse hooks can change a call")

    def _mask(self, text: str) -> str:
        return mask(text, self.conversation.agent.secrets)


def _refuse(answer: HookAnswer, hook: Hook, why: str) -> HookAnswer:
    reason = f"The hook {hook.item.name} refused it: {why}"
    return replace(answer, outcome="deny", reason=reason, updated=None)


def _join_notes(before: str, answer: HookAnswer) -> tuple[str, ...]:
    """What hooks say about a call, as notes to put after its result."""
    refused = answer.reason if answer.outcome == "deny" else ""
    notes = [text for text in (before, refused, answer.context) if text]
    return tuple(f"\n[hook] {text}" for text in notes)

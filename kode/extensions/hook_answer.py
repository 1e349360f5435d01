"""Reads a hook's answer from its exit code and output, and merges several answers.

exit 0 its output may be a JSON object; otherwise, at the start of a session or turn, it is context
exit 2 it blocks; stderr gives the reason any other it failed: what it watches still happens, unless
it is a guard. One before calls is a guard wherever it could not be started (no sandbox).
"""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kode.broken_json import object_of
from kode.errors import Setting
from kode.extensions.hooks import Hook
from kode.extensions.trust import FOREIGN
from kode.messages import first_of
from kode.tools.program import Ran

Outcome = Literal["", "allow", "ask", "deny"]
_WEIGHT: tuple[Outcome, ...] = ("", "allow", "ask", "deny")
_BLOCKS = 2  # the exit status that blocks in Claude Code too
PRINTS_CONTEXT = ("SessionStart", "UserPromptSubmit", "PreCompact", "StatusLine")
"""Events at which plain output is meant for the model, or of the last one for the person."""
MAX_REASON_CHARS = 4_000  # a thousand tokens
MAX_NAMED = 5
"""Effects of one hook that are named; the rest are counted."""
MAX_CONTEXT_CHARS = 10_000  # 2,500 tokens


@dataclass(frozen=True, kw_only=True)
class HookAnswer:
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
    """The input that it wants the call to have instead, in its own terms."""
    by: str = ""
    """The names of the hooks that changed it."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What it sets for every command of the session."""
    variables_inside: Mapping[str, str] = field(default_factory=dict)
    """What it sets for those in the sandbox."""
    setting: Setting | None = None
    """Of one that failed."""
    remark: str = ""
    """For the person, once in a session: what the hook does in vain."""


def answer_of(hook: Hook, ran: Ran) -> HookAnswer:
    """The answer of a hook that has run. Never raises."""
    name, blocked = hook.item.name, ", ".join(hit.words for hit in ran.blocked)
    if ran.exit_code == _BLOCKS:
        said = (ran.stderr.strip() or ran.stdout.strip())[:MAX_REASON_CHARS]
        hit = f"\n(In the sandbox it {blocked}.)" if blocked else ""
        return HookAnswer(outcome="deny", reason=f"The hook {name} refused it: {said or 'no'}{hit}")
    fault = _fault(ran)
    value = object_of(ran.stdout)
    if not fault and value is None and ran.stdout.lstrip().startswith("{"):
        fault = "printed invalid JSON"
    if fault:
        hit = f"; in the sandbox it {blocked}" if blocked else ""
        setting = Setting(f"hooks.{hook.event}", str(hook.item.origin))
        message = f"The hook {name} of {setting} {fault}{hit}."
        # A hook that judges calls must not be got around by keeping it from starting.
        if hook.guard or (hook.event == "PreToolUse" and not ran.begun):
            blocked = f"{message} It is a guard: the action is blocked."
            return HookAnswer(outcome="deny", reason=blocked, setting=setting)
        return HookAnswer(message=message, setting=setting)
    if value is not None:
        answer = _from_object(name, value)
        if answer.outcome == "allow" and hook.item.scope in FOREIGN:
            # What it says may come from any file of the repository, which the model may edit.
            remark = (
                f"The hook {name} allows calls. A repository's hook cannot: it may refuse, or have "
                "you asked. Put it into your own config to let it allow."
            )
            return replace(answer, outcome="", reason="", remark=remark)
        return answer
    printed = ran.stdout.strip() if hook.event in PRINTS_CONTEXT else ""
    return HookAnswer(context=printed[:MAX_CONTEXT_CHARS])


def goes_beside(line: bytes) -> bool:
    """Whether the first line of a hook's output says that nobody is to wait for it."""
    return (object_of(line) or {}).get("async") is True


def join_answers(answers: Iterable[HookAnswer]) -> HookAnswer:
    """Merges answers: deny beats ask beats allow; all context counts."""
    answers = list(answers)
    if not answers:
        return HookAnswer()
    outcome: Outcome = max((answer.outcome for answer in answers), key=_WEIGHT.index)
    return HookAnswer(
        outcome=outcome,
        reason="\n".join(
            answer.reason for answer in answers if answer.outcome == outcome and answer.reason
        ),
        context="\n\n".join(answer.context for answer in answers if answer.context),
        message="\n".join(answer.message for answer in answers if answer.message),
        stops=any(answer.stops for answer in answers),
        variables=_together(answer.variables for answer in answers),
        variables_inside=_together(answer.variables_inside for answer in answers),
    )


def lost_of(hook: Hook, ran: Ran) -> str:
    """What a hook did in vain because of the sandbox, and what would let it, in sentences; "" for
    nothing."""
    blocked, files = ran.blocked, [Path(path).name for path in ran.dropped]
    did = [hit.words for hit in blocked] + ([f"changed {', '.join(files)}"] if files else [])
    if not did:
        return ""
    writes = [hit.where for hit in blocked if hit.what == "write"] + [*ran.dropped]
    flags = [f"--write {shlex.quote(folder)}" for folder in dict.fromkeys(map(_above, writes))]
    flags += ["--network"] if any(hit.what not in ("write", "unknown") for hit in blocked) else []
    return (
        f"The hook {hook.item.name} {', '.join(first_of(did, MAX_NAMED))}: in the sandbox that has "
        f"no effect. `kode extensions approve {shlex.quote(hook.item.name)} "
        f"{' '.join(flags) or '--outside'}` lets it."
    )


def _above(path: str) -> str:
    return str(Path(path).parent)


def _together(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {name: value for one in several for name, value in one.items()}


def _fault(ran: Ran) -> str:
    if ran.fault or ran.exit_code == 0:
        return ran.fault
    said = ran.stderr.strip().rpartition("\n")[2][:200]
    missing = ": its program was not found" if ran.exit_code == 127 else ""
    return f"failed with exit status {ran.exit_code}{missing}{f' ({said})' if said else ''}"


def _from_object(name: str, value: dict[str, Any]) -> HookAnswer:
    specific = value.get("hookSpecificOutput")
    specific = specific if isinstance(specific, dict) else {}
    asked = specific.get("decision")
    asked = asked if isinstance(asked, dict) else {}
    said = specific.get("permissionDecision") or asked.get("behavior") or value.get("decision")
    updated = specific.get("updatedInput", asked.get("updatedInput"))
    words = {"approve": "allow", "block": "deny", "allow": "allow", "deny": "deny", "ask": "ask"}
    outcome: Any = words.get(said, "") if isinstance(said, str) else ""
    reason = _text(specific.get("permissionDecisionReason")) or _text(value.get("reason"))
    stops = value.get("continue") is False
    if updated is not None and not isinstance(updated, dict) and outcome != "deny":
        # Unchanged, the call would do what the hook meant to prevent.
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
    )


def _text(value: Any) -> str:
    return value.strip()[:MAX_REASON_CHARS] if isinstance(value, str) else ""

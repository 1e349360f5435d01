"""Asks the person through the client: permission, the approval of a plan. No answer means no."""

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from acp import RequestError, schema
from acp.interfaces import Client

from kode.plugin import Answer, PermissionMode, Question, visible
from kode.plugins.acp.updates import Content, ShownCall, edits_of, text_content

Options = list[schema.PermissionOption]
PLAN_OPTIONS = {
    "ask": "Go ahead, ask before each change",
    "auto-edit": "Go ahead, edit files in the project without asking",
}


def permission_options(ways: Mapping[str, str]) -> Options:
    """The choices of a question, and no; lasting ones name the rules that they add."""

    def option(way: str, name: str, kind: schema.PermissionOptionKind) -> schema.PermissionOption:
        return schema.PermissionOption(option_id=way, name=name[:1].upper() + name[1:], kind=kind)

    (once, label), *lasting = ways.items()
    always = (option(way, name, "allow_always") for way, name in lasting)
    return [option(once, label, "allow_once"), *always, option("no", "No", "reject_once")]


async def ask_permission(
    client: Client, session_id: str, question: Question, call: ShownCall | None, cwd: Path
) -> Answer:
    """Puts a permission question to the person. `call` is the call in question as the client knows
    it; without one it is shown as a separate call."""
    content, places = _content(question, cwd)
    asker = f" (asked by {visible(question.asker)})" if question.asker else ""
    update = schema.ToolCallUpdate(
        tool_call_id=f"question-{uuid.uuid4().hex[:8]}",
        title=question.title + asker,
        kind="other",
        status="pending",
        content=content,
        locations=places or None,
    )
    if call is not None:
        fields = ("tool_call_id", "title", "kind", "raw_input", *(() if places else ("locations",)))
        update = update.model_copy(update={name: getattr(call.start, name) for name in fields})
    chosen = await _choose(client, session_id, update, permission_options(question.ways_to_allow))
    return Answer(choice=cast(Any, chosen) if chosen in ("once", "session", "project") else "no")


async def ask_about_plan(client: Client, session_id: str, plan: str) -> PermissionMode | None:
    """After a turn that ended with a plan: returns the mode to work through it; None to keep
    planning."""
    update = schema.ToolCallUpdate(
        tool_call_id=f"plan-{uuid.uuid4().hex[:8]}",
        title="Go ahead with this plan?",
        kind="switch_mode",
        status="pending",
        content=[text_content(plan)],
    )
    match await _choose(client, session_id, update, permission_options(PLAN_OPTIONS)):
        case "ask" | "auto-edit" as mode:
            return mode
    return None


async def _choose(
    client: Client,
    session_id: str,
    call: schema.ToolCallUpdate,
    options: list[schema.PermissionOption],
) -> str:
    """The id of the chosen option; "" for none."""
    try:
        response = await client.request_permission(session_id, call, options)
    except (RequestError, ConnectionError):
        return ""
    outcome = response.outcome
    return outcome.option_id if isinstance(outcome, schema.AllowedOutcome) else ""


def _content(question: Question, cwd: Path) -> tuple[list[Content], list[schema.ToolCallLocation]]:
    """Why it is asked, what it would destroy, and what would happen, in full."""
    why = "\n".join(filter(None, (question.title, *question.dangers, question.reason)))
    content: list[Content] = [text_content(why)]
    edits = list(edits_of(question.diff, cwd))
    before = question.preview.removesuffix(question.diff) if edits else question.preview
    if before.strip():
        content.append(text_content(before.rstrip()))
    return [*content, *(edit for edit, _ in edits)], [place for _, place in edits]

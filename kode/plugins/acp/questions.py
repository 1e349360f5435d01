"""Asks the person through the client: permission, the approval of a plan, forms of MCP servers. No
answer means no."""

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from acp import RequestError
from acp.interfaces import Client
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    ElicitationBooleanPropertySchema,
    ElicitationFormSessionMode,
    ElicitationIntegerPropertySchema,
    ElicitationMode,
    ElicitationMultiSelectPropertySchema,
    ElicitationNumberPropertySchema,
    ElicitationSchema,
    ElicitationStringPropertySchema,
    ElicitationUrlSessionMode,
    PermissionOption,
    StringMultiSelectItems,
    ToolCallUpdate,
)
from pydantic import AnyUrl

from kode.plugin import Answer, Form, PermissionMode, Question, visible, ways_to_allow
from kode.plugin import FormField as Field
from kode.plugins.acp.calls import Content, Shown, edits_of, text_content

Choice = Literal["once", "session", "project", "no"]

PLAN_OPTIONS = (
    PermissionOption(option_id="ask", name="Go ahead, ask before each change", kind="allow_once"),
    PermissionOption(
        option_id="auto-edit",
        name="Go ahead, edit files in the project without asking",
        kind="allow_always",
    ),
    PermissionOption(option_id="no", name="Keep planning", kind="reject_once"),
)

Property = (
    ElicitationStringPropertySchema
    | ElicitationNumberPropertySchema
    | ElicitationIntegerPropertySchema
    | ElicitationBooleanPropertySchema
    | ElicitationMultiSelectPropertySchema
)


async def ask_permission(
    client: Client, session_id: str, question: Question, call: Shown | None, cwd: Path, new_id: str
) -> Answer:
    """Puts a permission question to the person. `call` is the call in question as the client knows
    it; without one it is shown as a separate call, `new_id`."""
    content, places = _content(question, cwd)
    asker = f" (asked by {visible(question.asker)})" if question.asker else ""
    chosen = await _choose(
        client,
        session_id,
        ToolCallUpdate(
            tool_call_id=call.id if call is not None else new_id,
            title=call.title if call is not None else question.title + asker,
            kind=call.kind if call is not None else "other",
            status="pending",
            content=content,
            locations=places or (call.locations if call is not None else None),
            raw_input=dict(call.arguments) if call is not None else None,
        ),
        permission_options(question),
    )
    match chosen:
        case "once" | "session" | "project":
            return Answer(choice=chosen)
        case _:
            return Answer(choice="no")


def permission_options(question: Question) -> list[PermissionOption]:
    """The choices of a question; lasting ones name the rules that they add."""
    options = [
        PermissionOption(
            option_id=way,
            name=label[:1].upper() + label[1:],
            kind="allow_once" if way == "once" else "allow_always",
        )
        for way, label in ways_to_allow(question).items()
    ]
    return [*options, PermissionOption(option_id="no", name="No", kind="reject_once")]


async def ask_about_plan(
    client: Client, session_id: str, plan: str, call_id: str
) -> PermissionMode | None:
    """After a turn that ended with a plan: returns the mode to work through it; None to keep
    planning."""
    update = ToolCallUpdate(
        tool_call_id=call_id,
        title="Go ahead with this plan?",
        kind="switch_mode",
        status="pending",
        content=[text_content(plan)],
    )
    match await _choose(client, session_id, update, list(PLAN_OPTIONS)):
        case "ask":
            return "ask"
        case "auto-edit":
            return "auto-edit"
        case _:
            return None


async def fill_form(client: Client, session_id: str, form: Form) -> Mapping[str, Any] | None:
    """Returns what the person filled in; None if they declined, or the client does not support such
    a form."""
    said = (
        f"The MCP server {visible(form.server)} asks (never type a key here): "
        f"{visible(form.message)}"
    )
    try:
        answer = await client.create_elicitation(said, _mode(session_id, form))
    except (RequestError, ConnectionError):
        return None
    return dict(answer.content or {}) if isinstance(answer, AcceptElicitationResponse) else None


def _mode(session_id: str, form: Form) -> ElicitationMode:
    if form.url:
        return ElicitationUrlSessionMode(
            session_id=session_id, elicitation_id=str(uuid.uuid4()), url=AnyUrl(form.url)
        )
    schema = ElicitationSchema(
        type="object",
        properties={field.name: _property(field) for field in form.fields},
        required=[field.name for field in form.fields if field.required] or None,
    )
    return ElicitationFormSessionMode(session_id=session_id, requested_schema=schema)


async def _choose(
    client: Client, session_id: str, call: ToolCallUpdate, options: list[PermissionOption]
) -> str:
    """The id of the chosen option; "" for none."""
    try:
        response = await client.request_permission(session_id, call, options)
    except (RequestError, ConnectionError):
        return ""
    outcome = response.outcome
    return outcome.option_id if isinstance(outcome, AllowedOutcome) else ""


def _content(question: Question, cwd: Path) -> tuple[list[Content], Any]:
    """Why it is asked, what it would destroy, and what would happen, in full."""
    why = "\n".join(filter(None, (question.title, *question.dangers, question.reason)))
    content: list[Content] = [text_content(why)]
    edits, places = edits_of(question.diff, cwd)
    before = question.preview.removesuffix(question.diff) if edits else question.preview
    if before.strip():
        content.append(text_content(before.rstrip()))
    return [*content, *edits], places


def _property(field: Field) -> Property:
    title, default = visible(field.title), field.default
    match field.kind:
        case "number":
            return ElicitationNumberPropertySchema(type="number", title=title, default=default)
        case "integer":
            return ElicitationIntegerPropertySchema(type="integer", title=title, default=default)
        case "boolean":
            return ElicitationBooleanPropertySchema(type="boolean", title=title, default=default)
        case "choices":
            items = StringMultiSelectItems(type="string", enum=list(field.options))
            return ElicitationMultiSelectPropertySchema(
                type="array", title=title, items=items, default=default
            )
        case "text" | "choice":
            return ElicitationStringPropertySchema(
                type="string", title=title, default=default, enum=list(field.options) or None
            )

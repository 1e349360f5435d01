"""Puts a permission question to a client: as a state to answer with `kode_answer`, and as a form
for its person if it can show one (an elicitation).

The protocol has two ways for a form. Up to 2025-11-25 the server asks the client while a call runs;
from 2026-07-28 on the call returns with the form, and the client repeats it with the filled-in
form.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

from mcp.server.mcpserver import Context
from mcp.server.session import ServerSession
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from kode.plugin import Answer, Question, UserError, ways_to_allow
from kode.plugins.serve.session import OpenQuestion, ServedSession

MAX_WAIT_S = 50.0
"""Many clients give up on a call after a minute."""
MAX_FORMS = 8
"""Limit for one call that the client repeats with each form; clients give up after about ten."""

CHOICES = ("once", "session", "no")


async def follow(
    context: Context[Any], served: ServedSession, cursor: int, wait_s: float, forms: int = 0
) -> dict[str, Any] | InputRequiredResult:
    """Waits at most `wait_s` for the turn's end or a question that only `kode_answer` can answer;
    returns the state. Meanwhile puts questions to the client's person if it can."""

    async def report(number: int, line: str) -> None:
        await context.report_progress(number, message=line)

    until = asyncio.get_running_loop().time() + min(max(wait_s, 0.0), MAX_WAIT_S)
    reported = cursor
    while True:
        reported = await served.settled(until, report, reported)
        question = served.question
        if (
            question is None
            or question.is_shown
            or question.is_left_to_client
            or not _has_forms(context)
        ):
            return _state(served, cursor)
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            served.note_form(question, is_shown=True)
            # It outlives the call: a person takes longer than a client waits.
            filling = asyncio.create_task(
                _fill_in(context.request_context.session, served, question)
            )
            question.answer.add_done_callback(lambda _, form=filling: form.cancel())
        elif forms >= MAX_FORMS:
            return _state(served, cursor)
        else:
            session = served.conversation.session.id
            kept = {"session": session, "cursor": cursor, "forms": forms + 1}
            return InputRequiredResult(
                input_requests={question.id: ElicitRequest(params=_form(question.question))},
                request_state=json.dumps(kept),
            )


async def repeated_state(
    context: Context[Any], find: Callable[[str], ServedSession]
) -> dict[str, Any] | InputRequiredResult | None:
    """The state of a call that the client repeats with the forms that its person has filled in;
    None for a new call."""
    kept = json.loads(context.request_state) if context.request_state else None
    if not isinstance(kept, dict):
        return None
    served = find(kept["session"])
    for question_id, filled in (context.input_responses or {}).items():
        question = served.question
        if question and question.id == question_id and isinstance(filled, ElicitResult):
            _take(served, question, filled)
    return await follow(context, served, kept["cursor"], MAX_WAIT_S / 2, kept["forms"])


def _state(served: ServedSession, cursor: int) -> dict[str, Any]:
    """A state with its question in full, for the client itself."""
    state = served.state(cursor)
    if served.question is not None:
        question = served.question.question
        by_form = "the person, by a form; `kode_answer` takes its place"
        whole = {
            "id": served.question.id,
            "title": question.title,
            "tool": question.tool,
            "asked_by": question.asker,
            "what": question.preview,
            "destroys": list(question.dangers),
            "why": question.reason,
            "choices": _choices(question),
            "asked": by_form if served.question.is_shown else "",
        }
        state["question"] = {key: value for key, value in whole.items() if value not in ("", [])}
    return state


def _has_forms(context: Context[Any]) -> bool:
    capabilities = context.client_capabilities
    forms = capabilities.elicitation if capabilities is not None else None
    return forms is not None and (forms.form is not None or forms.url is None)


async def _fill_in(session: ServerSession, served: ServedSession, question: OpenQuestion) -> None:
    form = _form(question.question)
    try:
        filled = await session.elicit_form(form.message, form.requested_schema)
    except Exception:
        # Whatever the client did with it, or it is gone: the question stays open.
        served.note_form(question, is_shown=False)
    else:
        _take(served, question, filled)


def _take(served: ServedSession, question: OpenQuestion, filled: ElicitResult) -> None:
    """A form closed without a choice leaves the question to the client."""
    content = filled.content or {}
    choice = "no" if filled.action == "decline" else content.get("choice")
    try:
        if filled.action == "cancel" or choice not in CHOICES:
            raise UserError("The form was closed.")
        message = str(content.get("message") or "")
        served.answer(question.id, Answer(choice=cast(Any, choice), message=message))
    except UserError:
        served.note_form(question, is_shown=False)


def _form(question: Question) -> ElicitRequestFormParams:
    choices = _choices(question)
    by = f" (asked by {question.asker})" if question.asker else ""
    texts = (f"{question.title}{by}", question.preview, *question.dangers, question.reason)
    choice: dict[str, Any] = {
        "type": "string",
        "title": "May it?",
        "enum": list(choices),
        "enumNames": list(choices.values()),
        "default": "no",
    }
    message = {"type": "string", "title": "With `no`: what to do instead"}
    properties = {"choice": choice, "message": message}
    schema: Any = {"type": "object", "properties": properties, "required": ["choice"]}
    shown = "\n\n".join(text.rstrip() for text in texts if text.strip())
    return ElicitRequestFormParams(message=shown, requested_schema=schema)


def _choices(question: Question) -> dict[str, str]:
    """The possible answers and their meaning. Permanent permission would loosen the person's own
    sessions, and a client may fill in a form itself."""
    ways = {choice: text for choice, text in ways_to_allow(question).items() if choice in CHOICES}
    return {**ways, "no": "no" + "; a message says what to do instead" * question.takes_words}

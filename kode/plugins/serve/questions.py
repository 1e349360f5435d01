"""Puts a permission question to a client: as a state to answer with `kode_answer`, and as a form
for its person if it can show one (an elicitation).

The protocol has two ways for a form. Up to 2025-11-25 the server asks the client while a call runs;
from 2026-07-28 on the call returns with the form, and the client repeats it with the filled-in
form.
"""

import asyncio
import functools
import json
from typing import Any, cast

from mcp.server.mcpserver import Context
from mcp.server.session import ServerSession
from mcp_types import (
    ElicitRequest,
    ElicitRequestedSchema,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from kode.plugin import Answer, Question, UserError, ways_to_allow
from kode.plugins.serve.served import Asked, ServedSession

MAX_WAIT_S = 50.0
"""Many clients give up on a call after a minute."""
MAX_FORMS = 8
"""Limit for one call that the client repeats with each form; clients give up after about ten."""

_CHOICES = ("once", "session", "no")


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
        asked = served.asked
        if asked is None or asked.with_person or asked.left_to_client or not _has_forms(context):
            return _state(served, cursor)
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            served.note_form(asked, shown=True)
            # It outlives the call: a person takes longer than a client waits.
            filling = asyncio.create_task(_fill_in(context.request_context.session, served, asked))
            asked.answer.add_done_callback(functools.partial(_withdraw, filling))
            continue
        if forms >= MAX_FORMS:
            return _state(served, cursor)
        kept = {"session": served.conversation.session.id, "cursor": cursor, "forms": forms + 1}
        return InputRequiredResult(
            input_requests={asked.id: ElicitRequest(params=_form(asked.question))},
            request_state=json.dumps(kept),
        )


def resumed_result(context: Context[Any]) -> dict[str, Any] | None:
    """What `follow` stored for the repetition of this call; None for a new call."""
    kept = json.loads(context.request_state) if context.request_state else None
    return kept if isinstance(kept, dict) else None


def take_forms(context: Context[Any], served: ServedSession) -> None:
    """Reads the forms that the person has filled in."""
    for question_id, filled in (context.input_responses or {}).items():
        asked = served.asked
        if asked is not None and asked.id == question_id and isinstance(filled, ElicitResult):
            _take(served, asked, filled)


def as_state(asked: Asked) -> dict[str, Any]:
    """A question in full, for the client itself."""
    question = asked.question
    whole = {
        "id": asked.id,
        "title": question.title,
        "tool": question.tool,
        "asked_by": question.asker,
        "what": question.preview,
        "destroys": list(question.dangers),
        "why": question.reason,
        "choices": _choices(question),
    }
    return {key: value for key, value in whole.items() if value not in ("", [])}


def _state(served: ServedSession, cursor: int) -> dict[str, Any]:
    state = served.state(cursor)
    if served.asked is not None:
        state["question"] = as_state(served.asked)
        if served.asked.with_person:
            state["question"]["asked"] = "the person, by a form; `kode_answer` takes its place"
    return state


def _has_forms(context: Context[Any]) -> bool:
    capabilities = context.client_capabilities
    forms = capabilities.elicitation if capabilities is not None else None
    return forms is not None and (forms.form is not None or forms.url is None)


def _withdraw(form: "asyncio.Task[None]", answer: "asyncio.Future[Answer]") -> None:
    form.cancel()


async def _fill_in(session: ServerSession, served: ServedSession, asked: Asked) -> None:
    form = _form(asked.question)
    try:
        filled = await session.elicit_form(form.message, form.requested_schema)
    except Exception:
        # Whatever the client did with it, or it is gone: the question stays open.
        served.note_form(asked, shown=False, left=True)
    else:
        _take(served, asked, filled)


def _take(served: ServedSession, asked: Asked, filled: ElicitResult) -> None:
    """A form closed without a choice leaves the question to the client."""
    content = filled.content or {}
    choice, message = content.get("choice"), content.get("message")
    if filled.action == "decline":
        choice = "no"
    if filled.action == "cancel" or choice not in _CHOICES:
        return served.note_form(asked, shown=False, left=True)
    answer = Answer(choice=cast(Any, choice), message=str(message or ""))
    try:
        served.answer(asked.id, answer)
    except UserError:
        served.note_form(asked, shown=False, left=True)


def _form(question: Question) -> ElicitRequestFormParams:
    choices = _choices(question)
    by = f" (asked by {question.asker})" if question.asker else ""
    pieces = (f"{question.title}{by}", question.preview, *question.dangers, question.reason)
    schema: ElicitRequestedSchema = {
        "type": "object",
        "properties": {
            "choice": {
                "type": "string",
                "title": "May it?",
                "enum": list(choices),
                "enumNames": list(choices.values()),
                "default": "no",
            },
            "message": {"type": "string", "title": "With `no`: what to do instead"},
        },
        "required": ["choice"],
    }
    message = "\n\n".join(piece.rstrip() for piece in pieces if piece.strip())
    return ElicitRequestFormParams(message=message, requested_schema=schema)


def _choices(question: Question) -> dict[str, str]:
    """The possible answers and their meaning. Permanent permission would loosen the person's own
    sessions, and a client may fill in a form itself."""
    ways = {choice: text for choice, text in ways_to_allow(question).items() if choice in _CHOICES}
    return {**ways, "no": "no" + "; a message says what to do instead" * question.takes_words}

"""Recovers tool calls that a model wrote as text because its server did not parse them.

Servers of local models parse calls by the model's template. If the template is not used, or the
model strays from it, the call arrives as the answer. It is recognized here by its form alone:

    reply      calls from start to end, or a paragraph of whole sentences and calls in a template's
               markup; nothing between or after
    call       in any of the notations of `call_notations`
    markup     around calls: special tokens, tags about tools and functions, fences

It counts only if it names an offered tool and has every required argument. Followed by more text,
or quoted from memory, a person or a tool, it is shown, not made. A reply that looks like a call and
cannot be one gets the stop `malformed_call`. So does a call that may as well be shown: after words
in Markdown, after a colon, or as in the model's own earlier answer. The model knows which it was,
and is asked: a call at the end of its next reply is made, whatever words introduce it.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from kode import broken_json
from kode.messages import (
    WRITTEN_THINKING,
    Message,
    Text,
    ToolCall,
    ToolResult,
    calls_of,
    new_call_id,
)
from kode.provider import Request, ToolSpec
from kode.providers.call_notations import FENCE, MARK, MARKUP, Reader, Written
from kode.providers.call_objects import Call, NoCallError, UnfitError, calls_in

MAX_LEAD_CHARS = 300
"""A paragraph that introduces a call is short; a longer one explains."""
MAX_TEXT_CHARS = 400_000  # longer than any reply
MAX_OBJECTS = 2_000
"""So many objects in earlier messages are compared with a call."""
_BEGINNING = re.compile(r"^[ \t]*(?=[{\[<]|```|~~~|[\w.:]+[ \t]*[({])", re.MULTILINE)
_LINE_START = re.compile(
    r"^[ \t]*(?:(?:(?:[^\s:]+:)?\d+[:\t]|[#>*+|-]+|//+|/\*)[ \t]*)*", re.MULTILINE
)
"""What a tool, a comment, a quotation or a patch puts in front of each line."""
_NOTATION = re.compile(rf"\\+[nrt]?|['\"\[]|{MARKUP.pattern}")
"""What differs between the same call in a file, in a string, and in Python."""
_LAYOUT = re.compile(rf"\\+[nrt]?|['\"\s]|{FENCE}")
"""What differs between the same text in a file and in a fence."""
_MORE_THAN_NAME = re.compile(r"[^\w.-]")
_INSIDE = re.compile(r"[{<]")


def read_written_calls(message: Message, request: Request) -> Message:
    """The message with calls in place of a text that is calls, or with the stop `malformed_call`;
    the same message for any other text, and if the server sent calls or could not send any.

    The first call keeps the text in `ToolCall.written`.
    """
    text = "\n".join(part.text for part in message.parts if isinstance(part, Text))
    offered = bool(request.tools) and request.answer_schema is None
    possible = offered and not calls_of(message) and message.stop in ("end", "length")
    if not possible or len(text) > MAX_TEXT_CHARS:
        return message
    tools = {tool.name: tool for tool in request.tools}
    for lead, rest in _splits(text):
        said = WRITTEN_THINKING.sub("", lead, count=1).strip()
        try:
            calls = Reader(rest, tools, is_all=not said).read()
        except (NoCallError, RecursionError):
            continue
        except UnfitError:
            calls = []
        if _is_quoted(calls, rest, _said_before(request), tools):
            return message
        in_markup = MARK.match(rest) is not None
        if _was_asked(request.messages):
            announced = len(said) <= MAX_LEAD_CHARS
        else:
            announced = not said or (in_markup and _is_paragraph(said))
            if announced and _is_quoted(calls, rest, _answered_before(request.messages), tools):
                announced = False
        if calls and announced:
            return _with_calls(message, lead, rest, calls)
        unclear = announced or (calls and (in_markup or len(said) <= MAX_LEAD_CHARS))
        malformed = unclear and message.stop == "end"
        return replace(message, stop="malformed_call") if malformed else message
    return message


def _with_calls(message: Message, lead: str, rest: str, found: Sequence[Written]) -> Message:
    calls = [
        ToolCall(
            id=new_call_id(),
            name=call.name,
            arguments=_sendable(call.arguments),
            written="" if index else rest,
        )
        for index, call in enumerate(found)
    ]
    others = [part for part in message.parts if not isinstance(part, Text)]
    texts = [Text(text=lead)] if lead.strip() else []
    stop = "tool_calls" if message.stop == "end" else message.stop
    return replace(message, parts=(*others, *texts, *calls), stop=stop)


def _splits(text: str) -> Iterator[tuple[str, str]]:
    """Where calls could begin, as (text before, rest): at once, at the first line that looks like a
    call, and in the middle of a line."""
    thinking = WRITTEN_THINKING.match(text)
    start = thinking.end() if thinking else 0
    found = (one.search(text, start) for one in (_BEGINNING, _INSIDE, MARK))
    for position in sorted({start, *(place.start() for place in found if place)}):
        if not text[:position].endswith("`"):  # else it is quoted
            yield text[:position], text[position:]


def _is_paragraph(said: str) -> bool:
    """Whether a text before a call announces an action. A colon announces a quotation."""
    whole = said.endswith((".", "!", "…", "。"))
    return whole and len(said) <= MAX_LEAD_CHARS and "\n\n" not in said


def _said_before(request: Request) -> str:
    """The system prompt, which holds memory, and what a person or a tool said."""
    return _material([request.system, *_texts(request.messages, ("user", "tool"))])


def _was_asked(messages: Sequence[Message]) -> bool:
    """Whether the model is asked what its last reply was, and was told how to show a call."""
    replies = [message for message in messages if message.role == "assistant"]
    return bool(replies) and replies[-1].stop == "malformed_call"


def _answered_before(messages: Sequence[Message]) -> str:
    """What the model said in its answers."""
    answers = [message for message in messages if message.stop == "end" and not calls_of(message)]
    return _material(_texts(answers, ("assistant",)))


def _texts(messages: Sequence[Message], roles: Collection[str]) -> Iterator[str]:
    return (
        part.text
        for message in messages
        if message.role in roles
        for part in message.parts
        if isinstance(part, Text | ToolResult)
    )


def _material(texts: Iterable[str]) -> str:
    """Texts without what stands in front of lines."""
    from html import unescape

    return "\0".join(_LINE_START.sub("", unescape(text)) for text in texts)


def _is_quoted(
    calls: Sequence[Written], rest: str, before: str, tools: Mapping[str, ToolSpec]
) -> bool:
    if not before:
        return False
    if _quotes([call.text for call in calls], before) or _holds(before, rest, _LAYOUT):
        return True
    shown = _shown(before, tools) if calls else []
    return any((call.name, call.arguments) in shown for call in calls)


def _quotes(texts: Sequence[str], before: str) -> bool:
    """Whether one of these calls was said before, in any notation; a bare name is not enough."""
    calls = [text for text in texts if _MORE_THAN_NAME.search(_NOTATION.sub("", text))]
    return any(_holds(before, text, _NOTATION) for text in calls)


def _holds(before: str, text: str, ignored: re.Pattern[str]) -> bool:
    from html import unescape

    whole = unescape(text)
    squeezed = ignored.sub("", before)
    # In a source that is one string, nothing stands in front of lines.
    forms = (ignored.sub("", form) for form in (whole, _LINE_START.sub("", whole)))
    return any(form in squeezed for form in forms if form)


def _shown(before: str, tools: Mapping[str, ToolSpec]) -> list[Call]:
    """The calls that were said before as JSON: a quotation may order its keys otherwise."""
    found: list[Call] = []
    for begin in islice(re.finditer(r"\{", before), MAX_OBJECTS):
        exact = broken_json.value_at(before, begin.start())
        with suppress(NoCallError, UnfitError):
            found += calls_in(exact[0], tools) if exact is not None else ()
    return found


def _sendable(arguments: Mapping[str, Any]) -> str:
    """JSON without lone surrogates, which escapes may have created."""
    return json.dumps(arguments, ensure_ascii=False).encode("utf-8", "replace").decode()

"""Memory's only way to call a model: bounded in size, time and number, never raising.

`MemoryModel` asks for a text, or a whole reply with its calls and its stop reason. `read_object`
and `read_numbers` parse leniently: models wrap JSON in prose, and truncate it.
"""

import asyncio
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from kode import broken_json
from kode.contracts import AskReply, Request
from kode.errors import KodeError
from kode.memory import terms
from kode.messages import (
    Message,
    Part,
    Text,
    ToolResult,
    keep_ends,
    text_of,
    user_message,
    without_thinking,
)

MAX_PROMPT_CHARS = 48_000
"""About 12,000 tokens: a whole working session's transcript, and no more than a few cents."""
MAX_CALLS = 60
"""Per session and process: far above normal use, far below a runaway loop."""
TIMEOUT_S = 20.0
MOST_TIMES = 10
CHARS_PER_TOKEN = 4
"""OpenAI's rule of thumb for English text."""
MAX_OUTPUT_TOKENS = 4_096
"""For a request without its own limit."""
MAX_WORD_CHARS = 60
MIN_QUOTED_WORDS = 3
"""A shorter text may occur in the instructions by chance."""

Failure = Literal["", "no model", "too many calls", "timeout", "error", "empty"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    text: str | None
    """None without an answer; `failure` says why."""
    failure: Failure = ""
    detail: str = ""
    """For a person: the provider's own words."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    message: Message | None
    """None without an answer; `failure` says why."""
    failure: Failure = ""
    detail: str = ""


@dataclass
class MemoryModel:
    """Asks the model of one session. With `ask_reply` None, every answer is `no model`."""

    _ask_reply: AskReply | None
    max_calls: int = MAX_CALLS
    max_prompt_chars: int = MAX_PROMPT_CHARS
    expected_s: Callable[[int, int], float] = lambda input_tokens, output_tokens: 0.0
    calls: int = 0
    """Requests made so far."""

    @property
    def usable(self) -> bool:
        return self._ask_reply is not None and self.calls < self.max_calls

    async def ask(
        self,
        system: str,
        prompt: str,
        *,
        max_output_tokens: int,
        timeout_s: float | None = None,
        patient: bool = False,
    ) -> Answer:
        """Asks one question for a text; the rest as `reply`."""
        request = Request(
            system=system, messages=(user_message(prompt),), max_output_tokens=max_output_tokens
        )
        reply = await self.reply(request, timeout_s=timeout_s, patient=patient)
        if reply.message is None:
            return Answer(text=None, failure=reply.failure, detail=reply.detail)
        text = text_of(reply.message)
        if not text.strip():
            return Answer(text=None, failure="empty", detail="the model answered with nothing")
        return Answer(text=text)

    async def reply(
        self, request: Request, *, timeout_s: float | None = None, patient: bool = False
    ) -> Reply:
        """Makes one request, in one attempt, for a full reply. Cuts the middle of oversized texts
        and results. `patient`: nobody waits, so a slow server gets the time it needs (see
        `limit_s`).

        Raises nothing but CancelledError; a request is cancelled after `timeout_s`.
        """
        if self._ask_reply is None:
            return Reply(message=None, failure="no model")
        if self.calls >= self.max_calls:
            return Reply(message=None, failure="too many calls", detail=f"{self.calls} so far")
        request = replace(request, messages=[self._bounded(m) for m in request.messages])
        limit_s = TIMEOUT_S if timeout_s is None else timeout_s
        if patient:
            said = "".join(map(text_of, request.messages))
            most = request.max_output_tokens or MAX_OUTPUT_TOKENS
            limit_s = self.limit_s(limit_s, len(request.system) + len(said), most)
        self.calls += 1
        try:
            async with asyncio.timeout(limit_s):
                message = await self._ask_reply(request)
                parts = tuple(map(_answering, message.parts))
                return Reply(message=replace(message, parts=parts))
        except TimeoutError:
            return Reply(message=None, failure="timeout", detail=f"no answer within {limit_s:g} s")
        except KodeError as error:
            return Reply(message=None, failure="error", detail=str(error))
        except Exception as error:
            # The provider promises ProviderError; memory must survive a broken promise.
            return Reply(message=None, failure="error", detail=f"{type(error).__name__}: {error}")

    def limit_s(self, timeout_s: float, prompt_chars: int, output_tokens: int) -> float:
        """The time limit of a question: `timeout_s`, or up to `MOST_TIMES` as long if this process
        has measured that the server needs it for this size."""
        expected_s = self.expected_s(prompt_chars // CHARS_PER_TOKEN, output_tokens)
        return max(timeout_s, min(expected_s, MOST_TIMES * timeout_s))

    def _bounded(self, message: Message) -> Message:
        def bounded(part: Part) -> Part:
            if isinstance(part, Text | ToolResult) and len(part.text) > self.max_prompt_chars:
                return replace(part, text=keep_ends(part.text, self.max_prompt_chars))
            return part

        return replace(message, parts=tuple(map(bounded, message.parts)))


def _answering(part: Part) -> Part:
    """A part of a reply without reasoning: a draft in it would be taken for the answer."""
    return replace(part, text=without_thinking(part.text)) if isinstance(part, Text) else part


@dataclass(frozen=True, kw_only=True)
class ReadObject:
    value: dict[str, Any]
    how: Literal["whole", "inside", "fields", "repaired"]
    """`whole`: the answer was the object. `inside`: it was surrounded by prose. `fields`: single
    fields were found by pattern. `repaired`: the JSON was broken and was repaired."""
    complete: bool
    """False if the answer looks truncated, so that its last value may be incomplete."""


def read_object(answer: str, fields: Sequence[str]) -> ReadObject | None:
    """Finds the JSON object in an answer, or returns None. `fields` are the expected names, all of
    them strings or lists; others are kept unchanged."""
    objects = [one for one in map(broken_json.whole, _views(answer)) if isinstance(one, dict)]
    for value in objects:
        if any(name in value for name in fields):
            return ReadObject(value=value, how="whole", complete=True)
    for value, _ in _values(answer, "{"):
        if any(name in value for name in fields):
            return ReadObject(value=value, how="inside", complete=True)
    if objects:
        return ReadObject(value=objects[0], how="whole", complete=True)
    text = without_fences(answer)
    found = _fields(text, fields)
    if len(found) == len(fields):
        return ReadObject(value=found, how="fields", complete=True)
    complete = broken_json.is_closed(text)
    value = broken_json.repair(text, "{")
    if isinstance(value, dict) and any(name in value for name in fields):
        return ReadObject(value=value, how="repaired", complete=complete)
    if found:
        return ReadObject(value=found, how="fields", complete=complete)
    return None


def read_numbers(answer: str, count: int) -> list[int] | None:
    """Reads an order such as `2,0`: indices below `count`, each once. "None" in any form is the
    empty order; anything else is None."""
    text = without_fences(answer).strip().strip("[]().!\"'`* \n").lower()
    if text in ("none", "no", "nothing", "none of them", "none are relevant", ""):
        return [] if text else None
    if not re.fullmatch(r"\[?\d+\]?(?:[\s,;]+\[?\d+\]?)*", text):
        return None
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    if any(number >= count for number in numbers):
        return None
    return list(dict.fromkeys(numbers))


def says_something(text: str, instructions: str) -> bool:
    """Whether a text in an answer can be a fact: more than one word ("none", "empty"), and not a
    placeholder."""
    one_word = len(text.split()) < 2 and len(text) <= MAX_WORD_CHARS
    if one_word and not terms.is_unspaced(text):
        return False
    return not is_placeholder(text, instructions)


def is_placeholder(text: str, instructions: str) -> bool:
    """Whether a text in an answer was copied from the model's instructions."""
    words = terms.words(text)
    quoted = f" {' '.join(words)} " in f" {' '.join(terms.words(instructions))} "
    return quoted and len(words) >= MIN_QUOTED_WORDS


def without_fences(answer: str) -> str:
    """The content of the code fence around an answer, or the text itself. A fence that opens within
    the answer's JSON is part of it."""
    text, *inside = _views(answer)
    brackets = [at for at in map(text.find, "{[") if at >= 0]
    opening = _FENCE.search(text)
    if not inside or opening is None or min(brackets, default=len(text)) < opening.start():
        return text
    return inside[0]


_FENCE = re.compile(r"^[ \t]*```[^`\n]*\n", re.MULTILINE)
_LAST_FENCE = re.compile(r"(?s)(.*)^[ \t]*```[ \t]*$", re.MULTILINE)
MAX_PLACES = 100
"""Limit of brackets tried as the start of an object or list."""


def _views(answer: str) -> tuple[str, ...]:
    """The answer, and the content of its code fence if any: up to the last closing fence, because
    the text may contain fences."""
    text = answer.strip().removeprefix("\ufeff").strip()
    opening = _FENCE.search(text)
    if opening is None:
        return (text,)
    inside = text[opening.end() :]
    closed = _LAST_FENCE.match(inside)
    return (text, (closed[1] if closed else inside).strip().removesuffix("```").strip())


def _values(answer: str, opening: str) -> Iterator[tuple[Any, str]]:
    """The JSON values that begin with `opening` anywhere in an answer, inside its fence first, each
    with the character that follows."""
    for view in reversed(_views(answer)):
        places = (bracket.start() for bracket in re.finditer(re.escape(opening), view))
        for at in itertools.islice(places, MAX_PLACES):
            found = broken_json.value_at(view, at)
            if found is not None:
                value, end = found
                yield value, view[end:].lstrip()[:1]


_STRING = broken_json.STRING
_AFTER_A_VALUE = r"(?=[ \t]*(?:[,}\]\r\n]|\Z))"
"""Anything else after a quote shows that it did not close the value: it was not escaped."""


def _fields(text: str, names: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        match = re.search(
            rf'"{re.escape(name)}"\s*:\s*({_STRING}|\[(?:\s*{_STRING}\s*,?)*\]){_AFTER_A_VALUE}',
            text,
            re.DOTALL,
        )
        value = broken_json.whole(match.group(1)) if match else None
        if value is not None:
            found[name] = value
    return found

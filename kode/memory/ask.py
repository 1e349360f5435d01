"""Memory's only way to call a model, limited in size, time and number, and never raising; and a
reader of answers that models wrap in prose, break or cut off.
"""

import asyncio
import contextlib
import itertools
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kode import broken_json
from kode.messages import Message, Text, ToolResult, text_of, user_message
from kode.provider import AskReply, Request
from kode.values import Value, dataclass, replace

MAX_PROMPT_CHARS = 48_000
"""About 12,000 tokens: a whole working session's transcript, and no more than a few cents."""
MAX_CALLS = 60
"""Per session and process: far above normal use, far below a runaway loop."""
TIMEOUT_S = 20.0  # what a person waits for without asking themselves why
MAX_TIMES = 10
"""How many times its limit a patient question may take."""
CHARS_PER_TOKEN = 4
"""OpenAI's rule of thumb for English text."""
MAX_BRACKETS = 100
"""How many opening brackets are tried as the beginning of an object."""
_LAST_FENCE = re.compile(r"\s*```\s*\Z")


class ModelReply(Value):
    message: Message | None = None
    """None without an answer."""
    failure: str = ""
    """Why there is no answer, for a person; "" if there is one."""

    @property
    def text(self) -> str:
        """The model's own text; "" without an answer."""
        return text_of(self.message) if self.message else ""


@dataclass
class MemoryModel:
    """Asks the model of one session. With `ask_reply` None, every answer is `no model`."""

    _ask_reply: AskReply | None
    expected_s: Callable[[int, int], float] = lambda input_tokens, output_tokens: 0.0
    calls: int = 0
    """Requests made so far."""

    @property
    def usable(self) -> bool:
        return self._ask_reply is not None and self.calls < MAX_CALLS

    async def ask(
        self,
        system: str,
        prompt: str,
        *,
        max_output_tokens: int,
        timeout_s: float = TIMEOUT_S,
        patient: bool = False,
    ) -> ModelReply:
        """Asks one question; an empty answer counts as a failure. The rest is as for `reply`."""
        messages = (user_message(prompt),)
        request = Request(system=system, messages=messages, max_output_tokens=max_output_tokens)
        reply = await self.reply(request, timeout_s=timeout_s, patient=patient)
        if reply.message is not None and not reply.text.strip():
            return ModelReply(failure="the model answered with nothing")
        return reply

    async def reply(
        self, request: Request, *, timeout_s: float = TIMEOUT_S, patient: bool = False
    ) -> ModelReply:
        """Makes one request for a full reply; overlong texts lose their middle. The request is
        cancelled after `timeout_s`; if `patient`, a server measured as slow gets up to `MAX_TIMES`
        as long. Raises: only CancelledError."""
        if self._ask_reply is None or self.calls >= MAX_CALLS:
            return ModelReply(failure=f"no model may be asked after {self.calls} calls")
        bound = partial(cut_middle, max_chars=MAX_PROMPT_CHARS)
        request = replace(request, messages=[_map_texts(m, bound) for m in request.messages])
        if patient:
            chars = len(request.system) + sum(len(text_of(m)) for m in request.messages)
            expected_s = self.expected_s(chars // CHARS_PER_TOKEN, request.max_output_tokens or 0)
            timeout_s = max(timeout_s, min(expected_s, MAX_TIMES * timeout_s))
        self.calls += 1
        try:
            async with asyncio.timeout(timeout_s):
                return ModelReply(message=await self._ask_reply(request))
        except TimeoutError:
            return ModelReply(failure=f"no answer within {timeout_s:g} s")
        except Exception as error:
            # The provider promises a KodeError; memory must survive a broken promise.
            return ModelReply(failure=str(error) or type(error).__name__)


def cut_middle(text: str, max_chars: int) -> str:
    """Cuts `text` to `max_chars` in the middle, with a line saying how much is missing."""
    if len(text) <= max_chars:
        return text
    marker = f"\n[... {len(text) - max_chars} characters left out ...]\n"
    room = max(0, max_chars - len(marker))
    head = room * 2 // 5
    return text[:head] + marker + text[len(text) - (room - head) :]


def _map_texts(message: Message, edit: Callable[[str], str]) -> Message:
    parts = (
        replace(part, text=edit(part.text)) if isinstance(part, Text | ToolResult) else part
        for part in message.parts
    )
    return replace(message, parts=tuple(parts))


def read_object(answer: str, fields: Sequence[str]) -> tuple[dict[str, Any], bool]:
    """Returns the JSON object in an answer that has one of the `fields`, repaired if broken, and
    whether it is complete (if not, its last value may be partial); `({}, False)` without one."""
    for bracket in itertools.islice(re.finditer(r"\{", answer), MAX_BRACKETS):
        value, _ = broken_json.parse_value_at(answer, bracket.start()) or (None, 0)
        if isinstance(value, dict) and any(name in value for name in fields):
            return value, True
    text = _LAST_FENCE.sub("", answer)
    with contextlib.suppress(ValueError, RecursionError, TypeError):
        beginning = text.index("{")
        import json_repair  # not for an answer without an object

        value = json_repair.loads(text[beginning:])
        if isinstance(value, dict) and any(name in value for name in fields):
            quotes = [mark for mark in re.findall(r'(?s)\\.|"', text) if mark == '"']
            return value, text.rstrip().endswith("}") and len(quotes) % 2 == 0
    return {}, False


def read_numbers(answer: str, count: int) -> list[int] | None:
    """Reads an order such as `2,0`: indices below `count`, each once. The word "none" in any form
    gives an empty list; anything else gives None."""
    text = re.sub(r"```\w*", "", answer).strip("[]().!\"'`* \n").lower()
    if text.split(" ")[0] in ("none", "no", "nothing"):
        return []
    if not re.fullmatch(r"\[?\d+\]?(?:[\s,;]+\[?\d+\]?)*", text):
        return None
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    return list(dict.fromkeys(numbers)) if max(numbers) < count else None

"""Chat Completions, through the official `openai` SDK: OpenAI and the many servers that imitate it.

The SDK opens the connection, signs the request and names the errors. The body is joined from bytes
cached per message, and events are read raw (`stream.py`): the SDK's typed path walks all messages
for every request and hides what a broken server sent. `chat_out.py` has what goes out,
`chat_in.py` what comes in; `Dialect` in `kode.registry` says how hosts differ.

The SDK is imported on the first request, or by `warm_up`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kode.messages import Part, Text, Thinking, ToolCall
from kode.provider import Effort, Request
from kode.providers.chat_in import Incoming
from kode.providers.chat_out import (
    Form,
    answer_format,
    bridged,
    marked,
    message_bytes,
    plain_call,
    system_bytes,
    thinking_fields,
    tool_object,
)
from kode.providers.draft import Draft
from kode.providers.encoding import EncodedTools, Joined, encode_json
from kode.providers.openai_client import open_client, stream_class, url_of
from kode.providers.openai_client import warm_up as warm_up
from kode.providers.provider import HttpProvider, default_max_tokens
from kode.providers.schemas import ANY_FORM, GOOGLE_FORM, FittedTools
from kode.registry import UNSIGNED, Dialect, ProviderSettings, row_at

SCHEMAS = {"": ANY_FORM, "google": GOOGLE_FORM}
MARKS = 2
"""Cache marks on messages, beside the one on the system prompt, which covers the tools."""


class OpenAIChat(HttpProvider):
    """A `Provider` over Chat Completions. Servers other than OpenAI's own may need no key."""

    api = "chat"

    def __init__(self, settings: ProviderSettings) -> None:
        url = url_of(settings)
        super().__init__(settings, base_url=url)
        self.row = row_at(settings.row, url)
        self._tools_fitted = FittedTools(SCHEMAS[self._dialect.schemas])
        self._form = self._form_now()
        self._messages = Joined(partial(message_bytes, form=self._form))
        self._tools = EncodedTools(tool_object)

    @property
    def _dialect(self) -> Dialect:
        return self.row.dialect

    async def _exchange(self, body: bytes, draft: Draft) -> None:
        incoming = Incoming(draft, self._dialect, self._endpoint)
        await self._post("/chat/completions", body, stream_class(), draft, incoming.take)
        incoming.finish()

    def _open(self) -> Any:
        base_url = self._settings.base_url
        return open_client(self.row, self._endpoint, base_url, is_official=self.is_official)

    # ── the request ──────────────────────────────────────────────────────────────────────────

    def _body(self, request: Request) -> bytes:
        tools = self._tools_bytes(request)
        messages = b",".join(self._pieces(request))
        head = encode_json(self._head(request, has_tools=bool(tools)))
        return head[:-1] + tools + b',"messages":[' + messages + b"]}"

    def _head(self, request: Request, *, has_tools: bool) -> dict[str, Any]:
        dialect = self._dialect
        head: dict[str, Any] = {"model": self.model, "stream": True}
        if dialect.counts_usage and "usage" not in self._left_out:
            head["stream_options"] = {"include_usage": True}
        limit = request.max_output_tokens or default_max_tokens(self.info)
        other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
        name = dialect.limit
        head[other[name] if "limit" in self._left_out else name] = limit
        if self.takes_likeliest(request):
            head["temperature"] = 0
        if "thinking" not in self._left_out:
            head |= self._thinking(request)
        if dialect.remembers_by and request.conversation:
            head[dialect.remembers_by] = request.conversation
        if has_tools:
            head |= dialect.with_tools
        if request.answer_schema is not None:
            head |= answer_format(request.answer_schema)
            if has_tools:
                head["tool_choice"] = "none"
        return head

    def _tools_bytes(self, request: Request) -> bytes:
        """The parameter `tools`, with a comma before it; nothing if there are none."""
        kind = self._dialect.search if request.search and "search" not in self._left_out else ""
        search = encode_json({"type": kind}) if kind else b""
        own = self._tools.of(request.tools)[1:-1] if request.tools else b""
        listed = b",".join(each for each in (own, search) if each)
        return b',"tools":[' + listed + b"]" if listed else b""

    def _pieces(self, request: Request) -> list[bytes]:
        """The messages one by one, the system prompt first."""
        form = self._form_now()
        if form != self._form:
            self._form, self._messages = form, Joined(partial(message_bytes, form=form))
        pieces = self._messages.pieces(request.messages)
        if not form.dialect.user_after_result:
            pieces = bridged(pieces)
        if form.marks_cache:
            pieces = marked(pieces, MARKS)
        return [*([system_bytes(request.system, form)] if request.system else []), *pieces]

    def _form_now(self) -> Form:
        """The form of messages, by what is known of the model and what its server has refused."""
        dialect, info, left_out = self._dialect, self.info, self._left_out
        if "thoughts" in left_out:
            dialect = replace(dialect, thinks_in=("reasoning_content",), stands_for_thinking=" ")
        if "signatures" in left_out:
            dialect = replace(dialect, stands_for_signature=UNSIGNED, older_models=())
        return Form(
            dialect=dialect,
            origin="" if left_out & {"own_fields", "signatures"} else self.origin,
            model=self.model.removeprefix("models/"),
            sees_images=info.sees_images is not False,
            sees_pdf=dialect.takes_pdf and info.sees_pdf is not False,
        )

    def effort(self, request: Request) -> Effort | None:
        """How much to think. A level that a person set is sent to a model of which no levels are
        known, too, and "none" to each: the server decides."""
        if "thinking" in self._left_out:
            return None
        if request.effort is None and not self._dialect.unasked:
            return None
        if request.effort == "none" or not self.info.efforts:
            return request.effort
        return super().effort(request)

    def _thinking(self, request: Request) -> dict[str, Any]:
        level = self.effort(request)
        match self._dialect.switch:
            case "google":
                return self._google_thinking(level)
            case "reasoning" if level is None:
                thinks = any(kind != "disabled" for kind in self.info.thinking)
                return {"reasoning": {"enabled": True}} if thinks else {}
            case switch:
                return thinking_settings(switch, level, has_levels=bool(self.info.efforts))

    def _google_thinking(self, level: Effort | None) -> dict[str, Any]:
        """Gemini shows what it thinks if it is asked to, where the level is asked for, too."""
        if self._form.is_older or level == "none" or not self.info.efforts:
            return {"reasoning_effort": level} if level else {}
        config = {"include_thoughts": True} | ({"thinking_level": level} if level else {})
        return {"extra_body": {"google": {"thinking_config": config}}}

    def _plain(self, part: Part) -> Mapping[str, Any] | None:
        match part:
            case Thinking():
                return thinking_fields(part, self._dialect) or None
            case Text():
                return {"type": "text", "text": part.text}
            case ToolCall():
                return plain_call(part, self._dialect)
            case _:
                return None


def thinking_settings(
    switch: str, level: Effort | None, *, has_levels: bool = True
) -> dict[str, Any]:
    """The parameters that ask for a level, by the switch of a host; `has_levels` is whether levels
    of the model are known."""
    on = level != "none"
    kind = "enabled" if on else "disabled"
    leveled: dict[str, Any] = {"reasoning_effort": level} if level and on else {}
    if switch == "zai":
        # Else the server drops what was thought in earlier turns, although it goes back.
        kept: dict[str, Any] = {"clear_thinking": False} if on else {}
        return {"thinking": {"type": kind, **kept}, **leveled}
    if level is None:
        return {}
    match switch:
        case "reasoning_effort":
            return {"reasoning_effort": level}
        case "reasoning":
            return {"reasoning": {"effort": level}}
        case "together":
            return {"reasoning": {"enabled": on}, **leveled}
        case "thinking":
            return {"thinking": {"type": kind}, **leveled}
        case "kimi":
            return leveled if on and has_levels else {"thinking": {"type": kind}}
        case "template":
            return {"chat_template_kwargs": {"enable_thinking": on}}
        case _:
            return {}

"""The Messages API, through the official `anthropic` SDK, imported on the first request.

    messages_out.py        messages → turns, and the marks for the cache
    messages_in.py         events → the draft of a reply
    anthropic_clients.py   the clients: Anthropic's own and the clouds'

Events are read raw (`stream.py`): the SDK's accumulator presents a truncated tool call as a valid
call without arguments.

How much a model thinks is decided by what is known of it (`ModelInfo`), and nothing is sent to a
model of which nothing is known:

    adaptive   it decides itself, between its calls too; `output_config.effort` says how much
    enabled    older models think up to a budget of tokens, see `BUDGETS`
    disabled   for effort `none`; a model without it always thinks, and gets its lowest level
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kode.errors import RefusedError
from kode.messages import Message, Part, ServerItem
from kode.provider import Effort, Request, ToolSpec
from kode.providers.anthropic_clients import open_client
from kode.providers.draft import Draft
from kode.providers.encoding import Encoded, EncodedTools, encode_json
from kode.providers.messages_in import Begun, take
from kode.providers.messages_out import (
    Blocks,
    blocks_of,
    may_think,
    plain_form,
    turns_of,
    wire_turns,
    with_mark,
)
from kode.providers.provider import HttpProvider, default_max_tokens
from kode.providers.schemas import ANTHROPIC_FORM
from kode.providers.stream import Event
from kode.registry import ProviderSettings

BUDGETS: Mapping[Effort, int] = {
    "minimal": 1_024,
    "low": 4_000,
    "medium": 10_000,
    "high": 16_000,
    "xhigh": 24_000,
    "max": 32_000,
}
"""Tokens to think with, for a model without levels of effort. The least is the API's; the reference
advises 16,000 and more for complex tasks, and sees little gain above 32,000. They depend on the
level alone: another budget makes the server read the conversation again."""

LEAST_ANSWER = 8_192
"""Tokens of the output limit that stay for the answer beside a budget, if as many were asked."""

INTERLEAVED = "interleaved-thinking-2025-05-14"
"""The beta header with which a model that thinks by budget does so between its calls too. Known to
Anthropic's own server, which ignores it for other models; clouds refuse it for some."""

SEARCH = {
    "type": "web_search_20260318",
    "name": "web_search",
    # Else newer models search from code that runs in a container, of which a later request would
    # have to name the id, and others refuse the tool.
    "allowed_callers": ["direct"],
}


def warm_up() -> None:
    """Imports the SDK, which takes a while; call it in a thread."""
    import anthropic  # noqa: F401


class AnthropicMessages(HttpProvider):
    """A `Provider` over the Messages API.

    Without a key, the SDK uses another credential: a token, a profile. Other servers than
    Anthropic's may need none. A base URL may end in `/v1` or not.
    """

    api = "messages"
    schema_form = ANTHROPIC_FORM

    def __init__(self, settings: ProviderSettings) -> None:
        row = settings.row
        url = settings.base_url or os.environ.get(row.url_variable) or row.own_url
        super().__init__(settings, base_url=url.rstrip("/").removesuffix("/v1"))
        self._messages: Encoded[Blocks] = Encoded(self._blocks_of)
        self._binds = True
        self._tools = EncodedTools(tool_object)

    async def _exchange(self, body: bytes, draft: Draft) -> None:
        import anthropic

        begun: dict[int, Begun] = {}

        def taken(event: Event) -> None:
            take(event, draft, begun, self._endpoint)

        await self._post(
            "/v1/messages",
            body,
            anthropic.AsyncStream[object],
            draft,
            taken,
            headers=self._headers(),
            # Its client moves the model from the body into the address.
            as_object=self.row.client == "vertex",
        )

    def _open(self) -> Any:
        return open_client(self.row.client, self._endpoint, needs_key=self.is_official)

    def _headers(self) -> dict[str, str]:
        """The header for interleaved thinking, added to the user's own betas."""
        types = self.info.thinking
        if "enabled" not in types or "adaptive" in types or not self.is_official or self.row.client:
            return {}
        given = {name.lower(): value for name, value in self._settings.headers.items()}
        betas = [given["anthropic-beta"]] if given.get("anthropic-beta") else []
        return {"anthropic-beta": ",".join([*betas, INTERLEAVED])}

    def _body(self, request: Request) -> bytes:
        # A single question is never asked again: writing it to the cache would only cost.
        caches = "cache" not in self._left_out and request.conversation != ""
        if (binds := self._binds_now()) != self._binds:
            self._binds, self._messages = binds, Encoded(self._blocks_of)
        turns = turns_of(self._messages.of(request.messages))
        head = self._head(request, may_think(turns))
        pieces = [encode_json(head)[:-1]]
        if tools := self._tools_of(request):
            pieces.append(b',"tools":' + tools)
        if request.system.strip():
            block = encode_json({"type": "text", "text": request.system})
            pieces.append(b',"system":[' + (with_mark(block) if caches else block) + b"]")
        later_system = self.info.later_system and "later_system" not in self._left_out
        wires = wire_turns(turns, later_system=later_system, marks=caches)
        pieces.append(b',"messages":[' + b",".join(wires) + b"]}")
        return b"".join(pieces)

    def _head(self, request: Request, may_think: bool) -> dict[str, Any]:
        """The parameters before tools, system prompt and messages."""
        thinking, effort = self._thinking(request, may_think)
        limit = request.max_output_tokens or default_max_tokens(self.info)
        budget = (thinking or {}).get("budget_tokens", 0)
        if budget:
            limit = max(limit, budget + min(limit, LEAST_ANSWER))
            limit = min(limit, self.info.max_output_tokens)
        head: dict[str, Any] = {"model": self.model, "max_tokens": limit, "stream": True}
        if thinking is not None:
            head["thinking"] = thinking
        if self.takes_likeliest(request) and (thinking or {}).get("type") in (None, "disabled"):
            head["temperature"] = 0
        output: dict[str, Any] = {} if effort is None else {"effort": effort}
        if request.answer_schema is not None:
            output |= answer_format(request.answer_schema)
            if request.tools:
                head["tool_choice"] = {"type": "none"}
        return {**head, "output_config": output} if output else head

    def _thinking(
        self, request: Request, may_think: bool
    ) -> tuple[dict[str, Any] | None, Effort | None]:
        """The `thinking` parameter and the level of effort; None where none is sent."""
        wanted = request.effort or self.info.default_effort
        types = () if "thinking" in self._left_out else self.info.thinking
        level = self.effort(request)
        if wanted == "none" and "disabled" in types:
            return {"type": "disabled"}, None
        level = None if level == "none" else level
        if "adaptive" in types:
            return {"type": "adaptive", "display": "summarized"}, level
        budget = min(BUDGETS.get(wanted or "high", 0), self.info.max_output_tokens // 2)
        if "enabled" in types and may_think and budget >= BUDGETS["minimal"]:
            return {"type": "enabled", "budget_tokens": budget}, level
        return None, level

    def _tools_of(self, request: Request) -> bytes:
        """The declared tools; b"" for none."""
        tools = self._tools.of(request.tools) if request.tools else b"[]"
        if request.search and self.info.searches and "search" not in self._left_out:
            comma = b"," if request.tools else b""
            return tools[:-1] + comma + encode_json(SEARCH) + b"]"
        return tools if request.tools else b""

    def _binds_now(self) -> bool:
        """Whether thinking is bound to what stands before it. A model that thinks by budget binds
        its own to nothing, and wants it back amid its calls whatever became of the past."""
        return "enabled" not in self.info.thinking or self._thinking_refused

    def _blocks_of(self, message: Message) -> Blocks:
        return blocks_of(message, self.origin, self.info, binds=self._binds)

    def _plain(self, part: Part) -> Mapping[str, Any] | None:
        return None if isinstance(part, ServerItem) else plain_form(part)


def tool_object(tool: ToolSpec) -> dict[str, Any]:
    if tool.api_type:
        return {"type": tool.api_type, "name": tool.name}
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.parameters),
    }


def answer_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The part of `output_config` that makes the server enforce a schema. The SDK keeps what the
    API supports; other constraints become part of a description. Raises: RefusedError for an
    unsupported schema."""
    from anthropic import transform_schema

    try:
        taken = transform_schema(dict(schema))
    except (ValueError, TypeError, AssertionError) as error:
        raise RefusedError(f"The Messages API cannot hold an answer to it: {error}.") from None
    return {"format": {"type": "json_schema", "schema": taken}}

"""Responses, through the official `openai` SDK: what OpenAI's own host, Azure and Bedrock speak.

The server keeps nothing (`store: false`): each request holds the whole conversation, and what the
model thought goes back encrypted. A reply is a list of items. Each goes back as it came, unknown
fields and all, because an item names others: thinking without the item after it is refused, and so
is an item without its thinking. So the items of a reply go back all or none; what is left of a
reply that lost one, and what another model wrote, goes in a plain form without ids.

The system prompt is sent as `instructions`, which every server of this format reads ahead of the
input, so that the beginning that its cache compares is the same as with a first message.

Like Chat Completions, the body is joined from bytes cached per message, and events are read raw.
`responses_out.py` has what goes out, `responses_in.py` what comes in.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from kode.events import Emit
from kode.provider import Request
from kode.providers.draft import Draft
from kode.providers.encoding import Encoded, EncodedTools, encode_json
from kode.providers.openai_client import open_client, stream_class, url_of
from kode.providers.openai_client import warm_up as warm_up
from kode.providers.provider import HttpProvider, default_max_tokens
from kode.providers.responses_in import take
from kode.providers.responses_out import (
    Form,
    answer_format,
    function_object,
    message_bytes,
    tool_object,
)
from kode.registry import ProviderSettings

LEAST_OUTPUT_TOKENS = 16
"""OpenAI refuses a smaller `max_output_tokens`."""

WEB_SEARCH = encode_json({"type": "web_search"})


class OpenAIResponses(HttpProvider):
    """A `Provider` over Responses."""

    api = "responses"

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings, base_url=url_of(settings))
        self._endpoint = replace(
            self._endpoint,
            if_missing=f"Where only Chat Completions is spoken, set `providers.{self.name}.api` to "
            '"chat" in the config; else check the base URL, which mostly ends in /v1.',
        )
        self._tools, self._functions = EncodedTools(tool_object), EncodedTools(function_object)
        self._form = self._form_now()
        self._items: Encoded[bytes] = Encoded(partial(message_bytes, form=self._form, custom=set()))

    async def _attempt(self, request: Request, emit: Emit) -> Draft:
        """See `HttpProvider._attempt`. llama.cpp (7e4c0a9) calls an answer completed that its limit
        cut, so one of a server like it that used up the limit counts as cut: half an answer must
        not pass for a whole one, nor half a call run."""
        draft = await super()._attempt(request, emit)
        used = draft.usage.get("output_tokens", 0)
        if not self.is_official and draft.stop == "completed" and used >= self._limit(request):
            draft.stopped("max_output_tokens")
        return draft

    async def _exchange(self, body: bytes, draft: Draft) -> None:
        take_event = partial(take, draft=draft, endpoint=self._endpoint)
        await self._post("/responses", body, stream_class(), draft, take_event)

    def _open(self) -> Any:
        base_url = self._settings.base_url
        return open_client(self.row, self._endpoint, base_url, is_official=self.is_official)

    def _body(self, request: Request) -> bytes:
        head: dict[str, Any] = {
            "model": self.model,
            "stream": True,
            "store": False,
            # Else the server silently drops the oldest items of a conversation that is too long.
            "truncation": "disabled",
            "max_output_tokens": self._limit(request),
            **self._thinking(request),
        }
        if request.conversation and "cache_key" not in self._left_out:
            head["prompt_cache_key"] = request.conversation
        if self.takes_likeliest(request):
            head["temperature"] = 0
        searches = request.search and self.info.searches and "search" not in self._left_out
        include = self._include(searches)
        if include:
            head["include"] = include
        if request.answer_schema is not None:
            head |= answer_format(request.answer_schema)
            if request.tools or searches:
                head["tool_choice"] = "none"
        if request.system:
            head["instructions"] = request.system
        form_of = self._functions if "free_text" in self._left_out else self._tools
        tools = [form_of.of(request.tools)[1:-1]] if request.tools else []
        tools += [WEB_SEARCH] if searches else []
        declared = b',"tools":[' + b",".join(tools) + b"]" if tools else b""
        if (form := self._form_now()) != self._form:
            self._form = form
            self._items = Encoded(partial(message_bytes, form=form, custom=set()))
        items = b",".join(filter(None, self._items.of(request.messages)))
        return encode_json(head)[:-1] + declared + b',"input":[' + items + b"]}"

    def _limit(self, request: Request) -> int:
        """The tokens that an answer may have, thinking included."""
        return max(request.max_output_tokens or default_max_tokens(self.info), LEAST_OUTPUT_TOKENS)

    def _form_now(self) -> Form:
        info, left_out = self.info, self._left_out
        is_vendor = self.row.needs_key or bool(self.row.client)
        return Form(
            origin=self.origin,
            developer=is_vendor and "later_system" not in left_out,
            marks=info.cache_marks and "cache_marks" not in left_out,
            sees_images=info.sees_images is not False,
            sees_pdf=info.sees_pdf is not False,
            pictures_in_results="pictures_in_results" not in left_out,
            # Before that it goes back: it is not bound to what stands before it here.
            drops_moved=self._thinking_refused,
        )

    def _thinking(self, request: Request) -> dict[str, Any]:
        """The parameter that says how much to think, for a model that thinks. A summary is asked
        for: without it a person sees nothing while the model thinks."""
        if not self.info.efforts:
            return {}
        effort = self.effort(request)
        if effort == "none":
            return {"reasoning": {"effort": "none"}}
        wanted: dict[str, str] = {"effort": effort} if effort else {}
        if "summary" not in self._left_out:
            wanted["summary"] = "auto"
        return {"reasoning": wanted} if wanted else {}

    def _include(self, searches: bool) -> list[str]:
        """What to add to the answer: the encrypted thinking, which older models send only then,
        and which a model that does not think refuses to send; the pages that a search found."""
        thinks = bool(self.info.efforts) and "thinking_back" not in self._left_out
        return [
            *(["reasoning.encrypted_content"] if thinks else []),
            *(["web_search_call.action.sources"] if searches else []),
        ]

"""A provider over HTTP: one request and its answer through an SDK's client, in one wire format.

The SDK opens the connection, signs the request and names the errors. The body is joined from bytes
cached per message, and events are read raw (`stream.py`): the SDK's typed path walks all messages
for every request, hides what a broken server sent, and presents a truncated call as a whole one.
"""

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kode.errors import ContextOverflow, RefusedError, ThinkingRefused
from kode.events import Emit, Notice, loading_notice, silent
from kode.messages import Message
from kode.provider import Api, Effort, Request, ToolSpec
from kode.providers.clients import open_client, sdk_of
from kode.providers.draft import Draft
from kode.providers.encoding import EncodedMessages, WireForm, encode_json, used_ids
from kode.providers.errors import Endpoint, translate_errors
from kode.providers.models import refine_info
from kode.providers.request import (
    Omissions,
    Target,
    crowd_out,
    explain_images,
    fit_tools,
    prepare_request,
    repair_request,
)
from kode.providers.schemas import SchemaForm
from kode.providers.server import PATIENCE_S, ask_facts, is_near
from kode.providers.stream import Deadline, Event, read_reply
from kode.registry import Dialect, ProviderSettings, host_of, row_at, unset


@dataclass(frozen=True)
class ReplyReader:
    """Fills a draft with the events of one reply."""

    read_event: Callable[[Event], None]
    finish: Callable[[], None] = lambda: None
    """Called after the last event."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """One wire format: how requests go out and replies come in."""

    api: Api
    path: str
    """Where requests go, behind the base URL."""
    schema_form: Callable[[Dialect], SchemaForm]
    form_of: Callable[[Target], WireForm]
    message_encoder: Callable[[WireForm], Callable[[Message], Any]]
    """Makes what encodes the messages of a session, once each."""
    encode_request: Callable[[Request, Target, Sequence[Any], bytes], bytes]
    """The body, from the encoded messages and the list of tools as JSON."""
    tool_object: Callable[[ToolSpec, Target], Mapping[str, Any]]
    reply_reader: Callable[[Draft, Endpoint, Target, Request], ReplyReader]
    effort: Callable[[Request, Target], Effort | None] = lambda request, target: target.effort(
        request
    )
    """How much to think; None sends nothing."""
    headers: Callable[[Target], Mapping[str, str]] = lambda target: {}
    joins_users: bool = False
    """As in `EncodedMessages`."""
    if_missing: str = "Check the base URL: for most servers it ends in /v1."
    """What to do where the server does not have the path; `{name}` is the provider's."""


class HttpProvider:
    """A `Provider` over an SDK's client, which is opened on the first request."""

    def __init__(self, settings: ProviderSettings, wire_format: Format) -> None:
        row = settings.row
        url = settings.base_url or os.environ.get(row.url_variable) or row.own_url
        if wire_format.api == "messages":
            url = url.rstrip("/").removesuffix("/v1")
        elif row.client:
            url = url or row.shown  # the SDK finds the address: there it is a name for error texts
        self.api, self.name, self.model = wire_format.api, row.name, settings.model
        self.row = row_at(row, url)
        self.info = settings.info
        self.omitted = Omissions()
        self.learned: dict[str, Any] = {}
        """What the server said, as fields of `info`."""
        self._format = wire_format
        self._settings = settings
        self._endpoint = Endpoint(
            name=row.name,
            base_url=url,
            model=settings.model,
            api=wire_format.api,
            used={**unset(row), **settings.used},
            api_key=(settings.api_key or os.environ.get(row.key_variable) or "").strip(),
            if_missing=wire_format.if_missing.format(name=row.name),
        )
        self._client: Any = None
        self._opening = asyncio.Lock()
        self._questions = 0
        self._form = wire_format.form_of(self.target)
        self._messages = self._encoded_messages()
        self._tools: tuple[tuple[ToolSpec, ...], Omissions, tuple[ToolSpec, ...], bytes] | None
        self._tools = None
        """The tools of the last request, what was omitted then, and what became of them."""
        self._notes: set[str] = set()
        """What a person was told of tools that were left out."""

    def warm_up(self) -> None:
        """Imports the SDK, which takes a while; call it in a thread."""
        sdk_of(self.api)

    @property
    def is_official(self) -> bool:
        """Whether this is the vendor's own server, or a cloud's, which parses every call itself."""
        own = host_of(self.row.own_url)
        is_own = own != "" and host_of(self._endpoint.base_url) == own
        is_cloud = bool(self.row.client) and not self._settings.base_url
        return is_cloud or (self.row.needs_key and is_own)

    @property
    def target(self) -> Target:
        return Target(
            api=self.api,
            row=self.row,
            model=self.model,
            info=self.info,
            is_official=self.is_official,
            omitted=self.omitted,
            headers=self._settings.headers,
            cache=self._settings.cache,
        )

    def effort(self, request: Request) -> Effort | None:
        """The level of effort that a request carries; None for none."""
        return self._format.effort(request, self.target)

    async def learn(self, emit: Emit = silent, patience_s: float = PATIENCE_S) -> bool:
        """Refines what is known of the model by what its server says (`server.py`). Asks again if
        that has no window: some servers know theirs only when the model is loaded. Returns whether
        it will not ask again. Never raises."""
        if self._questions < 2:
            self._questions += 1
            fixed = self._settings.fixed
            report = partial(emit, loading_notice(self.model))
            facts = await ask_facts(self.row, self._endpoint, fixed, report, patience_s)
            if "context_window" in facts or not is_near(self._endpoint.base_url):
                self._questions = 2
            self.learned.update(facts)
            self.info = refine_info(self.info, facts, self.model, fixed)
        return self._questions == 2

    async def reply(self, request: Request, emit: Emit) -> Message:
        """Makes one attempt at one reply; see `kode.provider.Provider`. After a refusal the request
        is repaired where that is possible, and sent again.

        Raises: ThinkingRefused also.
        """
        while True:
            draft = Draft(self.target.origin, emit, splits_thoughts=not self.is_official)
            try:
                async with self._opening:  # in a thread: what it imports takes seconds
                    self._client = self._client or await asyncio.to_thread(self._open)
                with translate_errors(self._endpoint):
                    await self._post(request, draft)
                break
            except ContextOverflow as overflow:
                if overflow.window and overflow.window < self.info.context_window:
                    window = {"context_window": overflow.window}
                    self.info = refine_info(self.info, window, self.model)
                raise
            except RefusedError as refused:
                repair = None
                if not draft.parts:
                    prepared = self._prepare(request, emit)
                    repair = repair_request(refused, prepared, self.omitted, self.api)
                if repair is None and isinstance(refused, ThinkingRefused):
                    refusals = self.omitted.parts | {"bound_thinking"}
                    self.omitted = replace(self.omitted, parts=refusals)
                if repair is None:
                    raise explain_images(refused, request) from refused
                self.omitted, note = repair
                emit(Notice(text=note))
        message = draft.finish(self.model, used_ids(request.messages) if draft.calls else ())
        if self.is_official:
            return message
        from kode.providers.written_calls import read_written_calls

        return read_written_calls(message, request)

    def encode(self, request: Request, emit: Emit = silent) -> bytes:
        """The body of a request; `emit` gets a line for each tool that no request can carry."""
        prepared = self._prepare(request, emit)
        images = self.omitted.images | crowd_out(prepared.messages)
        target = replace(self.target, omitted=replace(self.omitted, images=images))
        if (form := self._format.form_of(target)) != self._form:
            self._form = form
            self._messages = self._encoded_messages()
        messages = self._messages.of(prepared.messages)
        tools = self._tools[3] if self._tools is not None else b"[]"
        return self._format.encode_request(prepared, target, messages, tools)

    def _encoded_messages(self) -> EncodedMessages:
        encode = self._format.message_encoder(self._form)
        return EncodedMessages(encode, joins_users=self._format.joins_users)

    def _prepare(self, request: Request, emit: Emit) -> Request:
        """The request as this server takes it. The tools are fitted and encoded again only if they
        or what is omitted change."""
        last = self._tools
        if last is None or last[0] is not request.tools or last[1] is not self.omitted:
            form = self._format.schema_form(self.row.dialect)
            tools, notes = fit_tools(request.tools, form, self.omitted)
            for note in notes:
                if note not in self._notes:
                    emit(Notice(text=note))
            self._notes.update(notes)
            objects = [self._format.tool_object(tool, self.target) for tool in tools]
            last = self._tools = (request.tools, self.omitted, tools, encode_json(objects))
        return prepare_request(request, last[2], self.info, self.omitted)

    def _open(self) -> Any:
        """The client, whose address is known from now on where a cloud's region decides it. Raises:
        UserError for a missing or impossible key."""
        url = self._settings.base_url
        with translate_errors(self._endpoint):
            client = open_client(
                self.api, self.row, self._endpoint, url, is_official=self.is_official
            )
        if not self._endpoint.base_url:
            self._endpoint = replace(self._endpoint, base_url=str(client.base_url).rstrip("/"))
        return client

    async def _post(self, request: Request, draft: Draft) -> None:
        """Posts a request and fills the draft with the answer.

        Raises: ProviderError; what the SDK and its HTTP client raise passes through.
        """
        settings, endpoint, target = self._settings, self._endpoint, self.target
        body = self.encode(request, draft.emit)
        prepared = self._prepare(request, draft.emit)
        reader = self._format.reply_reader(draft, endpoint, target, prepared)
        limits = (settings.idle_timeout_s, settings.total_timeout_s)
        deadline = Deadline(*limits, endpoint, is_patient=is_near(endpoint.base_url))
        headers = {
            "Content-Type": "application/json",
            **settings.headers,
            **self._format.headers(target),
        }
        # Vertex' client moves the model from the body into the address.
        content = {"body": json.loads(body)} if self.row.client == "vertex" else {"content": body}
        async with deadline:
            stream = await self._client.post(
                self._format.path,
                **content,
                cast_to=object,
                # A redirect would carry the key and the conversation to another host.
                options={"headers": headers, "follow_redirects": False},
                stream=True,
                stream_cls=sdk_of(self.api).AsyncStream[object],
            )
            await read_reply(stream.response, draft, reader.read_event, deadline)
        reader.finish()

    async def aclose(self) -> None:
        """Closes the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

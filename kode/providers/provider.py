"""One request and its answer through an SDK's client, shared by the wire formats.

The providers decide where a request goes, what it contains and what an event means.
"""

import asyncio
import functools
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from kode.errors import ContextOverflow, RefusedError, ThinkingRefused
from kode.events import Emit, Notice, loading_notice, silent
from kode.messages import Message, Part, Text, Thinking, ToolCall
from kode.provider import EFFORTS, Api, Effort, ModelInfo, Request
from kode.providers.draft import Draft
from kode.providers.encoding import encode_json, pictures_named, split_context_message, used_ids
from kode.providers.errors import Endpoint, translate_errors
from kode.providers.models import refined
from kode.providers.refusals import read_table, refused_tool, setting_to_leave_out
from kode.providers.schemas import ANY_FORM, FittedTools, SchemaForm
from kode.providers.server import PATIENCE_S, ask_facts, is_near
from kode.providers.stream import Deadline, Event, read_reply, refuse
from kode.registry import ProviderSettings, host_of, unset

if TYPE_CHECKING:
    import ssl

CONNECT_TIMEOUT_S = 15.0  # a slow network, but no dead one


def client_settings(http_client_class: Any, endpoint: Endpoint) -> dict[str, Any]:
    """Arguments for an SDK's client that leave retries, time limits and faults to kode.
    `http_client_class` is the SDK's own `DefaultAsyncHttpxClient`."""
    import httpx2

    return {
        "max_retries": 0,
        # `Deadline` limits pauses and the total; the client's own limits are per read.
        "timeout": httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
        "http_client": http_client_class(
            event_hooks={"response": [lambda response: refuse(response, endpoint)]},
            verify=_trusted() if endpoint.base_url.startswith("https") else _untrusting(),
        ),
    }


@functools.cache
def _trusted() -> "ssl.SSLContext":
    """The trusted certificates, read once: per client they would take most of a conversation's
    memory, and reading blocks the event loop."""
    import httpx2

    return httpx2.create_ssl_context()


@functools.cache
def _untrusting() -> "ssl.SSLContext":
    """For an address without encryption, of which reading certificates would be a tenth of the way
    to the first answer: no certificate is trusted, wherever such a server redirects to."""
    import ssl

    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def default_max_tokens(info: ModelInfo) -> int:
    """The output limit of a request that sets none: without one, a model that repeats itself never
    ends. Servers refuse a request whose input and limit together exceed the window, so the model's
    maximum is used only if it leaves five sixths of the window to the conversation."""
    return max(1, min(info.max_output_tokens, info.context_window // 6))


def nearest_effort(wanted: Effort | None, accepted: Sequence[Effort]) -> Effort | None:
    """The accepted level next to the wanted one, the lower of two as near; None for none."""
    if wanted is None or not accepted:
        return None
    position = EFFORTS.index(wanted)
    return min(
        accepted, key=lambda level: (abs(EFFORTS.index(level) - position), EFFORTS.index(level))
    )


class HttpProvider(ABC):
    """A `Provider` over an SDK's client, which is opened on the first request."""

    api: ClassVar[Api]
    schema_form: SchemaForm = ANY_FORM

    def __init__(self, settings: ProviderSettings, *, base_url: str) -> None:
        row = settings.row
        self.name = row.name
        self.row = row
        self.model = settings.model
        self.info = settings.info
        self._settings = settings
        self._endpoint = Endpoint(
            name=row.name,
            base_url=base_url,
            model=settings.model,
            used={**unset(row), **settings.used},
            api_key=(settings.api_key or os.environ.get(row.key_variable) or "").strip(),
        )
        self._client: Any = None
        self._tools_fitted = FittedTools(self.schema_form)
        self._opening = asyncio.Lock()
        self.learned: dict[str, Any] = {}
        """What the server said, as fields of `info`."""
        self._asked = 0
        self._said_reading = False
        self._left_out: frozenset[str] = frozenset()
        """What this server has refused, and is not sent again: keys of `RefusalTable.then`."""
        self._thinking_refused = False
        """Whether it did not take thinking back: that of moved messages stays away then."""

    async def learn(self, emit: Emit = silent, patience_s: float = PATIENCE_S) -> bool:
        """Refines what is known of the model by what its server says (`server.py`). Asks again if
        that has no window: some servers know theirs only when the model is loaded. Returns whether
        it will not ask again. Never raises."""
        if self._asked < 2:
            self._asked += 1
            say_so = partial(emit, loading_notice(self.model))
            given = self._settings.given
            facts = await ask_facts(self.row, self._endpoint, given, say_so, patience_s)
            if "context_window" in facts or not is_near(self._endpoint.base_url):
                self._asked = 2
            self.learned.update(facts)
            self.info = refined(self.info, facts, self.model, given)
        return self._asked == 2

    def _take_window(self, tokens: int) -> None:
        output = min(self.info.max_output_tokens, max(1, tokens // 2))
        self.info = replace(self.info, context_window=tokens, max_output_tokens=output, known=True)

    def _say_reading(self, emit: Emit) -> None:
        """Emits one line, once per process, while a local server reads a request."""
        if not self._said_reading:
            self._said_reading = True
            url, limit_s = self._endpoint.shown_url, self._settings.total_timeout_s
            text = f"{url} has sent nothing yet: it may still read the request or load the model. "
            text += (
                f"kode waits for it, at most {limit_s:g} s (`retry.total_timeout_s` in the config)."
            )
            emit(Notice(text=text, level="info"))

    @property
    def is_official(self) -> bool:
        """Whether this is the vendor's own server, or a cloud's, which parses every call itself."""
        own = host_of(self.row.own_url)
        is_own = own != "" and host_of(self._endpoint.base_url) == own
        is_cloud = bool(self.row.client) and not self._settings.base_url
        return is_cloud or (self.row.needs_key and is_own)

    def takes_likeliest(self, request: Request) -> bool:
        """Whether to ask for temperature 0: for a small model, but not at the vendor's host, whose
        models may refuse the parameter."""
        refused = "temperature" in self._left_out or self.info.takes_temperature is False
        return request.small and not self.is_official and not refused

    @property
    def origin(self) -> str:
        """Marks this model's replies: only it gets them back in their own form."""
        return f"{self.api}:{self.name}/{self.model}"

    def effort(self, request: Request) -> Effort | None:
        """How much to think, as a level that this model has; None sends nothing."""
        if self._left_out & {"thinking", "effort"}:
            return None
        return nearest_effort(request.effort or self.info.default_effort, self.info.efforts)

    async def reply(self, request: Request, emit: Emit) -> Message:
        """Makes one attempt at one reply; see `kode.provider.Provider`.

        Raises: ThinkingRefused also.
        """
        messages = split_context_message(request.messages) if request.small else request.messages
        tools = self._tools_fitted.of(request.tools, emit)
        try:
            draft = await self._attempt(replace(request, messages=messages, tools=tools), emit)
        except ContextOverflow as overflow:
            if overflow.window and overflow.window < self.info.context_window:
                self._take_window(overflow.window)
            raise
        message = draft.finish(self.model, used_ids(request.messages) if draft.calls else ())
        parts = tuple(self._lean(part) for part in message.parts)
        message = replace(message, parts=parts)
        if self.is_official:
            return message
        from kode.providers.written_calls import read_written_calls

        return read_written_calls(message, request)

    async def _attempt(self, request: Request, emit: Emit) -> Draft:
        """Sends the request; once more without a setting that the server refuses, which is then
        left out as long as this provider is open, with one line that says so."""
        while True:
            draft = Draft(self.origin, emit)
            try:
                async with self._opening:  # in a thread: what it imports takes seconds
                    self._client = self._client or await asyncio.to_thread(self._opened)
                with pictures_named(request.messages), translate_errors(self._endpoint):
                    await self._exchange(self._body(request), draft)
                return draft
            except RefusedError as refused:
                if not draft.blocks and (
                    tool := refused_tool(refused, [tool.name for tool in request.tools])
                ):
                    request = replace(request, tools=self._tools_fitted.leave_out(tool))
                    emit(Notice(text=f"{refused} kode continues without the tool {tool}."))
                    continue
                setting = setting_to_leave_out(self.api, refused)
                if not setting or setting in self._left_out or draft.blocks:
                    if isinstance(refused, ThinkingRefused):
                        self._thinking_refused = True
                    raise
                self._left_out |= {setting}
                emit(Notice(text=f"{refused} {read_table().then[setting]}"))

    def _opened(self) -> Any:
        """The client, whose address is known from now on where a cloud's region decides it."""
        with translate_errors(self._endpoint):
            client = self._open()
        if not self._endpoint.base_url:
            self._endpoint = replace(self._endpoint, base_url=str(client.base_url).rstrip("/"))
        return client

    def _lean(self, part: Part) -> Part:
        """A part without its own form, if its plain form is the same bytes: sessions stay small."""
        if not isinstance(part, Text | Thinking | ToolCall) or part.own is None:
            return part
        bare = replace(part, own=None)
        plain = self._plain(bare)
        same = plain is not None and encode_json(plain) == encode_json(part.own)
        return bare if same else part

    def _plain(self, part: Part) -> Mapping[str, Any] | None:
        """How a part of this model's own reply without an own form is sent back; None if its own
        form cannot be derived."""
        return None

    async def aclose(self) -> None:
        """Closes the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    @abstractmethod
    def _open(self) -> Any:
        """Opens the client. Raises: UserError for a missing or impossible key."""

    @abstractmethod
    def _body(self, request: Request) -> bytes: ...

    @abstractmethod
    async def _exchange(self, body: bytes, draft: Draft) -> None:
        """Posts a body and fills the draft with the answer, using `_post`."""

    async def _post(
        self,
        path: str,
        body: bytes,
        stream_class: Any,
        draft: Draft,
        take: Callable[[Event], None],
        *,
        headers: Mapping[str, str] | None = None,
        as_object: bool = False,
    ) -> None:
        """Posts a body and feeds the events of the answer to `take`, which fills the draft.
        `stream_class` is the SDK's own `AsyncStream[object]`; `headers` are added to the user's.
        With `as_object` the SDK's client gets the body decoded, because it changes it.

        Raises: ProviderError; what the SDK and its HTTP client raise passes through.
        """
        settings, endpoint = self._settings, self._endpoint
        reading = partial(self._say_reading, draft.emit) if is_near(endpoint.base_url) else None
        deadline = Deadline(settings.idle_timeout_s, settings.total_timeout_s, endpoint, reading)
        async with deadline:
            stream = await self._client.post(
                path,
                **({"body": json.loads(body)} if as_object else {"content": body}),
                cast_to=object,
                options={
                    "headers": {
                        "Content-Type": "application/json",
                        **settings.headers,
                        **(headers or {}),
                    },
                    # A redirect would carry the key and the conversation to another host.
                    "follow_redirects": False,
                },
                stream=True,
                stream_cls=stream_class,
            )
            await read_reply(stream.response, draft, take, deadline)

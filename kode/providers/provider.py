"""A provider over HTTP: one request and its answer through an SDK's client, in one wire format.

The SDK opens the connection, signs the request and names the errors. The body is joined from bytes
cached per message, and events are read raw (`stream.py`): the SDK's typed path walks all messages
for every request, hides what a broken server sent, and presents a truncated call as a whole one.
"""

import asyncio
import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any

from kode.errors import ConfigError, ContextOverflow, RefusedError, Setting, ThinkingRefused
from kode.events import Emit, Notice, make_loading_notice, no_emit
from kode.installed import require_extra
from kode.messages import Message
from kode.provider import Api, ModelInfo, Request, ToolSpec
from kode.providers import ProviderSettings, row_at
from kode.providers.draft import Draft
from kode.providers.errors import Endpoint, missing_key_error, translate_errors
from kode.providers.models import refine_info
from kode.providers.request import (
    EncodedMessages,
    Omissions,
    Target,
    choose_dropped_pictures,
    encode_json,
    fit_tools,
    prepare_request,
    repair_request,
    used_ids,
)
from kode.providers.server import PATIENCE_S, ask_facts, is_near, tls_context
from kode.providers.stream import Deadline, StreamEvent, check_response, read_reply
from kode.registry import ProviderRow, host_of, settings_to_set
from kode.values import Value, replace

CONNECT_TIMEOUT_S = 15.0  # a slow network, but no dead one

EventReader = tuple[Callable[[StreamEvent], None], Callable[[], None]]
"""A function that adds an event to the draft, and one that is called after the last event."""


class WireFormat(Value):
    """One wire format: how requests go out and replies come in."""

    api: Api
    path: str
    """The path of requests, which is appended to the base URL."""
    message_encoder: Callable[[Target], Callable[[Message], Any]]
    """Makes the function that encodes the messages of a session, each of them once."""
    encode_request: Callable[[Request, Target, Sequence[Any], bytes], bytes]
    """The body, from the encoded messages and the list of tools as JSON."""
    tool_object: Callable[[ToolSpec, Target], Mapping[str, Any]]
    event_reader: Callable[[Draft, Endpoint, Target, Request], EventReader]


class HttpProvider:
    """A `Provider` over an SDK's client, which is opened on the first request."""

    def __init__(self, settings: ProviderSettings, wire_format: WireFormat) -> None:
        row = settings.row
        url = settings.base_url or os.environ.get(row.url_variable) or row.own_url
        if wire_format.api == "messages":
            url = url.rstrip("/").removesuffix("/v1")
        elif row.client:
            url = url or row.shown  # the SDK finds the address: there it is a name for error texts
        self.api, self.name, self.model, self.row = wire_format.api, row.name, settings.model, row
        is_cloud = bool(row.client) and not settings.base_url
        is_own = row.needs_key and host_of(url) == host_of(row.own_url) != ""
        self.target = Target(
            api=wire_format.api,
            row=row_at(row, url),
            model=settings.model,
            info=settings.info,
            is_official=is_cloud or is_own,
            cache=settings.cache,
        )
        self._format, self._settings = wire_format, settings
        self._endpoint = Endpoint(
            name=row.name,
            base_url=url,
            model=settings.model,
            api=wire_format.api,
            used={**settings_to_set(row), **settings.used},
            api_key=(settings.api_key or os.environ.get(row.key_variable) or "").strip(),
        )
        self._client: Any = None
        self._opening = asyncio.Lock()
        self._questions = 0
        self._encoded: tuple[Target, EncodedMessages] | None = None
        self._crowded: set[str] = set()
        """kode's copies of attachments that did not fit into a request, as the person was told."""
        self._tools: tuple[tuple[ToolSpec, ...], Omissions, tuple[ToolSpec, ...], bytes] | None
        self._tools = None
        """The last request's tools, what was omitted then, the fitted tools, and their JSON."""

    @property
    def info(self) -> ModelInfo:
        return self.target.info

    async def learn(self, emit: Emit = no_emit, patience_s: float = PATIENCE_S) -> bool:
        """Refines what is known about the model by asking its server (`server.py`), at most twice:
        some servers know the window only once the model is loaded. Returns whether it will not ask
        again. Never raises."""
        if self._questions < 2:
            self._questions += 1
            fixed = self._settings.fixed
            report = partial(emit, make_loading_notice(self.model))
            facts = await ask_facts(self.row, self._endpoint, fixed, report, patience_s)
            if "context_window" in facts or not is_near(self._endpoint.base_url):
                self._questions = 2
            self._refine_info(facts)
        return self._questions == 2

    def _refine_info(self, facts: Mapping[str, Any]) -> None:
        info = refine_info(self.info, facts, self.model, self._settings.fixed)
        self.target = replace(self.target, info=info)

    async def reply(self, request: Request, emit: Emit) -> Message:
        """Makes one attempt at one reply; see `kode.provider.Provider`. After a refusal the request
        is repaired where that is possible, and sent again.

        Raises: ThinkingRefused also.
        """
        while True:
            target, prepared = self.target, self._prepare(request, emit)
            writes_thoughts = not target.is_official or target.row.dialect.switch == "google"
            draft = Draft(target.origin, emit, splits_thoughts=writes_thoughts)
            try:
                async with self._opening:  # in a thread: what it imports takes seconds
                    self._client = self._client or await asyncio.to_thread(self._open)
                with translate_errors(self._endpoint):
                    await self._post_request(prepared, draft)
                break
            except ContextOverflow as overflow:
                if overflow.window and overflow.window < self.info.context_window:
                    self._refine_info({"context_window": overflow.window})
                raise
            except RefusedError as refused:
                repair = None if draft.parts else repair_request(refused, prepared, target)
                if repair is None and isinstance(refused, ThinkingRefused):
                    self.target = target.omit(parts=target.omitted.parts | {"bound_thinking"})
                if repair is None:
                    raise
                self.target = replace(target, omitted=repair[0])
                emit(Notice(text=repair[1]))
        message = draft.finish(self.model, used_ids(request.messages) if draft.calls else ())
        if target.is_official:
            return message
        from kode.providers.written_calls import read_written_calls

        return read_written_calls(message, request)

    def _encode(self, prepared: Request, emit: Emit) -> bytes:
        target, crowded = self.target, choose_dropped_pictures(prepared.messages, self.info)
        if names := [crowded[path].name for path in crowded if path not in self._crowded]:
            more = f" and {len(names) - 3:,} more" if names[3:] else ""
            text = "A request cannot hold all pictures and PDFs of this conversation. The model "
            emit(Notice(text=f"{text}does not see {', '.join(names[:3])}{more}."))
        self._crowded.update(crowded)
        target = target.omit(images=target.omitted.images.union(crowded))
        if self._encoded is None or self._encoded[0] != target:
            encode = self._format.message_encoder(target)
            self._encoded = target, EncodedMessages(encode, joins_users=self.api == "chat")
        messages = self._encoded[1].of(prepared.messages)
        tools = self._tools[3] if self._tools is not None else b"[]"
        return self._format.encode_request(prepared, target, messages, tools)

    def _prepare(self, request: Request, emit: Emit) -> Request:
        """The request as this server takes it. The tools are fitted and encoded again only if they
        or what is omitted change."""
        last, omitted = self._tools, self.target.omitted
        if last is None or last[0] is not request.tools or last[1] is not omitted:
            tools, notes = fit_tools(request.tools, self.target)
            for note in notes:
                emit(Notice(text=note))
            objects = [self._format.tool_object(tool, self.target) for tool in tools]
            last = self._tools = (request.tools, omitted, tools, encode_json(objects))
        return prepare_request(request, last[2], self.info, omitted)

    def _open(self) -> Any:
        """Opens the client and, for a cloud whose region decides the address, records the address.
        Raises: UserError for a missing or impossible key."""
        url = self._settings.base_url
        with translate_errors(self._endpoint):
            client = open_client(self.row, self._endpoint, url, is_official=self.target.is_official)
        if not self._endpoint.base_url:
            self._endpoint = replace(self._endpoint, base_url=str(client.base_url).rstrip("/"))
        return client

    async def _post_request(self, prepared: Request, draft: Draft) -> None:
        """Posts a prepared request and fills the draft with the answer.

        Raises: ProviderError; what the SDK and its HTTP client raise passes through.
        """
        settings, endpoint = self._settings, self._endpoint
        body = self._encode(prepared, draft.emit)
        read_event, finish = self._format.event_reader(draft, endpoint, self.target, prepared)
        deadline = Deadline(settings.retry, endpoint, is_patient=is_near(endpoint.base_url))
        headers = {"Content-Type": "application/json", **settings.headers}
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
                stream_cls=import_sdk(self.api).AsyncStream[object],
            )
            await read_reply(stream.response, draft, read_event, deadline)
        finish()

    async def aclose(self) -> None:
        """Closes the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()


class LateTypes(SourceFileLoader):
    """Puts off executing the packages of OpenAI's types, most of the SDK's memory and time, until
    something in them is used; `importlib.util.LazyLoader` would execute them for any submodule."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name.startswith("openai.types") else None
        if spec is None or not spec.origin or not spec.submodule_search_locations:
            return None
        spec.loader = cls(name, spec.origin)
        return spec

    def exec_module(self, module: Any) -> None:
        def execute(name: str) -> Any:
            del module.__getattr__
            SourceFileLoader.exec_module(self, module)
            return getattr(module, name)

        module.__getattr__ = execute


def import_sdk(api: str) -> Any:
    """The module of the SDK that has the client for a format; its import takes a while."""
    name = "anthropic" if api == "messages" else "openai"
    if LateTypes not in sys.meta_path:
        sys.meta_path.insert(0, LateTypes)
    return importlib.import_module(name)


def open_client(
    row: ProviderRow, endpoint: Endpoint, base_url: str | None, *, is_official: bool
) -> Any:
    """Opens the client for a row. `base_url` is the one in the settings; a server that is not
    official may need no key.

    Raises: UserError for a missing or impossible key, address, region, project or package.
    """
    import httpx2

    api, key, sdk = endpoint.api, endpoint.api_key, import_sdk(endpoint.api)
    if not (key.isascii() and key.isprintable()):
        raise missing_key_error(endpoint)
    # Retries, time limits and faults are kode's own: `Deadline` limits pauses and the total.
    options = {
        "max_retries": 0,
        "timeout": httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
        "http_client": sdk.DefaultAsyncHttpxClient(
            event_hooks={"response": [lambda response: check_response(response, endpoint)]},
            verify=tls_context(endpoint.base_url.startswith("https")),
        ),
    }
    if row.client and (api == "messages" or row.client == "bedrock"):
        return _open_cloud(row, endpoint, base_url, options)
    if api == "messages":
        # None: the SDK looks for another credential, a token or a profile.
        credential = key or (None if is_official else "none")
        client = sdk.AsyncAnthropic(base_url=endpoint.base_url, api_key=credential, **options)
        if not (client.api_key or client.auth_token or client.credentials):
            raise missing_key_error(endpoint)
        return client
    if not endpoint.base_url:
        raise ConfigError(f"{row.shown} has no address.").about(endpoint.setting("base_url"))
    if not key and is_official and row.needs_key:
        raise missing_key_error(endpoint)
    return sdk.AsyncOpenAI(base_url=endpoint.base_url, api_key=key or "none", **options)


CLOUD_CLIENTS = {
    "bedrock": "AsyncAnthropicBedrockMantle",
    "vertex": "AsyncAnthropicVertex",
    "foundry": "AsyncAnthropicFoundry",
}
PROJECT = "ANTHROPIC_VERTEX_PROJECT_ID"


def _open_cloud(row: ProviderRow, endpoint: Endpoint, base_url: str | None, options: Any) -> Any:
    """The client of a cloud, which finds region, resource and credentials in the environment. A key
    is the bearer token of Bedrock and Foundry, the access token of Vertex. Raises: UserError."""
    api, key = endpoint.api, endpoint.api_key
    kind = "access_token" if row.client == "vertex" else "api_key"
    if not key and row.needs_key:
        raise missing_key_error(endpoint)
    if row.client == "vertex" and not os.environ.get(PROJECT):
        raise ConfigError(f"{row.shown} needs a project, and CLOUD_ML_REGION.").about(
            Setting(PROJECT, PROJECT)
        )
    if not key:
        require_extra(row.client)
    url = endpoint.base_url if api == "messages" else base_url
    account = {name: value for name, value in (("base_url", url), (kind, key)) if value}
    try:
        if api == "messages":
            return getattr(import_sdk(api), CLOUD_CLIENTS[row.client])(**account, **options)
        from openai.providers.bedrock import bedrock

        return import_sdk(api).AsyncOpenAI(provider=bedrock(**account), **options)  # type: ignore[arg-type]
    except Exception as error:  # each client has its own for a missing region or resource
        raise ConfigError(
            f"The client for {row.shown} could not be opened: {error} It reads the key and "
            f"{', '.join(row.reads)}."
        ).about(endpoint.setting("api_key")) from None

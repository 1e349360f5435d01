"""Asks a server on this machine or network what it says of its model. The window depends on how it
was started, not on the model; Ollama silently truncates longer requests, so the size must be known
before.

    llama.cpp   meta.n_ctx in /v1/models; before that /props; a router's /props?model=NAME;
                modalities in /props
    vLLM        max_model_len in /v1/models
    LM Studio   loaded_context_length and type in /api/v0/models
    Ollama      context_length in /api/ps, once the model is loaded; num_ctx and capabilities in
                /api/show

Other servers' lists are read too, as `catalogue.py` says; `asked.py` asks servers far away.
"""

import asyncio
import contextlib
import importlib
import ipaddress
import re
from collections.abc import Callable, Collection, Mapping
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from kode.broken_json import object_of
from kode.config.choice import LOCAL_KEY
from kode.errors import LOADING_PAUSE_S, MAX_LOADING_S
from kode.providers.boundary import Endpoint
from kode.providers.catalogue import (
    Facts,
    at,
    entry_of,
    facts_in,
    is_complete,
    items,
    sound,
    tokens,
)
from kode.providers.models import info_of
from kode.providers.refusals import names_fault
from kode.registry import COMPATIBLE, ProviderRow

if TYPE_CHECKING:
    import httpx2

ASK_TIMEOUT_S = 3.0  # a server on this machine or beside it
LOAD_TIMEOUT_S = 120.0
"""Time for a server to load the model, which the first request would wait for too."""
MAX_BYTES = 4_000_000  # many times the longest list of models
OLLAMA_DEFAULT = 4_096
"""Ollama's window if neither the model nor the server's settings say more."""

WINDOW = "context_window"


class LoadingError(Exception):
    """The server is still loading its model."""


def nothing() -> None:
    """Ignores that the server is loading its model."""


async def served_facts(
    row: ProviderRow,
    endpoint: Endpoint,
    given: Collection[str] = frozenset(),
    loading: Callable[[], None] = nothing,
) -> Facts:
    """What a near server says; {} if nothing. It is not made to load its model for a window in
    `given`. Waits for one that loads its model, after calling `loading`. Never raises."""
    try:
        await asyncio.to_thread(
            importlib.import_module, "httpx2"
        )  # the screen does not wait for it
        async with asyncio.timeout(MAX_LOADING_S), open_client(row, endpoint) as client:
            asked = (client, row, endpoint, WINDOW not in given, loading)
            try:
                return await _facts_of(*asked)
            except LoadingError:
                loading()
            while True:
                await asyncio.sleep(LOADING_PAUSE_S)
                with contextlib.suppress(LoadingError):
                    return await _facts_of(*asked)
    except Exception:  # clients have errors of many families; the first request will name the fault
        return {}


def open_client(row: ProviderRow, endpoint: Endpoint) -> "httpx2.AsyncClient":
    """A client that asks with the key, and follows no redirect."""
    import httpx2

    headers = dict(row.headers)
    if endpoint.api_key not in ("", LOCAL_KEY):
        headers[row.key_header or "authorization"] = (
            endpoint.api_key if row.key_header else f"Bearer {endpoint.api_key}"
        )
    # Reading the trusted certificates takes longer than a question to this machine.
    encrypted = endpoint.base_url.startswith("https")
    return httpx2.AsyncClient(timeout=ASK_TIMEOUT_S, headers=headers, verify=encrypted)


async def listed_facts(client: "httpx2.AsyncClient", row: ProviderRow, endpoint: Endpoint) -> Facts:
    """What Anthropic's Models API or a list of models says. Raises: LoadingError; the client's
    errors."""
    url, model = _url(endpoint), endpoint.model
    if "anthropic-version" in row.headers:
        one = await ask(client, f"{url}{row.models_path}/{quote(model, safe='')}")
        if one is not None and is_complete(one):
            return facts_in(one, date.today())
    # A model with a price is its vendor's alone, whatever a proxy says of it; only OpenRouter's
    # list, with the vendor in each name, says what the vendor's does.
    if _is_vendors_own(model) and "/" not in model:
        return {}
    entry = entry_of(await ask(client, f"{url}{row.models_path}"), model)
    if entry is None or (_is_vendors_own(model) and not is_complete(entry)):
        return {}
    facts = facts_in(entry, date.today())
    if entry.get("owned_by") == "llamacpp" and WINDOW in facts:
        return {**_of_props(await ask(client, f"{_root(endpoint)}/props")), **facts}
    return facts


async def _facts_of(
    client: "httpx2.AsyncClient",
    row: ProviderRow,
    endpoint: Endpoint,
    wants_window: bool,
    loading: Callable[[], None],
) -> Facts:
    facts = await listed_facts(client, row, endpoint)
    if WINDOW in facts or _is_vendors_own(endpoint.model):
        return facts
    if row.needs_key and row.name != COMPATIBLE:
        return facts  # a vendor's own format behind a proxy, not a server of one's own
    root = _root(endpoint)
    return {**await _of_own_api(client, root, endpoint.model, wants_window, loading), **facts}


async def _of_own_api(
    client: "httpx2.AsyncClient",
    root: str,
    model: str,
    wants_window: bool,
    loading: Callable[[], None],
) -> Facts:
    props = await ask(client, f"{root}/props")
    if at(props, "role") == "router" and wants_window:
        props = await _loaded(client, f"{root}/props?model={quote(model, safe='')}", loading)
    if facts := _of_props(props):
        return facts
    entry = entry_of(await ask(client, f"{root}/api/v0/models"), model)
    if entry is not None and (facts := facts_in(entry, date.today())):
        return facts
    running = await ask(client, f"{root}/api/ps")
    if not isinstance(at(running, "models"), list):
        return {}
    return await _of_ollama(client, root, model, running, wants_window, loading)


def _of_props(props: Any) -> Facts:
    window = at(props, "default_generation_settings", "n_ctx")
    return sound({WINDOW: window, "sees_images": at(props, "modalities", "vision")})


async def _of_ollama(
    client: "httpx2.AsyncClient",
    root: str,
    model: str,
    running: Any,
    wants_window: bool,
    loading: Callable[[], None],
) -> Facts:
    window = _running(running, model)
    if window is None and wants_window:
        # An empty prompt loads the model; only then is it known how much of it fits this machine.
        await _loaded(client, f"{root}/api/generate", loading, {"model": model})
        window = _running(await ask(client, f"{root}/api/ps"), model)
    shown = await ask(client, f"{root}/api/show", {"model": model})
    if window is None and wants_window:
        match = re.search(r"^num_ctx\s+(\d+)", str(at(shown, "parameters")), re.MULTILINE)
        window = int(match[1]) if match else OLLAMA_DEFAULT
    return sound({WINDOW: window, **_abilities(at(shown, "capabilities"), model)})


def _abilities(listed: Any, model: str) -> Facts:
    """What Ollama's `capabilities` say; it refuses an effort for a model that does not think, and
    turns any but `none` into thinking, with levels for gpt-oss alone, which always thinks."""
    if not isinstance(listed, list):
        return {}
    levels = ("low", "medium", "high") if "gpt-oss" in model else ("none", "low", "medium", "high")
    return {
        "sees_images": "vision" in listed,
        "efforts": levels if "thinking" in listed else (),
    }


def _url(endpoint: Endpoint) -> str:
    return endpoint.base_url.rstrip("/")


def _root(endpoint: Endpoint) -> str:
    return _url(endpoint).removesuffix("/v1")


def _is_vendors_own(model: str) -> bool:
    return info_of(model).input_price is not None


async def _loaded(
    client: "httpx2.AsyncClient",
    url: str,
    loading: Callable[[], None],
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """The answer to a question that makes the server load the model; None if that takes too long.
    Calls `loading` if it takes a while. Raises as `ask`."""
    notice = asyncio.get_running_loop().call_later(ASK_TIMEOUT_S, loading)
    try:
        return await ask(client, url, body, LOAD_TIMEOUT_S)
    except TimeoutError:
        return None
    finally:
        notice.cancel()


async def ask(
    client: "httpx2.AsyncClient",
    url: str,
    body: Mapping[str, Any] | None = None,
    timeout_s: float = ASK_TIMEOUT_S,
) -> dict[str, Any] | None:
    """The JSON object in the answer; None if there is none. Raises: LoadingError; the client's
    errors."""
    async with asyncio.timeout(timeout_s):
        method = "GET" if body is None else "POST"
        async with client.stream(method, url, json=body, timeout=timeout_s) as answer:
            if answer.status_code == 503 and names_fault(
                (await answer.aread()).decode(), "loading"
            ):
                raise LoadingError
            if answer.status_code != 200:
                return None
            data = b""
            async for chunk in answer.aiter_bytes():
                data += chunk
                if len(data) > MAX_BYTES:
                    return None
    return object_of(data)  # Ollama answers some questions in JSON lines


def _running(answer: Any, model: str) -> int | None:
    """The window of a model that Ollama has loaded; a name without a tag means `latest`."""
    for item in items(at(answer, "models")):
        if at(item, "name") in (model, f"{model}:latest"):
            return tokens(at(item, "context_length"))
    return None


def is_near(url: str) -> bool:
    """Whether a server is on this machine or in its own network, where people run such servers."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost" or "." not in host or host.endswith((".local", ".internal"))

"""Asks a local server for its window, which depends on how it was started, not on the model. Ollama
silently truncates longer requests, so the size must be known before.

    llama.cpp   meta.n_ctx in /v1/models; before that /props; a router's /props?model=NAME
    vLLM        max_model_len in /v1/models
    LM Studio   loaded_context_length in /api/v0/models
    Ollama      context_length in /api/ps, once the model is loaded; num_ctx in /api/show
"""

import asyncio
import contextlib
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from kode.broken_json import object_of
from kode.config.choice import LOCAL_KEY
from kode.errors import LOADING_PAUSE_S, MAX_LOADING_S
from kode.providers.boundary import LOADING, Endpoint
from kode.providers.models import info_of
from kode.registry import provider_row

if TYPE_CHECKING:
    import httpx2

ASK_TIMEOUT_S = 3.0
LOAD_TIMEOUT_S = 120.0
"""Time for a server to load the model, which the first request would wait for too."""
MAX_BYTES = 4_000_000
OLLAMA_DEFAULT = 4_096
"""Ollama's window if neither the model nor the server's settings say more."""

LISTED = ("max_model_len", "loaded_context_length", "context_length", "context_window")
"""Keys for the window in a server's list of models."""


class LoadingError(Exception):
    """The server is still loading its model."""


def nothing() -> None:
    """Ignores that the server is loading its model."""


async def served_window(
    provider: str, endpoint: Endpoint, loading: Callable[[], None] = nothing
) -> int | None:
    """The window in tokens; None for a vendor's own server or model, and for a server that does not
    say. Waits for one that loads its model, after calling `loading`. Never raises."""
    row = provider_row(provider)
    url = endpoint.base_url.rstrip("/")
    # A model with a price is its vendor's alone, whatever a proxy says of it.
    if row is None or url == row.own_url or info_of(endpoint.model).input_price is not None:
        return None
    import httpx2

    headers = dict(row.headers)
    if endpoint.api_key not in ("", LOCAL_KEY):
        headers[row.key_header or "authorization"] = (
            endpoint.api_key if row.key_header else f"Bearer {endpoint.api_key}"
        )
    try:
        async with (
            asyncio.timeout(MAX_LOADING_S),
            httpx2.AsyncClient(timeout=ASK_TIMEOUT_S, headers=headers) as client,
        ):
            window_of = partial(_window_of, client, url, row.models_path, endpoint.model, loading)
            try:
                return await window_of()
            except LoadingError:
                loading()
            while True:
                await asyncio.sleep(LOADING_PAUSE_S)
                with contextlib.suppress(LoadingError):
                    return await window_of()
    except Exception:  # clients have errors of many families; the first request will name the fault
        return None


async def _window_of(
    client: "httpx2.AsyncClient",
    url: str,
    models_path: str,
    model: str,
    loading: Callable[[], None],
) -> int | None:
    window = _of_list(await _ask(client, f"{url}{models_path}"), model)
    if window is None and is_near(url):
        window = await _of_own_api(client, url.removesuffix("/v1"), model, loading)
    return window


async def _of_own_api(
    client: "httpx2.AsyncClient", root: str, model: str, loading: Callable[[], None]
) -> int | None:
    props = await _ask(client, f"{root}/props")
    if _at(props, "role") == "router":
        props = await _loaded(client, f"{root}/props?model={quote(model, safe='')}", loading)
    if window := _tokens(_at(props, "default_generation_settings", "n_ctx")):
        return window
    if window := _of_list(await _ask(client, f"{root}/api/v0/models"), model):
        return window
    running = await _ask(client, f"{root}/api/ps")
    if not isinstance(_at(running, "models"), list):
        return None
    if window := _running(running, model):
        return window
    # An empty prompt loads the model; only then is it known how much of it fits this machine.
    await _loaded(client, f"{root}/api/generate", loading, {"model": model})
    if window := _running(await _ask(client, f"{root}/api/ps"), model):
        return window
    shown = await _ask(client, f"{root}/api/show", {"model": model})
    given = re.search(r"^num_ctx\s+(\d+)", str(_at(shown, "parameters")), re.MULTILINE)
    return int(given[1]) if given else OLLAMA_DEFAULT


async def _loaded(
    client: "httpx2.AsyncClient",
    url: str,
    loading: Callable[[], None],
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """The answer to a question that makes the server load the model; None if that takes too long.
    Calls `loading` if it takes a while. Raises as `_ask`."""
    notice = asyncio.get_running_loop().call_later(ASK_TIMEOUT_S, loading)
    try:
        return await _ask(client, url, body, LOAD_TIMEOUT_S)
    except TimeoutError:
        return None
    finally:
        notice.cancel()


async def _ask(
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
            if answer.status_code == 503 and LOADING.search((await answer.aread()).decode()):
                raise LoadingError
            if answer.status_code != 200:
                return None
            data = b""
            async for chunk in answer.aiter_bytes():
                data += chunk
                if len(data) > MAX_BYTES:
                    return None
    return object_of(data)  # Ollama answers some questions in JSON lines


def _of_list(answer: Any, model: str) -> int | None:
    """The window in a list of models: of the one with this name, or the only one."""
    listed = [one for one in _list(_at(answer, "data")) if isinstance(one, Mapping)]
    named = [one for one in listed if model in (one.get("id"), *_list(one.get("aliases")))]
    for one in named or (listed if len(listed) == 1 else []):
        for value in (_at(one, "meta", "n_ctx"), *(one.get(key) for key in LISTED)):
            if window := _tokens(value):
                return window
    return None


def _running(answer: Any, model: str) -> int | None:
    """The window of a model that Ollama has loaded; a name without a tag means `latest`."""
    for one in _list(_at(answer, "models")):
        if _at(one, "name") in (model, f"{model}:latest"):
            return _tokens(_at(one, "context_length"))
    return None


def is_near(url: str) -> bool:
    """Whether a server is on this machine or in its own network, where people run such servers."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost" or "." not in host or host.endswith((".local", ".internal"))


def _tokens(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and value > 0 else None


def _list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value

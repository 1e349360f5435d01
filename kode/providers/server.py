"""What a model server says: whether it answers, which models it lists, and what one of them can do.

    OpenRouter   limits, prices and modalities in its list
    llama.cpp    meta.n_ctx in /v1/models, before that /props; a router's /props?model=NAME;
                 modalities in /props
    vLLM         max_model_len in /v1/models
    LM Studio    loaded_context_length and type in /api/v0/models
    Ollama       context_length in /api/ps, once the model is loaded; num_ctx and capabilities in
                 /api/show
    others       the window in their list, under a name of their own

A server on this machine or network is asked about each model without a price in `models`: its
window depends on how it was started, and Ollama silently truncates a longer request. A remote
server is asked about such a model, too, but for a second at most. If a server is unreachable, or
answers nonsense, the table of `models` is used.
"""

import asyncio
import contextlib
import importlib
import ipaddress
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from kode.broken_json import object_of
from kode.config.choice import LOCAL_KEY, ProviderChoice
from kode.errors import LOADING_PAUSE_S, MAX_LOADING_S
from kode.provider import EFFORTS
from kode.providers.draft import list_of, mapping_of, pick
from kode.providers.errors import Endpoint, names_fault, plain_reason
from kode.providers.models import model_info_of, vendor_models
from kode.registry import COMPATIBLE, ProviderRow, host_of
from kode.values import Value, dataclass

if TYPE_CHECKING:
    import ssl

PATIENCE_S = 1.0
"""How long a first request waits for a remote server's facts."""
ASK_TIMEOUT_S = 3.0
LIST_TIMEOUT_S = 5.0  # a person waits for `doctor`
MENU_TIMEOUT_S = 3.0  # a person waits for the menu
LOAD_TIMEOUT_S = 120.0
"""Time for a server to load the model, which the first request would wait for too."""
MAX_BYTES = 4_000_000  # many times the longest list of models
OLLAMA_DEFAULT = 4_096
"""Ollama's window if neither the model nor the server's settings say more."""
SILENT_HOSTS = ("", "api.openai.com", "api.anthropic.com")
"""Hosts whose lists hold only names; "" stands for a URL without a host."""
KEY_REFUSED = {401, 403}

Facts = dict[str, Any]
"""Fields of `ModelInfo` with their values."""


@cache
def is_near(url: str) -> bool:
    """Whether a server is on this machine or in its own network, where people run such servers."""
    host = host_of(url)
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost" or "." not in host or host.endswith((".local", ".internal"))


_WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""Keys for the window in lists: of vLLM; Together, Fireworks, Moonshot; Groq; Mistral."""
_LOADED_WINDOWS = ("loaded_context_length", "context_length")
"""LM Studio's keys; its `max_context_length` is what the model could have, not what it has."""
_PRICES = {
    "prompt": "input_price",
    "completion": "output_price",
    "input_cache_read": "cached_price",
    "input_cache_write": "cache_write_price",
}
"""OpenRouter's names, each in dollars per token as text."""


def find_entry(answer: Any, model: str) -> Mapping[str, Any] | None:
    """The entry in a list of models: the one with this name, or the only one."""
    entries = [item for item in list_of(pick(answer, "data")) if isinstance(item, Mapping)]
    plain = model.partition(":")[0]  # OpenRouter's `:nitro` and `:floor` are in no list
    for name in (model, plain):
        for entry in entries:
            if name in (entry.get("id"), *list_of(entry.get("aliases"))):
                return entry
    return entries[0] if len(entries) == 1 else None


def read_entry(entry: Mapping[str, Any]) -> Facts:
    """The facts that an entry states about its model; impossible values are left out."""
    is_lm_studio, routed = "state" in entry, mapping_of(entry.get("top_provider"))
    keys = _LOADED_WINDOWS if is_lm_studio else _WINDOWS
    windows = (pick(entry, "meta", "n_ctx"), *(entry.get(key) for key in keys))
    inputs = pick(entry, "architecture", "input_modalities")
    sees = (
        entry["type"] == "vlm" if is_lm_studio and entry.get("type") in ("llm", "vlm") else None,
        "image" in inputs if isinstance(inputs, list) else None,
        entry.get("supports_image_in"),
        entry.get("supports_image_input"),
        pick(entry, "capabilities", "vision"),
    )
    prices = {name: pick(entry, "pricing", key) for key, name in _PRICES.items()}
    facts = {
        "context_window": next(filter(None, map(_read_tokens, windows)), None),
        "max_output_tokens": entry.get("max_completion_tokens"),
        "sees_images": next((value for value in sees if isinstance(value, bool)), None),
    }
    # OpenRouter's best server decides: the entry's own limits may exceed what it has.
    served = {"context_window": routed.get("context_length")}
    served["max_output_tokens"] = routed.get("max_completion_tokens")
    return {**check_facts({**facts, **prices}), **check_facts(served)}


def _read_tokens(value: Any) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and value > 0 else None


def _read_price(value: Any) -> float | None:
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        price = float(value) * 1_000_000
        return round(price, 6) if math.isfinite(price) and price >= 0 else None
    return None


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("context_window", "max_output_tokens"), _read_tokens),
    **dict.fromkeys(_PRICES.values(), _read_price),
    "sees_images": lambda value: value if isinstance(value, bool) else None,
    "efforts": tuple,
}
"""A fact → the function that returns its value if that is possible, else None."""


def check_facts(facts: Mapping[str, Any]) -> Facts:
    """The facts whose values are possible; lists become tuples."""
    checked = {key: _CHECKS[key](value) for key, value in facts.items()}
    return {key: value for key, value in checked.items() if value is not None}


class LoadingError(Exception):
    """The server is still loading its model."""


async def ask_facts(
    row: ProviderRow,
    endpoint: Endpoint,
    fixed: Collection[str] = frozenset(),
    report_loading: Callable[[], object] = object,
    patience_s: float = PATIENCE_S,
) -> Facts:
    """Asks the server about the model; {} if it does not say, or not in time. The server is not
    made to load the model for a window that is among the `fixed` fields, which the user has set.
    Calls `report_loading` if a near server is loading its model. Never raises."""
    url = endpoint.base_url
    # A model with a price is its vendor's alone, whatever a proxy says about it.
    is_priced = model_info_of(endpoint.model, provider=row.name).input_price is not None
    if is_priced or host_of(url) in SILENT_HOSTS or not url.startswith("http"):
        return {}
    server = ModelServer(row, endpoint, "context_window" not in fixed, report_loading)
    ask, limit_s = server.read_list, patience_s
    if is_near(url):
        ask, limit_s = server.wait_for_facts, MAX_LOADING_S
    with contextlib.suppress(Exception):  # the first request will name a fault
        await asyncio.to_thread(importlib.import_module, "httpx2")  # the screen does not wait
        async with asyncio.timeout(limit_s):
            return await ask()
    return {}


@cache
def tls_context(is_encrypted: bool) -> "ssl.SSLContext":
    """A TLS context with the trusted certificates, read once: one per client would take most of a
    conversation's memory, and reading them blocks the event loop and takes a tenth of the time to a
    first answer. For an unencrypted URL it trusts none, not even after a redirect."""
    import ssl

    import httpx2

    if is_encrypted:
        return httpx2.create_ssl_context()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def _fetch_answer(
    row: ProviderRow,
    url: str,
    key: str,
    headers: Mapping[str, str] = {},
    body: Mapping[str, Any] | None = None,
) -> tuple[int, bytes]:
    """The status and the body of an answer, truncated if it is too long. Sends the key, and follows
    no redirect, which would carry the key away. Raises: the client's errors."""
    import httpx2

    data, auth = b"", {"authorization": f"Bearer {key}"} if key and key != LOCAL_KEY else {}
    if row.apis[0] == "messages":
        auth = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    verify = tls_context(url.startswith("https"))
    client = httpx2.AsyncClient(timeout=None, headers={**auth, **headers}, verify=verify)
    method = "GET" if body is None else "POST"
    async with client, client.stream(method, url, json=body) as answer:
        async for chunk in answer.aiter_bytes():
            data += chunk
            if len(data) > MAX_BYTES:
                break
    return answer.status_code, data


@dataclass(frozen=True)
class ModelServer:
    """One server, asked for the facts of one model."""

    row: ProviderRow
    endpoint: Endpoint
    loads: bool = False
    """Whether the server may be made to load the model, which reveals the window."""
    report_loading: Callable[[], object] = object

    async def wait_for_facts(self) -> Facts:
        """What a server on this machine or network says, once it has loaded its model. Raises: the
        client's errors."""
        with contextlib.suppress(LoadingError):
            return await self.read_facts()
        self.report_loading()
        while True:
            await asyncio.sleep(LOADING_PAUSE_S)
            with contextlib.suppress(LoadingError):
                return await self.read_facts()

    async def read_list(self) -> Facts:
        """What a list of models says. Raises: LoadingError; the client's errors."""
        answer = await self.ask(self.row.models_path.partition("?")[0])
        entry = find_entry(answer, self.endpoint.model) or {}
        if entry.get("owned_by") == "llamacpp":
            return {**_read_props(await self.ask("/props", at_root=True)), **read_entry(entry)}
        return read_entry(entry)

    async def read_facts(self) -> Facts:
        """As `read_list`, and what a local server says in its own API. Raises: as `read_list`."""
        facts = await self.read_list()
        # With the name of a vendor it is a proxy, not a local server with an API of its own.
        is_proxy = self.row.needs_key and self.row.name != COMPATIBLE
        if "context_window" in facts or is_proxy:
            return facts
        return {**await self._read_local(), **facts}

    async def _read_local(self) -> Facts:
        model = self.endpoint.model
        props: Any = await self.ask("/props", at_root=True)
        if pick(props, "role") == "router" and self.loads:
            props = await self._load(f"/props?model={quote(model, safe='')}")
        if facts := _read_props(props):
            return facts
        entry = find_entry(await self.ask("/api/v0/models", at_root=True), model)
        if facts := read_entry(entry or {}):
            return facts
        running = await self.ask("/api/ps", at_root=True)
        if not isinstance(pick(running, "models"), list):
            return {}
        window = _running_window(running, model)
        if window is None and self.loads:
            # An empty prompt loads the model; only then is it known how much of it fits here.
            await self._load("/api/generate", {"model": model})
            window = _running_window(await self.ask("/api/ps", at_root=True), model)
        about = await self.ask("/api/show", {"model": model}, at_root=True)
        if window is None and self.loads:
            match = re.search(r"^num_ctx\s+(\d+)", str(pick(about, "parameters")), re.MULTILINE)
            window = int(match[1]) if match else OLLAMA_DEFAULT
        facts = {"context_window": window}
        if isinstance(abilities := pick(about, "capabilities"), list):
            # Ollama refuses an effort for a model that does not think, and turns any but `none`
            # into thinking, with levels for gpt-oss alone, which always thinks.
            levels = EFFORTS[2:5] if "gpt-oss" in model else ("none", *EFFORTS[2:5])
            facts["sees_images"] = "vision" in abilities
            facts["efforts"] = levels if "thinking" in abilities else ()
        return check_facts(facts)

    async def _load(self, path: str, body: Mapping[str, Any] | None = None) -> Facts | None:
        """The answer to a question that makes the server load the model; None if that takes too
        long. Raises: as `ask`."""
        self.report_loading()
        with contextlib.suppress(TimeoutError):
            return await self.ask(path, body, at_root=True, timeout_s=LOAD_TIMEOUT_S)
        return None

    async def ask(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        at_root: bool = False,
        timeout_s: float = ASK_TIMEOUT_S,
    ) -> dict[str, Any] | None:
        """Requests a path below the base URL, or below the server's root; returns the JSON object
        in the answer, or None if there is none. Raises: LoadingError; the client's errors."""
        base = self.endpoint.base_url.rstrip("/")
        url = f"{base.removesuffix('/v1') if at_root else base}{path}"
        async with asyncio.timeout(timeout_s):
            status, data = await _fetch_answer(self.row, url, self.endpoint.api_key, body=body)
        if _is_loading(status, data):
            raise LoadingError
        # Ollama answers some questions in JSON lines, which are no object.
        return object_of(data) if status == 200 else None


def _is_loading(status: int, data: bytes) -> bool:
    return status == 503 and names_fault(data.decode(errors="replace"), "loading")


def _read_props(props: Any) -> Facts:
    """The facts in the properties that llama.cpp reports for its model."""
    window = pick(props, "default_generation_settings", "n_ctx")
    sees_images = pick(props, "modalities", "vision")
    return check_facts({"context_window": window, "sees_images": sees_images})


def _running_window(answer: Any, model: str) -> int | None:
    """The window of a model that Ollama has loaded; a name without a tag means `latest`."""
    for item in list_of(pick(answer, "models")):
        if pick(item, "name") in (model, f"{model}:latest"):
            return _read_tokens(pick(item, "context_length"))
    return None


class ServerAnswer(Value):
    """Whether a server answers, accepts the key and lists models."""

    url: str
    """The base URL, as the provider uses it."""
    state: Literal["ok", "refused", "loading", "unreachable", "odd"]
    """`refused`: the key was not accepted. `odd`: the answer is not a list."""
    detail: str
    models: tuple[str, ...] = ()

    def lacks(self, model: str) -> bool:
        """Whether the server lists models, but not this one. A longer name with the same beginning
        (a tag or a date) counts as this one, and so does a proxy's wildcard."""
        return bool(self.models) and not any(
            name.startswith(model) or "*" in name for name in self.models
        )


def url_of(choice: ProviderChoice) -> str:
    """The base URL that requests go to; "" for a cloud whose SDK knows it."""
    return choice.base_url or choice.row.own_url


def reach_server(choice: ProviderChoice, timeout_s: float = LIST_TIMEOUT_S) -> ServerAnswer:
    """Requests the list of models. Never raises; follows no redirect, so the key goes nowhere else.
    Must not be called in the thread of an event loop."""
    return asyncio.run(_list_server_models(choice, timeout_s))


async def _list_server_models(choice: ProviderChoice, timeout_s: float) -> ServerAnswer:
    row, url = choice.row, url_of(choice)
    if not url:
        detail = "its SDK finds the address; kode cannot ask it for a list"
        return ServerAnswer(url=row.shown, state="odd", detail=detail)
    answer = partial(ServerAnswer, url=url)
    address = f"{url.rstrip('/')}{row.models_path}"
    try:
        ask = partial(_fetch_answer, row, key=choice.api_key or "", headers=choice.headers)
        async with asyncio.timeout(timeout_s):
            status, body = await ask(address)
            if status == 200 and is_near(url):
                # llama.cpp lists its model to anybody, and then wants a key for each request.
                further = address.partition("?")[0].removesuffix("/models") + "/chat/completions"
                key_status, _ = await ask(further)
                status = key_status if key_status in KEY_REFUSED else status
    except Exception as error:  # clients raise errors of many families, also about their arguments
        words = plain_reason(str(error).strip()) or type(error).__name__
        return answer(state="unreachable", detail=words.splitlines()[0][:200])
    if status in KEY_REFUSED:
        return answer(state="refused", detail=f"it refuses the key (HTTP {status})")
    if _is_loading(status, body):
        return answer(state="loading", detail="it is still loading its model")
    models = _model_names(body) if status == 200 else None
    if models is None:
        detail = f"it answers, but not with a list of models (HTTP {status})"
        return answer(state="odd", detail=detail)
    return answer(state="ok", detail=f"it offers {len(models)} models", models=models)


def _model_names(body: bytes) -> tuple[str, ...] | None:
    """The names in a list of models; None for anything else."""
    try:
        data = json.loads(body)
        entries = data if isinstance(data, list) else data["data"]
        # null: Ollama without a model. Gemini lists its models as `models/NAME`.
        return tuple(str(model["id"]).removeprefix("models/") for model in entries or ())
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def list_models(
    choice: ProviderChoice, named: Iterable[str] = (), *, ask: bool = True
) -> tuple[str, ...]:
    """The models to choose from: those `named`, and the server's list, or else those that kode
    knows. A vendor's list is reduced to what is named like its language models, those that kode
    knows first. Without `ask` only a server on this machine or network is asked. Must not be called
    in the thread of an event loop."""
    row, listed = choice.row, list[str]()
    if ask or is_near(url_of(choice)):
        listed = [n for n in reach_server(choice, MENU_TIMEOUT_S).models if n.isprintable()]
    table_names = [name for name in (row.default_model, *vendor_models(row.name)) if name]
    if listed and row.models:
        listed = [name for name in listed if name.startswith(row.models)] or listed
    if listed:
        table_names = [name for name in table_names if name in listed] if row.models else []
    return tuple(dict.fromkeys((*named, *table_names, *listed)))

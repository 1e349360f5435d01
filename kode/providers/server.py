"""What a model server says: whether it answers, which models it lists, and what one of them can do.

    Anthropic    GET /v1/models/ID: limits, capabilities
    OpenRouter   limits, prices, modalities, parameters and levels of reasoning in its list
    llama.cpp    meta.n_ctx in /v1/models, before that /props; a router's /props?model=NAME;
                 modalities in /props
    vLLM         max_model_len in /v1/models
    LM Studio    loaded_context_length and type in /api/v0/models
    Ollama       context_length in /api/ps, once the model is loaded; num_ctx and capabilities in
                 /api/show
    others       the window in their list, under a name of their own

A server on this machine or network is asked in each process: its window depends on how it was
started, and Ollama silently truncates a longer request. One far away is asked at most once a day
and model; `$KODE_HOME/models/HOST.json` keeps the values. A process waits for it a second at most,
and an answer that comes later serves the next process. So an unreachable server, a corrupt file or
a folder that cannot be written cost nothing: the table of `models` is used.
"""

import asyncio
import contextlib
import importlib
import ipaddress
import itertools
import json
import math
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import quote, urlsplit

from kode import durable, paths
from kode.broken_json import object_of
from kode.config.choice import (
    LOCAL_KEY,
    ProviderChoice,
    find_configured,
    resolve_model,
    resolve_provider,
    switch_provider,
)
from kode.config.model import Config
from kode.errors import LOADING_PAUSE_S, MAX_LOADING_S, KodeError, UserError
from kode.provider import EFFORTS, Provider, ThinkingType
from kode.providers.encoding import list_of, mapping_of, pick
from kode.providers.errors import Endpoint, names_fault, plain_reason
from kode.providers.models import info_of, names_of
from kode.registry import COMPATIBLE, ProviderRow, provider_row

PATIENCE_S = 1.0
"""How long a first request waits for what a server far away says."""
ASK_TIMEOUT_S = 3.0
LIST_TIMEOUT_S = 5.0  # a person waits for `doctor`
LOAD_TIMEOUT_S = 120.0
"""Time for a server to load the model, which the first request would wait for too."""
FRESH = timedelta(days=1)
FAILED_FRESH = timedelta(minutes=10)
"""How long a server that did not answer is left alone."""
MENU_PATIENCE_S = 3.0  # the person waits for the menu
MENU_FRESH_S = 600.0  # vendors add models every few weeks
NEAR_FRESH_S = 60.0
"""A server on one's own machine changes what it has at any time."""
MAX_BYTES = 4_000_000  # many times the longest list of models
OLLAMA_DEFAULT = 4_096
"""Ollama's window if neither the model nor the server's settings say more."""
SILENT_HOSTS = ("api.openai.com",)
"""Hosts whose lists hold only names."""
KEY_REFUSED = {401, 403}

Facts = dict[str, Any]
"""Fields of `ModelInfo` with their values."""


def is_near(url: str) -> bool:
    """Whether a server is on this machine or in its own network, where people run such servers."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost" or "." not in host or host.endswith((".local", ".internal"))


_WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""Keys for the window in lists: of vLLM; Together, Fireworks, Moonshot; Groq; Mistral."""
_LOADED_WINDOWS = ("loaded_context_length", "context_length")
"""LM Studio's; its `max_context_length` is what a model could have if it were loaded so."""
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
    """What an entry says of its model; a value that makes no sense is left out."""
    return check_facts((_find_reader(entry) or _read_other)(entry))


def _find_reader(entry: Mapping[str, Any]) -> "Callable[[Mapping[str, Any]], Facts] | None":
    """What reads an entry of Anthropic or OpenRouter, which speak for their models."""
    if entry.get("type") == "model" and "capabilities" in entry:
        return _read_anthropic
    is_routed = isinstance(entry.get("architecture"), Mapping) and "supported_parameters" in entry
    return _read_openrouter if is_routed else None


def _read_anthropic(entry: Mapping[str, Any]) -> Facts:
    capabilities = entry.get("capabilities")
    facts: Facts = {
        "context_window": entry.get("max_input_tokens"),
        "max_output_tokens": entry.get("max_tokens"),
        "sees_images": pick(capabilities, "image_input", "supported"),
        "sees_pdf": pick(capabilities, "pdf_input", "supported"),
        "answers_by_schema": pick(capabilities, "structured_outputs", "supported"),
        "searches": pick(capabilities, "server_tools", "web_search", "supported"),
    }
    for name, known, *path in (
        ("efforts", EFFORTS, "effort"),
        ("thinking", _THINKING, "thinking", "types"),
    ):
        is_supported = pick(capabilities, path[0], "supported")
        if isinstance(is_supported, bool):
            levels = pick(capabilities, *path) if is_supported else {}
            facts[name] = [word for word in known if pick(levels, word, "supported") is True]
    return facts


def _read_openrouter(entry: Mapping[str, Any]) -> Facts:
    windows = (entry.get("context_length"), pick(entry, "top_provider", "context_length"))
    inputs = list_of(pick(entry, "architecture", "input_modalities"))
    takes = list_of(entry.get("supported_parameters"))
    levels = pick(entry, "reasoning", "supported_efforts")
    if not isinstance(levels, list):
        levels = [level for level in EFFORTS if level != "max"]
    if pick(entry, "reasoning", "mandatory") is True:
        levels = [level for level in levels if level != "none"]
    facts: Facts = {
        "context_window": min(filter(None, map(_tokens, windows)), default=None),
        "max_output_tokens": pick(entry, "top_provider", "max_completion_tokens"),
        "sees_images": "image" in inputs,
        "sees_pdf": "file" in inputs,
        "answers_by_schema": "structured_outputs" in takes,
        "takes_temperature": "temperature" in takes,
        "efforts": [level for level in EFFORTS if level in levels and "reasoning" in takes],
    }
    for key, name in _PRICES.items():
        price = _price(pick(entry, "pricing", key))
        facts[name] = None if price is None else round(price * 1_000_000, 6)
    return facts


def _read_other(entry: Mapping[str, Any]) -> Facts:
    is_lm_studio = "state" in entry
    keys = _LOADED_WINDOWS if is_lm_studio else _WINDOWS
    windows = (pick(entry, "meta", "n_ctx"), *(entry.get(key) for key in keys))
    sees = (
        entry["type"] == "vlm" if is_lm_studio and entry.get("type") in ("llm", "vlm") else None,
        entry.get("supports_image_in"),
        entry.get("supports_image_input"),
        pick(entry, "capabilities", "vision"),
    )
    return {
        "context_window": next(filter(None, map(_tokens, windows)), None),
        "max_output_tokens": entry.get("max_completion_tokens"),
        "sees_images": next((value for value in sees if isinstance(value, bool)), None),
    }


def _tokens(value: Any) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and value > 0 else None


def _switch(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _price(value: Any) -> float | None:
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        number = float(value)
        return number if math.isfinite(number) and number >= 0 and _switch(value) is None else None
    return None


def _words(known: Sequence[str], value: Any) -> tuple[str, ...] | None:
    is_list = isinstance(value, list | tuple)
    return tuple(value) if is_list and all(word in known for word in value) else None


_THINKING: Sequence[str] = get_args(ThinkingType)
_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("context_window", "max_output_tokens"), _tokens),
    **dict.fromkeys(_PRICES.values(), _price),
    **dict.fromkeys(
        "sees_images sees_pdf answers_by_schema takes_temperature searches".split(), _switch
    ),
    "efforts": partial(_words, EFFORTS),
    "thinking": partial(_words, _THINKING),
}
"""A fact → its value if that is possible; None for any other."""


def check_facts(facts: Mapping[str, Any]) -> Facts:
    """The facts whose values are possible; lists become tuples."""
    checked = {key: _CHECKS[key](value) for key, value in facts.items() if key in _CHECKS}
    return {key: value for key, value in checked.items() if value is not None}


class LoadingError(Exception):
    """The server is still loading its model."""


_questions: set[asyncio.Task[Facts]] = set()
"""Questions that nobody waits for; a task that is referenced nowhere may be dropped."""


async def ask_facts(
    row: ProviderRow,
    endpoint: Endpoint,
    fixed: Collection[str] = frozenset(),
    report_loading: Callable[[], object] = object,
    patience_s: float = PATIENCE_S,
) -> Facts:
    """What the server says of the model; {} if it does not say, or not in time. It is not made to
    load the model for a window that is among the `fixed` fields, which are the user's. Calls
    `report_loading` if a near server is loading its model. Never raises."""
    try:
        url = urlsplit(endpoint.base_url)
        host, port = url.hostname, url.port
    except ValueError:
        return {}
    if url.scheme not in ("http", "https") or host is None or host in SILENT_HOSTS:
        return {}
    server = ModelServer(row, endpoint, "context_window" not in fixed, report_loading)
    if is_near(endpoint.base_url):
        return await server.read_near()
    file = paths.server_facts_file(paths.home(), host, port)
    entry = _read_fresh(file, datetime.now(UTC)).get(_key(endpoint))
    if entry is not None:
        return check_facts(entry["facts"] or {})
    task = asyncio.create_task(_ask_far(server, file))
    _questions.add(task)
    task.add_done_callback(_questions.discard)
    done, _ = await asyncio.wait({task}, timeout=patience_s)
    return task.result() if done else {}


async def _ask_far(server: "ModelServer", file: Path) -> Facts:
    """Asks, and keeps the answer; {} after a fault, which is kept too."""
    facts: Facts | None = None
    with contextlib.suppress(Exception):
        async with asyncio.timeout(ASK_TIMEOUT_S):
            facts = await server.read_list()
    await asyncio.to_thread(keep_facts, file, _key(server.endpoint), facts, datetime.now(UTC))
    return facts or {}


async def _fetch(
    row: ProviderRow,
    url: str,
    key: str,
    headers: Mapping[str, str] = {},
    body: Mapping[str, Any] | None = None,
) -> tuple[int, bytes]:
    """The status and the body of an answer, truncated if it is too long. Asks with the key, and
    follows no redirect, which would carry it away. Raises: the client's errors."""
    import httpx2

    from kode.providers.clients import tls_context

    headers, data = {**row.headers, **headers}, b""
    if key and (key != LOCAL_KEY or row.key_header):
        headers[row.key_header or "authorization"] = key if row.key_header else f"Bearer {key}"
    verify = tls_context(url.startswith("https"))
    client = httpx2.AsyncClient(timeout=None, headers=headers, verify=verify)
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
    """Whether it may be made to load the model, which shows the window."""
    report_loading: Callable[[], object] = object

    async def read_near(self) -> Facts:
        """What a server on this machine or network says, once it has loaded its model; {} after a
        fault, which the first request will name."""
        with contextlib.suppress(Exception):
            await asyncio.to_thread(importlib.import_module, "httpx2")  # the screen does not wait
            async with asyncio.timeout(MAX_LOADING_S):
                for attempt in itertools.count():
                    with contextlib.suppress(LoadingError):
                        return await self.read_facts()
                    if attempt == 0:
                        self.report_loading()
                    await asyncio.sleep(LOADING_PAUSE_S)
        return {}

    async def read_list(self) -> Facts:
        """What Anthropic's Models API or a list of models says. Raises: LoadingError; the client's
        errors."""
        model, path = self.endpoint.model, self.row.models_path.partition("?")[0]
        if "anthropic-version" in self.row.headers:
            entry = await self.ask(f"{path}/{quote(model, safe='')}")
            if entry is not None and _find_reader(entry) is not None:
                return read_entry(entry)
        # A model with a price is its vendor's alone, whatever a proxy says of it; only OpenRouter's
        # list, with the vendor in each name, says what the vendor's does.
        if self._is_vendors_own and "/" not in model:
            return {}
        listed = find_entry(await self.ask(path), model) or {}
        if self._is_vendors_own and _find_reader(listed) is None:
            return {}
        facts = read_entry(listed)
        if listed.get("owned_by") == "llamacpp" and "context_window" in facts:
            return {**_read_props(await self.ask("/props", at_root=True)), **facts}
        return facts

    async def read_facts(self) -> Facts:
        """The same, and what a local server says in an API of its own. Raises: as `read_list`."""
        facts = await self.read_list()
        if "context_window" in facts or self._is_vendors_own:
            return facts
        if self.row.needs_key and self.row.name != COMPATIBLE:
            return facts  # a vendor's own format behind a proxy, not a server of one's own
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

    @property
    def _is_vendors_own(self) -> bool:
        return info_of(self.endpoint.model).input_price is not None

    async def _load(self, path: str, body: Mapping[str, Any] | None = None) -> Facts | None:
        """The answer to a question that makes the server load the model; None if that takes too
        long. Reports it if it takes a while. Raises: as `ask`."""
        loop = asyncio.get_running_loop()
        notice = loop.call_later(ASK_TIMEOUT_S, self.report_loading)
        try:
            return await self.ask(path, body, at_root=True, timeout_s=LOAD_TIMEOUT_S)
        except TimeoutError:
            return None
        finally:
            notice.cancel()

    async def ask(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        at_root: bool = False,
        timeout_s: float | None = None,
    ) -> dict[str, Any] | None:
        """The JSON object in the answer to a path behind the base URL, or behind the server's root;
        None if there is none. Raises: LoadingError; the client's errors."""
        timeout_s = ASK_TIMEOUT_S if timeout_s is None else timeout_s
        base = self.endpoint.base_url.rstrip("/")
        base = base.removesuffix("/v1") if at_root else base
        async with asyncio.timeout(timeout_s):
            url = f"{base}{path}"
            status, data = await _fetch(self.row, url, self.endpoint.api_key, body=body)
        if _is_loading(status, data):
            raise LoadingError
        # Ollama answers some questions in JSON lines, which are no object.
        return object_of(data) if status == 200 else None


def _is_loading(status: int, data: bytes) -> bool:
    return status == 503 and names_fault(data.decode(errors="replace"), "loading")


def _read_props(props: Any) -> Facts:
    """The properties that llama.cpp tells of its model."""
    window = pick(props, "default_generation_settings", "n_ctx")
    sees_images = pick(props, "modalities", "vision")
    return check_facts({"context_window": window, "sees_images": sees_images})


def _running_window(answer: Any, model: str) -> int | None:
    """The window of a model that Ollama has loaded; a name without a tag means `latest`."""
    for item in list_of(pick(answer, "models")):
        if pick(item, "name") in (model, f"{model}:latest"):
            return _tokens(pick(item, "context_length"))
    return None


def _key(endpoint: Endpoint) -> str:
    """One host may serve several lists."""
    return f"{endpoint.shown_url} {endpoint.model}"


def keep_facts(file: Path, key: str, facts: Facts | None, now: datetime) -> None:
    """Writes an answer beside the fresh ones of other models; None: there was none."""
    entry = {"asked_at": now.isoformat(timespec="seconds"), "facts": facts}
    models = {**_read_fresh(file, now), key: entry}
    with contextlib.suppress(KodeError, OSError):
        durable.make_folder(file.parent)
        durable.replace(file, json.dumps({"models": models}, ensure_ascii=False).encode())


def _read_fresh(file: Path, now: datetime) -> dict[str, Any]:
    """Key → entry, of the answers that are whole and fresh; {} for a file that cannot be used. An
    answer with a date in the future, as after a clock was set back, is not fresh."""
    fresh: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError, RecursionError):
        models = pick(json.loads(file.read_bytes()[:MAX_BYTES]), "models")
        for key, entry in mapping_of(models).items():
            with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
                facts, age = entry["facts"], now - datetime.fromisoformat(entry["asked_at"])
                is_whole = facts is None or len(check_facts(facts)) == len(facts)
                if is_whole and timedelta(0) <= age < (FAILED_FRESH if facts is None else FRESH):
                    fresh[key] = entry
    return fresh


@dataclass(frozen=True, kw_only=True)
class ServerAnswer:
    """Whether a server answers, accepts the key and lists models."""

    url: str
    """The base URL, as the provider uses it."""
    state: Literal["ok", "refused", "loading", "unreachable", "odd"]
    """`refused`: the key was not accepted. `odd`: the answer is not a list."""
    detail: str
    models: tuple[str, ...] = ()

    def offers(self, model: str) -> bool | None:
        """Whether the model is in its list; None without a list."""
        return offers_model(self.models, model) if self.models else None


def offers_model(names: Iterable[str], model: str) -> bool:
    """Whether a server with this list has the model: longer names with the same beginning count
    (tags, dates), and a proxy's wildcard."""
    return any(name.startswith(model) or "*" in name for name in names)


def url_of(choice: ProviderChoice) -> str:
    """The base URL that requests go to; "" for a cloud whose SDK knows it."""
    return choice.base_url or choice.row.own_url


def reach_server(choice: ProviderChoice, timeout_s: float = LIST_TIMEOUT_S) -> ServerAnswer:
    """Requests the list of models. Never raises; follows no redirect, so the key goes nowhere
    else. Not for the thread of an event loop."""
    return asyncio.run(_reach(choice, timeout_s))


async def _reach(choice: ProviderChoice, timeout_s: float) -> ServerAnswer:
    row, url = choice.row, url_of(choice)
    if not url:
        detail = "its SDK finds the address; kode cannot ask it for a list"
        return ServerAnswer(url=row.shown, state="odd", detail=detail)
    answer = partial(ServerAnswer, url=url)
    address = f"{url.rstrip('/')}{row.models_path}"
    try:
        ask = partial(_fetch, row, key=choice.api_key or "", headers=choice.headers)
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


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What one provider offers."""

    provider: str
    models: tuple[str, ...]
    """Their names at this provider."""
    is_listed: bool = False
    """Whether they are its server's own list."""
    is_near: bool = False
    """Whether the server is on this machine or network: it has what it lists, and nothing else."""
    problem: str = ""
    """Why it cannot be used; "" if it can."""

    def lacks(self, model: str) -> bool:
        """Whether its server has said that it does not have a model, and the config does not name
        it."""
        return self.is_listed and not offers_model(self.models, model)


@dataclass
class Listing:
    """The lists of this process's servers, each kept for a while."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _lists: dict[tuple[str, str], tuple[float, tuple[str, ...]]] = field(default_factory=dict)
    """Provider and URL → when it was asked, and its models."""

    def offers(self, config: Config, current: Provider, *, ask: bool = True) -> list[Offer]:
        """What each configured provider offers, the current one first: its server's list where that
        can be asked, else the names in the config and those that kode knows. Without `ask` only
        servers on this machine are asked, all at once. Call it in a thread."""
        names = [
            row.name for row in find_configured(config, self.environ) if row.apis != ("scripted",)
        ]
        choices: dict[str, ProviderChoice | str] = {}
        for name in dict.fromkeys((current.name, *names)):
            try:
                is_current = name == current.name
                each = config if is_current else switch_provider(config, self.environ, name, None)
                choices[name] = resolve_provider(each, self.environ)
            except UserError as error:
                choices[name] = str(error)
        usable = [choice for choice in choices.values() if isinstance(choice, ProviderChoice)]
        asyncio.run(self._ask([choice for choice in usable if ask or is_near(url_of(choice))]))
        offers = []
        for name, choice in choices.items():
            part = config.providers.get(name)
            models = [current.model, *config.prices] if name == current.name else []
            models += [part.model] if part is not None and part.model else []
            offers.append(self._offer(name, choice, models))
        return offers

    def _offer(self, name: str, choice: ProviderChoice | str, models: list[str]) -> Offer:
        row = provider_row(name)
        problem, url = (choice, "") if isinstance(choice, str) else ("", url_of(choice))
        _, listed = self._lists.get((name, url), (0.0, ()))
        known = [row.default_model, *names_of(name, date.today())] if row is not None else []
        models += _sort_models(row, listed) if listed else known
        return Offer(
            provider=name,
            models=tuple(dict.fromkeys(filter(None, models))),
            is_listed=bool(listed),
            is_near=not problem and is_near(url),
            problem=problem,
        )

    async def _ask(self, choices: Sequence[ProviderChoice]) -> None:
        """Asks the servers whose lists are not fresh, side by side."""
        now = time.monotonic()

        async def note(choice: ProviderChoice) -> None:
            url = url_of(choice)
            key = (choice.name, url)
            asked_at, _ = self._lists.get(key, (float("-inf"), ()))
            if url and now - asked_at >= (NEAR_FRESH_S if is_near(url) else MENU_FRESH_S):
                answer = await _reach(choice, MENU_PATIENCE_S)
                self._lists[key] = now, tuple(n for n in answer.models if n and n.isprintable())

        await asyncio.gather(*map(note, choices))


def _sort_models(row: ProviderRow | None, names: Sequence[str]) -> list[str]:
    """A server's list: of a vendor's own, only what is named like its language models, those that
    kode knows first."""
    if row is None or not row.models:
        return list(names)
    fitting = [name for name in names if name.startswith(row.models)] or list(names)
    first = [name for name in names_of(row.name, date.today()) if name in fitting]
    return [*first, *fitting]


def find_model(
    offers: Sequence[Offer],
    config: Config,
    current: ProviderRow,
    text: str,
    environ: Mapping[str, str] = os.environ,
) -> tuple[str, str]:
    """(provider, model) of what a person typed, `MODEL` or `PROVIDER/MODEL`: by the list of the
    current provider, of the provider named, of the first other, then by the name itself. Raises:
    UserError as `resolve_model`."""
    first, _, model = text.partition("/")
    for name, own_name in ((current.name, text), (first, model)):
        if any(offer.provider == name and own_name in offer.models for offer in offers):
            return name, own_name
    having = [offer.provider for offer in offers if offer.is_listed and text in offer.models]
    return (having[0], text) if having else resolve_model(config, environ, current, text)

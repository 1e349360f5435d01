"""Whether a model server answers, accepts the key and offers a model: one request for its list of
models. Shared by `kode doctor`, `kode init` and `/model`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from kode.config.choice import LOCAL_KEY, ProviderChoice
from kode.providers.boundary import plain_reason
from kode.providers.offered import offers
from kode.providers.refusals import names_fault
from kode.providers.served import is_near

TIMEOUT_S = 5.0  # a person waits for `doctor`
MAX_LIST_BYTES = 4_000_000  # as `served.MAX_BYTES`
MAX_PAGES = 10
"""Of a list that comes in pages, as Anthropic's does."""
NO_ACCESS = (401, 403)


@dataclass(frozen=True, kw_only=True)
class Reached:
    url: str
    """The base URL, as the provider uses it."""
    state: Literal["ok", "refused", "loading", "unreachable", "odd"]
    """`refused`: the key was not accepted. `odd`: the answer is not a list."""
    detail: str
    models: tuple[str, ...] = ()

    def offers(self, model: str) -> bool | None:
        """Whether the model is in its list; None without a list."""
        return offers(self.models, model) if self.models else None


def url_of(choice: ProviderChoice) -> str:
    """The base URL that requests go to; "" for a cloud whose SDK knows it."""
    return choice.base_url or choice.row.own_url


def reach(choice: ProviderChoice, timeout_s: float = TIMEOUT_S) -> Reached:
    """Requests the list of models. Never raises; follows no redirect, so the key goes nowhere
    else."""
    import httpx2

    row, url = choice.row, url_of(choice)
    if not url:
        detail = "its SDK finds the address; kode cannot ask it for a list"
        return Reached(url=row.shown, state="odd", detail=detail)
    address = f"{url.rstrip('/')}{row.models_path}"
    try:
        with httpx2.Client(timeout=timeout_s, follow_redirects=False) as client:
            status, body = _get(client, address, _headers(choice))
            models = _models(body) if status == 200 else None
            if models is not None:
                models += _further(client, address, _headers(choice), body)
            if status == 200 and is_near(url):
                # llama.cpp lists its model to anybody, and then wants a key for each request.
                completions = f"{address.removesuffix('/models')}/chat/completions"
                asked, _ = _get(client, completions, _headers(choice))
                status = asked if asked in NO_ACCESS else status
    except Exception as error:  # clients raise errors of many families, also about their arguments
        said = plain_reason(str(error).strip()) or type(error).__name__
        return Reached(url=url, state="unreachable", detail=said.splitlines()[0][:200])
    if status in NO_ACCESS:
        return Reached(url=url, state="refused", detail=f"it refuses the key (HTTP {status})")
    if status == 503 and names_fault(body.decode(errors="replace"), "loading"):
        return Reached(url=url, state="loading", detail="it is still loading its model")
    if models is None:
        said = f"it answers, but not with a list of models (HTTP {status})"
        return Reached(url=url, state="odd", detail=said)
    return Reached(url=url, state="ok", detail=f"it offers {len(models)} models", models=models)


def _headers(choice: ProviderChoice) -> dict[str, str]:
    headers = dict(choice.row.headers)
    if choice.row.key_header:
        headers[choice.row.key_header] = choice.api_key or ""
    elif choice.api_key and choice.api_key != LOCAL_KEY:
        headers["authorization"] = f"Bearer {choice.api_key}"
    return headers | dict(choice.headers)


def _get(client: Any, address: str, headers: dict[str, str]) -> tuple[int, bytes]:
    with client.stream("GET", address, headers=headers) as response:
        body = b""
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > MAX_LIST_BYTES:
                break
        return response.status_code, body


def _models(body: bytes) -> tuple[str, ...] | None:
    """The names in a list of models; None for anything else."""
    try:
        data = json.loads(body)
        listed = data if isinstance(data, list) else data["data"]
        # null: Ollama without a model. Gemini lists its models as `models/NAME`.
        return tuple(str(model["id"]).removeprefix("models/") for model in listed or ())
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _further(client: Any, address: str, headers: dict[str, str], body: bytes) -> tuple[str, ...]:
    """The names on the further pages of a list."""
    names: tuple[str, ...] = ()
    for _ in range(MAX_PAGES):
        after = _next_page(body)
        if not after:
            break
        status, body = _get(client, f"{address}?after_id={quote(after)}", headers)
        more = _models(body) if status == 200 else None
        if not more:
            break
        names += more
    return names


def _next_page(body: bytes) -> str:
    data = json.loads(body)
    if not isinstance(data, Mapping) or data.get("has_more") is not True:
        return ""
    last = data.get("last_id")
    return last if isinstance(last, str) else ""

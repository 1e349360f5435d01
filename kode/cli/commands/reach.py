"""Does a model server answer, does it take the key, and which models does it offer?

One request, for the list of models: it costs nothing and runs nothing. Talking with a model is the
business of `kode.providers`.
"""

import json
from dataclasses import dataclass
from typing import Literal

from kode.config.choice import LOCAL_KEY, ProviderChoice
from kode.registry import provider_row

TIMEOUT_S = 5.0
MAX_LIST_BYTES = 4_000_000


@dataclass(frozen=True, kw_only=True)
class Reached:
    url: str
    """The base URL, as the provider has it."""
    state: Literal["ok", "refused", "unreachable", "odd"]
    """`refused`: it does not take the key. `odd`: it answers with something else than a list."""
    detail: str
    models: tuple[str, ...] = ()

    def offers(self, model: str) -> bool | None:
        """Whether the model is in its list; a longer name that begins so counts (dates), and a
        wildcard of a proxy. None where it gave no list."""
        if not self.models:
            return None
        return any(known.startswith(model) or "*" in known for known in self.models)


def url_of(choice: ProviderChoice) -> str:
    """The base URL that requests go to."""
    row = provider_row(choice.name)
    return choice.base_url or (row.own_url if row else "")


def reach(choice: ProviderChoice, timeout_s: float = TIMEOUT_S) -> Reached:
    """Asks for the list of models. Never raises; redirects are not followed, nor is the key shown
    to anybody else."""
    import httpx2

    url = url_of(choice)
    row = provider_row(choice.name)
    assert row is not None
    address = f"{url.rstrip('/')}{row.models_path}"
    headers = dict(row.headers)
    if row.key_header:
        headers[row.key_header] = choice.api_key or ""
    elif choice.api_key and choice.api_key != LOCAL_KEY:
        headers["authorization"] = f"Bearer {choice.api_key}"
    try:
        with httpx2.Client(timeout=timeout_s, follow_redirects=False) as client:
            with client.stream("GET", address, headers=headers) as response:
                status = response.status_code
                body = b""
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > MAX_LIST_BYTES:
                        break
    except Exception as error:  # every family of errors of a client and of the values it is given
        said = str(error).strip() or type(error).__name__
        return Reached(url=url, state="unreachable", detail=said.splitlines()[0][:200])
    if status in (401, 403):
        return Reached(url=url, state="refused", detail=f"it refuses the key (HTTP {status})")
    models = _models(body) if status == 200 else None
    if models is None:
        return Reached(
            url=url, state="odd", detail=f"it answers, but with no list of models (HTTP {status})"
        )
    return Reached(url=url, state="ok", detail=f"it offers {len(models)} models", models=models)


def _models(body: bytes) -> tuple[str, ...] | None:
    try:
        data = json.loads(body)["data"]
        return tuple(str(model["id"]) for model in data)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None

"""What the server that serves a model says of it, as fields of `ModelInfo`: better than any table.

A server on this machine or network is asked in each process, since what it has may change at any
time (`served.py`). One far away is asked at most once a day and model: the answer is kept in
`$KODE_HOME/models/HOST.json`, values only. A process waits for it a second at most, and not at all
while a kept one is fresh; an answer that comes later serves the next process. So an unreachable
server, a corrupt file or a folder that cannot be written cost nothing: the table is used.

`api.openai.com` is not asked: its list holds names only.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kode import durable, paths
from kode.errors import KodeError
from kode.providers.boundary import Endpoint
from kode.providers.catalogue import Facts, at, sound
from kode.providers.served import (
    ASK_TIMEOUT_S,
    is_near,
    listed_facts,
    nothing,
    open_client,
    served_facts,
)
from kode.registry import ProviderRow

PATIENCE_S = 1.0
"""How long a first request waits for the answer."""
FRESH = timedelta(days=1)
FAILED_FRESH = timedelta(minutes=10)
"""How long a server that did not answer is left alone."""
MAX_KEPT_BYTES = 1_000_000  # far more than a server says of its models

SILENT = ("api.openai.com",)
"""Hosts whose lists say nothing of a model."""

_under_way: set[asyncio.Task[Facts]] = set()
"""Questions that nobody waits for; a task that is referenced nowhere may be dropped."""


async def facts_of(
    row: ProviderRow,
    endpoint: Endpoint,
    given: Collection[str] = frozenset(),
    loading: Callable[[], None] = nothing,
    patience_s: float = PATIENCE_S,
) -> Facts:
    """What the server says of the model; {} if it does not say, or not in time. Fields in `given`
    are not asked for at a price. Calls `loading` if a near server is loading its model. Never
    raises."""
    try:
        url = urlsplit(endpoint.base_url)
        host, port = url.hostname, url.port
    except ValueError:
        return {}
    if url.scheme not in ("http", "https") or host is None or host in SILENT:
        return {}
    if is_near(endpoint.base_url):
        return await served_facts(row, endpoint, given, loading)
    file = paths.server_facts_file(paths.home(), host, port)
    kept = _read(file, datetime.now(UTC)).get(_key(endpoint))
    if kept is not None:
        return sound(kept["facts"] or {})
    task = asyncio.create_task(_ask(row, endpoint, file))
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)
    done, _ = await asyncio.wait({task}, timeout=patience_s)
    return task.result() if done else {}


async def _ask(row: ProviderRow, endpoint: Endpoint, file: Path) -> Facts:
    """Asks, and keeps the answer; {} after a fault, which is kept too."""
    facts: Facts | None = None
    # Clients have errors of many families, and the first request will name the fault.
    with contextlib.suppress(Exception):
        async with asyncio.timeout(ASK_TIMEOUT_S), open_client(row, endpoint) as client:
            facts = await listed_facts(client, row, endpoint)
    await asyncio.to_thread(_keep, file, _key(endpoint), facts, datetime.now(UTC))
    return facts or {}


def _key(endpoint: Endpoint) -> str:
    """One host may serve several lists."""
    return f"{endpoint.shown_url} {endpoint.model}"


def _read(file: Path, now: datetime) -> dict[str, Any]:
    """Key → entry, of the answers that are fresh; {} for a file that cannot be used."""
    try:
        with file.open("rb") as opened:
            data = json.loads(opened.read(MAX_KEPT_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    models = at(data, "models")
    if not isinstance(models, Mapping):
        return {}
    return {key: entry for key, entry in models.items() if _is_fresh(entry, now)}


def _is_fresh(entry: Any, now: datetime) -> bool:
    """Whether an entry is whole, and from the last day; not from the future, as after a clock was
    set back."""
    facts = at(entry, "facts")
    if not isinstance(entry, Mapping) or "facts" not in entry:
        return False
    if facts is not None and (not isinstance(facts, Mapping) or len(sound(facts)) != len(facts)):
        return False
    try:
        age = now - datetime.fromisoformat(str(entry.get("asked_at")))
    except (ValueError, TypeError):
        return False
    return timedelta(0) <= age < (FAILED_FRESH if facts is None else FRESH)


def _keep(file: Path, key: str, facts: Facts | None, now: datetime) -> None:
    """Writes an answer beside the fresh ones of other models; None: there was none."""
    entry = {"asked_at": now.isoformat(timespec="seconds"), "facts": facts}
    models = {**_read(file, now), key: entry}
    with contextlib.suppress(KodeError, OSError):
        durable.make_folder(file.parent)
        durable.replace(file, json.dumps({"models": models}, ensure_ascii=False).encode())

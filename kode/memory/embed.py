"""Vectors of texts, from any server that speaks the OpenAI embeddings API: cached by content hash.

Without a configured server, or while it fails, memory ranks by words alone, and a notice says so.
"""

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kode.memory.cache import VectorCache

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from openai import AsyncOpenAI

    from kode.config import Embedding

    Matrix = NDArray[np.float32]

DEFAULT_MODEL = "text-embedding-3-small"
"""What a server of embeddings is asked for where the settings name none."""

RETRY_AFTER_S = 60.0
"""After an outage, how long nothing is sent before the server is tried again."""

_BATCH = 128
"""Texts in one request."""

_MAX_CHARS = 16_000
"""Longer texts are cut before they are sent: servers refuse what exceeds their window."""


class Embedder(Protocol):
    """Converts texts to vectors of one space. Never compare vectors of different spaces."""

    @property
    def name(self) -> str:
        """The space of its vectors."""

    @property
    def dims(self) -> int:
        """Of its vectors; 0 before the first."""

    async def embed(self, texts: Sequence[str]) -> "Matrix | None":
        """float32, shape (len(texts), dims), rows of length 1 or 0; None while the server fails."""


class OpenAIEmbedder:
    """Vectors of a server with the OpenAI embeddings API."""

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None,
        dims: int | None,
        timeout_s: float,
        api_key: str | None,
        cache_folder: Path,
        notice: Callable[[str], None],
    ) -> None:
        self._model = model
        self._base_url = base_url
        self._wanted_dims = dims
        self._timeout_s = timeout_s
        self._api_key = api_key
        self.name = f"openai-{base_url or 'default'}-{model}-{dims or 'own'}"
        self._cache = VectorCache(cache_folder, self.name)
        self._notice = notice
        self._noticed = False
        self.dims = dims or 0
        self._down_until = 0.0

    async def embed(self, texts: Sequence[str]) -> "Matrix | None":
        keys = [_content_key(text) for text in texts]
        vectors = self._cache.get(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in vectors}
        if missing and time.monotonic() < self._down_until:
            return None
        try:
            if missing:
                fresh = await self._ask(missing)
                self._cache.put(fresh)
                vectors |= fresh
            matrix = _stack([vectors[key] for key in keys], self.dims)
        except Exception as error:
            # The SDK raises errors of several families; any of them is an outage here.
            self._down_until = time.monotonic() + RETRY_AFTER_S
            self._say_once(error)
            return None
        self.dims = int(matrix.shape[1]) or self.dims
        return matrix

    async def _ask(self, missing: dict[bytes, str]) -> dict[bytes, "NDArray[np.float32]"]:
        import numpy as np
        from openai import AsyncOpenAI

        found: dict[bytes, NDArray[np.float32]] = {}
        keys = list(missing)
        # A client belongs to its event loop, an embedder does not: one client per call.
        client = AsyncOpenAI(
            base_url=self._base_url or None,
            # A local server needs no key, but the SDK requires one.
            api_key=self._api_key or os.environ.get("OPENAI_API_KEY") or "none",
            timeout=self._timeout_s,
            max_retries=1,
        )
        async with client, asyncio.timeout(self._timeout_s):
            for first in range(0, len(keys), _BATCH):
                batch = keys[first : first + _BATCH]
                inputs = [missing[key][:_MAX_CHARS] or " " for key in batch]
                rows = await self._request(client, inputs)
                found |= {
                    key: np.asarray(row, dtype=np.float32)
                    for key, row in zip(batch, rows, strict=True)
                }
        return found

    async def _request(self, client: "AsyncOpenAI", inputs: list[str]) -> list[list[float]]:
        from openai import omit

        response = await client.embeddings.create(
            model=self._model,
            input=inputs,
            dimensions=self._wanted_dims or omit,
            encoding_format="float",
        )
        rows = [item.embedding for item in sorted(response.data, key=lambda item: item.index)]
        if len(rows) != len(inputs) or not all(rows) or len({len(row) for row in rows}) != 1:
            raise ValueError(f"{len(inputs)} texts got {len(rows)} vectors of unequal length")
        return rows

    def _say_once(self, error: Exception) -> None:
        if self._noticed:
            return
        self._noticed = True
        what = str(error).strip().splitlines()[:1]
        self._notice(
            f"The embedding server ({self._base_url or 'api.openai.com'}, {self._model}) does not "
            f"answer ({type(error).__name__}{': ' + what[0][:120] if what else ''}); memory "
            "searches by words alone meanwhile. Check memory.embedding in the config."
        )


def open_embedder(
    settings: "Embedding", cache_folder: Path, notice: Callable[[str], None]
) -> Embedder | None:
    """The configured embedder, or None. Opens no connection and no file.

    `notice` gets one line when the server fails.
    """
    if settings.provider == "local":
        return None
    return OpenAIEmbedder(
        model=settings.model or DEFAULT_MODEL,
        base_url=settings.base_url,
        dims=settings.dims,
        timeout_s=settings.timeout_s,
        api_key=settings.api_key,
        cache_folder=cache_folder,
        notice=notice,
    )


def _stack(rows: Sequence["NDArray[np.float32]"], dims: int) -> "Matrix":
    """Rows as a matrix, each normalized to length 1. Raises: ValueError if lengths differ."""
    import numpy as np

    if not rows:
        return np.zeros((0, dims), dtype=np.float32)
    matrix = np.stack(rows).astype(np.float32)
    if not np.isfinite(matrix).all():
        raise ValueError("a vector contains a value that is not a number")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    unit: Matrix = np.divide(matrix, lengths, out=np.zeros_like(matrix), where=lengths > 0)
    return unit


def _content_key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

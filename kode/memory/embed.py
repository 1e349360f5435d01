"""Converts texts to vectors for similarity search: the local embedder and the OpenAI-API client.

The local one is a random projection with hashed features: stems, words, numbers, word pairs, and
n-grams of characters, which carry misspellings and scripts without spaces. It needs no model and no
training, and a text has the same vector in every process on every machine.

A neural embedder is any server that speaks the OpenAI embeddings API. Its vectors are cached by
content hash; if it fails, the local one takes over and a notice says so.
"""

import asyncio
import hashlib
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kode.memory import terms
from kode.memory.cache import VectorCache

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from openai import AsyncOpenAI

    from kode.config import Embedding

    Matrix = NDArray[np.float32]

DEFAULT_MODEL = "text-embedding-3-small"
"""What a server of embeddings is asked for where the settings name none."""

LOCAL_DIMS = 256
"""Dimensions of the local embedder: noise between unrelated texts is about 1/16."""

RETRY_AFTER_S = 60.0
"""After an outage, how long the local embedder is used before the server is tried again."""

_BATCH = 128
"""Texts in one request."""

_MAX_CHARS = 16_000
"""Longer texts are cut before they are sent: servers refuse what exceeds their window."""

_WEIGHT_SCALE = 1024
"""Feature weights are rounded to 1/1024, so that sums are exact and equal on every machine."""


def embed(texts: Sequence[str], *, dims: int = LOCAL_DIMS) -> "Matrix":
    """The local vectors of texts: float32, shape (len(texts), dims), rows of length 1.

    A text without any word or sign is a row of zeros. `dims` is a multiple of 8.
    """
    import numpy as np

    matrix = np.zeros((len(texts), dims), dtype=np.float32)
    for row, text in enumerate(texts):
        weights = features(text)
        if not weights:
            continue
        digests = b"".join(_direction(feature, dims) for feature in weights)
        bits = np.unpackbits(np.frombuffer(digests, dtype=np.uint8)).reshape(len(weights), dims)
        scaled = [round(weight * _WEIGHT_SCALE) for weight in weights.values()]
        # A set bit counts +1, a clear one -1: twice the sum over set bits, minus the total.
        sums = 2 * (np.array(scaled, dtype=np.int64) @ bits.astype(np.int64)) - sum(scaled)
        length = math.sqrt(int(sums @ sums))
        if length:
            matrix[row] = (sums / length).astype(np.float32)
    return matrix


def features(text: str) -> dict[str, float]:
    """The weighted features of a text for the local embedder."""
    words = terms.words(text)
    counts: Counter[str] = Counter()
    weights: dict[str, float] = {}

    def count(feature: str, weight: float) -> None:
        weights[feature] = weight
        counts[feature] += 1

    previous = ""
    for word in words:
        if terms.is_unspaced(word):
            for gram in terms.ngrams(word):
                count(f"s {gram}", 0.5 if len(gram) == 1 else 1.0)
            previous = ""
            continue
        stem = terms.stem(word)
        stop = word in terms.STOP_WORDS
        count(f"s {stem}", 0.15 if stop else 1.0)
        if stop:
            continue
        count(f"w {word}", 0.4)
        if previous:
            count(f"p {previous} {stem}", 0.5)
        previous = stem
        if not word[0].isdigit() and len(word) > 3:
            padded = f"<{word}>"
            grams = {padded[i : i + 3] for i in range(len(padded) - 2)}
            for gram in grams:
                count(f"c {gram}", 0.6 / math.sqrt(len(grams)))
    if not words:
        for sign in text.split():
            count(f"x {sign}", 1.0)
    return {feature: weights[feature] * (1.0 + math.log(n)) for feature, n in counts.items()}


class Embedder(Protocol):
    """Converts texts to vectors of one space. Never compare vectors of different spaces."""

    @property
    def name(self) -> str:
        """The space of the vectors last returned by `embed`; changes when a server fails."""

    @property
    def dims(self) -> int: ...

    @property
    def is_neural(self) -> bool:
        """False for the local projection, whose cosines have another meaning."""

    async def embed(self, texts: Sequence[str]) -> "Matrix":
        """float32, shape (len(texts), dims), rows of length 1 or 0; all rows in one space.

        Server faults never raise.
        """


class LocalEmbedder:
    """The built-in random projection."""

    is_neural = False

    def __init__(self, dims: int = LOCAL_DIMS) -> None:
        self.dims = dims
        self.name = f"local-{dims}"

    async def embed(self, texts: Sequence[str]) -> "Matrix":
        return embed(texts, dims=self.dims)


class OpenAIEmbedder:
    """Vectors of a server with the OpenAI embeddings API; the local ones while it fails."""

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
        self._space = f"openai-{base_url or 'default'}-{model}-{dims or 'own'}"
        self._cache = VectorCache(cache_folder, self._space)
        self._notice = notice
        self._noticed = False
        self._local = LocalEmbedder()
        self._known_dims = dims or 0
        self._down_until = 0.0
        self._serves_local = False

    @property
    def name(self) -> str:
        return self._local.name if self._serves_local else self._space

    @property
    def dims(self) -> int:
        return self._local.dims if self._serves_local else self._known_dims

    @property
    def is_neural(self) -> bool:
        return not self._serves_local

    async def embed(self, texts: Sequence[str]) -> "Matrix":
        keys = [_content_key(text) for text in texts]
        vectors = self._cache.get(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in vectors}
        if missing and time.monotonic() < self._down_until:
            return await self._embed_locally(texts)
        try:
            if missing:
                fresh = await self._ask(missing)
                self._cache.put(fresh)
                vectors |= fresh
            matrix = _stack([vectors[key] for key in keys], self._known_dims)
        except Exception as error:
            # The SDK raises errors of several families; any of them is an outage here.
            self._down_until = time.monotonic() + RETRY_AFTER_S
            self._say_once(error)
            return await self._embed_locally(texts)
        self._serves_local = False
        self._known_dims = int(matrix.shape[1]) or self._known_dims
        return matrix

    async def _embed_locally(self, texts: Sequence[str]) -> "Matrix":
        # One space per call: neural and local rows cannot be compared.
        self._serves_local = True
        return await self._local.embed(texts)

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
            f"answer ({type(error).__name__}{': ' + what[0][:120] if what else ''}); memory uses "
            "its built-in vectors meanwhile. Check memory.embedding in the config."
        )


def open_embedder(
    settings: "Embedding", cache_folder: Path, notice: Callable[[str], None]
) -> Embedder:
    """The configured embedder. Opens no connection and no file.

    `notice` gets one line when the server fails.
    """
    if settings.provider == "local":
        return LocalEmbedder()
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


@lru_cache(maxsize=65536)
def _direction(feature: str, dims: int) -> bytes:
    """The signs of a feature's direction, one bit per dimension."""
    return hashlib.shake_128(feature.encode("utf-8", "surrogatepass")).digest(dims // 8)


def _content_key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

"""Vectors of texts, from a server that speaks the OpenAI embeddings API, kept by content hash in
one SQLite file that may be deleted. While the server fails, memory searches by words alone.
"""

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import durable
from kode.errors import StorageError
from kode.values import dataclass, field

if TYPE_CHECKING:
    import apsw
    import numpy as np
    from numpy.typing import NDArray

    from kode.config.model import Embedding

    Vector = NDArray[np.float32]

DEFAULT_MODEL = "text-embedding-3-small"
RETRY_AFTER_S = 60.0
"""How long a server that failed is not asked again, in seconds."""
BATCH = 128
"""Texts in one request."""
MAX_COMPARED = 10_000
"""How many texts are compared with a query: the first ones."""
MAX_CHARS = 16_000
"""Longer texts are cut: servers refuse what exceeds their window."""


@dataclass
class Embedder:
    """The vectors of one server and model; those of others are never compared with them."""

    settings: "Embedding"
    path: Path
    notice: Callable[[str], None]
    """Gets one line when the server first fails."""
    _vectors: "dict[str, Vector]" = field(default_factory=dict)
    """By key, as read from the file."""
    _silent_until: float = 0.0
    """When the server is asked again, on the monotonic clock; 0 before the first outage."""

    @property
    def model(self) -> str:
        return self.settings.model or DEFAULT_MODEL

    async def cosines(self, query: str, texts: Mapping[str, str]) -> dict[str, float] | None:
        """Name → cosine of that text with the query, where both have vectors; None in an outage."""
        compared = dict(list(texts.items())[:MAX_COMPARED])
        if compared and await self.compute_missing([query, *compared.values()]) is None:
            return None
        of_query = self._vectors.get(self._key(query))
        vectors = ((name, self._vectors.get(self._key(text))) for name, text in compared.items())
        return {
            name: float(vector @ of_query)
            for name, vector in vectors
            if vector is not None and of_query is not None and vector.shape == of_query.shape
        }

    async def compute_missing(self, texts: Sequence[str]) -> int | None:
        """Computes up to `BATCH` missing vectors. Returns how many are left; None in an outage."""
        keys = {self._key(text): text for text in texts}
        if unread := [key for key in keys if key not in self._vectors]:
            self._sync_vectors(unread, {})
        if not (missing := [key for key in unread if key not in self._vectors]):
            return 0
        if time.monotonic() < self._silent_until:
            return None
        try:
            vectors = await self._request_vectors([keys[key] for key in missing[:BATCH]])
        except Exception as error:
            # The SDK raises errors of several families; each of them is an outage here.
            if not self._silent_until:
                line = str(error).strip().partition("\n")[0][:120]
                self.notice(
                    f"The embedding server ({self.settings.base_url or 'api.openai.com'}, "
                    f"{self.model}) does not answer ({type(error).__name__}: {line}); memory "
                    "searches by words alone meanwhile. Check memory.embedding in the config."
                )
            self._silent_until = time.monotonic() + RETRY_AFTER_S
            return None
        self._sync_vectors([], dict(zip(missing, vectors, strict=False)))
        return len(missing) - len(vectors)

    async def _request_vectors(self, texts: Sequence[str]) -> "list[Vector]":
        """Returns vectors of length 1, or 0. Raises what the SDK raises; ValueError."""
        import numpy as np
        from openai import AsyncOpenAI, omit

        settings = self.settings
        # A client belongs to its event loop, an embedder does not: one client per call.
        client = AsyncOpenAI(
            base_url=settings.base_url or None,
            # A local server needs no key, but the SDK requires one.
            api_key=settings.api_key or os.environ.get("OPENAI_API_KEY") or "none",
            timeout=settings.timeout_s,
            max_retries=1,
        )
        async with client, asyncio.timeout(settings.timeout_s):
            response = await client.embeddings.create(
                model=self.model,
                input=[text[:MAX_CHARS] or " " for text in texts],
                dimensions=settings.dims or omit,
                encoding_format="float",
            )
        rows = [item.embedding for item in sorted(response.data, key=lambda item: item.index)]
        matrix = np.asarray(rows, dtype=np.float32)
        if len(rows) != len(texts) or not matrix.size or not np.isfinite(matrix).all():
            raise ValueError(f"{len(texts)} texts did not get a vector of numbers each")
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        return list(matrix / np.where(lengths > 0, lengths, 1))

    def _sync_vectors(self, keys: Sequence[str], new: "Mapping[str, Vector]") -> None:
        """Reads vectors by key, writes new ones. Deletes a damaged file; ignores other errors."""
        import apsw
        import numpy as np

        self._vectors |= new
        written = [(key, vector.astype("<f4").tobytes()) for key, vector in new.items()]
        try:
            with closing(open_disposable(self.path)) as file, file:
                file.execute("CREATE TABLE IF NOT EXISTS vectors (key PRIMARY KEY, vector)")
                file.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", written)
                sql = "SELECT * FROM vectors WHERE key IN (SELECT value FROM json_each(?))"
                rows: Any = file.execute(sql, (json.dumps(keys),))
                self._vectors |= {key: np.frombuffer(data, dtype="<f4") for key, data in rows}
        except (apsw.Error, OSError, StorageError) as error:
            if isinstance(error, apsw.CorruptError | apsw.NotADBError):
                delete_disposable(self.path)

    def _key(self, text: str) -> str:
        row = f"{self.settings.base_url}\0{self.model}\0{self.settings.dims}\0{text}"
        return hashlib.sha256(row.encode(errors="surrogatepass")).hexdigest()


def open_disposable(path: Path | None) -> "apsw.Connection":
    """Opens a database that may be deleted at any time: a file that processes share, or one in
    memory. Raises: apsw.Error, OSError, StorageError."""
    import apsw

    if path:
        durable.make_folder(path.parent)
        path.touch(0o600)
    connection = apsw.Connection(str(path or ":memory:"))
    connection.set_busy_timeout(5_000)
    # No fsync: the content can be computed again. Deleted content is overwritten.
    connection.execute("PRAGMA synchronous = OFF; PRAGMA secure_delete = ON")
    connection.transaction_mode = "IMMEDIATE"
    return connection


def delete_disposable(path: Path) -> None:
    """Deletes a disposable database and its journal, ignoring failures."""
    for name in (path.name, f"{path.name}-journal"):
        with suppress(StorageError):
            durable.remove(path.with_name(name))

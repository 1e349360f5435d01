"""Vectors of a neural model that the members of a team share, where their server has pgvector: what
one has made nobody else makes, and the server measures those that a copy does not.

Nothing rests on this: without it each member makes the vectors, as for notes of one's own, and an
answer waits for the server no longer than `ASK_S`.
"""

import asyncio
import hashlib
import json
import math
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from kode.plugin.contracts import VectorShelf
from kode.plugin.errors import MemoryRefused
from kode.plugins.team.address import Address
from kode.plugins.team.server import RETRY_S, Server, Start, Unreachable, open_server

ASK_S = 0.5
"""How long a search waits for the server; without an answer it ranks by what is here."""
TAKEN_AT_ONCE = 100
"""One of so many is made here too, and compared."""
SAME_COSINE = 0.95
"""Servers of one model differ by rounding, in fewer bits by more; another model is nowhere near."""
LACKING_AT_ONCE = 1_000
"""The server looks through all notes to find them."""
SENT_AT_ONCE = 50
"""Adding one to the index of a server takes milliseconds, and locks its note for as long."""


class TeamVectors:
    """The team knows the space of vectors by the model's name and their dimensions: the address of
    an embedding server is each member's own. `start` runs work that nobody waits for."""

    def __init__(
        self, address: Address, model: str, start: Start, notice: Callable[[str], None]
    ) -> None:
        self._address = address
        self._model = model
        self._start = start
        self._notice = notice
        self._not_before = 0.0
        self._is_offered = False

    async def take(self, shelf: VectorShelf) -> None:
        await self._reach(lambda server: self._take(server, shelf))

    async def offer(self, shelf: VectorShelf, made: Sequence[str]) -> None:
        """Once a session all that is here, then what was just made."""
        if made or not self._is_offered:
            await self._reach(lambda server: self._offer(server, shelf, made))

    async def nearest(self, vector: Any, project: str | None, most: int) -> Mapping[str, float]:
        """What the server finds within `ASK_S`."""
        found: dict[str, float] = {}

        async def ask(server: Server) -> None:
            found.update(await server.nearest(self._model, _text(vector), project, most))

        task = self._start(self._reach(ask))
        await asyncio.wait({task}, timeout=ASK_S)
        if not task.done():
            self._not_before = asyncio.get_running_loop().time() + RETRY_S
            task.cancel()
        return found

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    async def _reach(self, work: Callable[[Server], Awaitable[None]]) -> None:
        """Does something on the server, if it can be reached and has pgvector."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._not_before:
            return
        try:
            async with open_server(self._address) as server:
                if not (await server.membership()).has_vectors:
                    self._not_before = math.inf  # until the next session
                    return
                await work(server)
        except Unreachable:  # which the exchange of notes reports
            self._not_before = loop.time() + RETRY_S
        except MemoryRefused as error:
            self._not_before = math.inf
            self._notice(f"Vectors of notes are not shared in this session: {error}")

    async def _take(self, server: Server, shelf: VectorShelf) -> None:
        """Puts what the server has beside the notes here, the newest first."""
        dims, before = await shelf.dims(), None
        while dims and (page := shelf.missing(TAKEN_AT_ONCE, before)):
            before = page[-1][0]
            found = await server.vectors(self._model, dims, [id for _, id, _ in page])
            fitting = [
                (place, content, one.person, vector)
                for place, id, content in page
                if (one := found.get(id)) and one.digest == _digest(content)
                if (vector := _read(one.embedding, dims)) is not None
            ]
            if fitting and not await self._is_ours(shelf, *random.choice(fitting)[1:]):
                return
            await shelf.put([(place, content, vector) for place, content, _, vector in fitting])

    async def _is_ours(self, shelf: VectorShelf, content: str, person: str, vector: Any) -> bool:
        """Whether a vector is what the model makes of a text; False while its server fails.
        Raises: MemoryRefused where it is another, since then others may be too."""
        vectors = await shelf.make([content])
        if vectors is None:
            return False
        (made,) = vectors
        if made.shape != vector.shape or float(made @ vector) < SAME_COSINE:
            raise MemoryRefused(
                f"what {person} sent for {self._model!r} is not what the model here makes of the "
                "same text. Either it is another model under this name (give it one of its own in "
                "memory.embedding), or their vectors are false"
            )
        return True

    async def _offer(self, server: Server, shelf: VectorShelf, made: Sequence[str]) -> None:
        """Sends what the server lacks, which only the first time may be more than was just made."""
        dims, after = await shelf.dims(), ""
        if dims and not self._is_offered:
            while lacking := await server.lacking(self._model, dims, after, LACKING_AT_ONCE):
                await self._send(server, shelf, dims, lacking)
                after = lacking[-1]
            self._is_offered = True
        elif dims:
            await self._send(server, shelf, dims, made)

    async def _send(
        self, server: Server, shelf: VectorShelf, dims: int, ids: Sequence[str]
    ) -> None:
        """Sends the vectors that are here for those of the notes that the team has."""
        held = shelf.held(ids)
        ready = [
            {"id": id, "digest": _digest(held[id][0]), "vector": _text(held[id][1])}
            for id in ids
            if id in held and held[id][1].shape == (dims,)
        ]
        for first in range(0, len(ready), SENT_AT_ONCE):
            await server.keep_vectors(self._model, dims, ready[first : first + SENT_AT_ONCE])


def _digest(content: str) -> str:
    """As the function `digest` makes it on the server."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def _text(vector: Any) -> str:
    """A JSON array, in which each number is as short as it can be."""
    return f"[{','.join(map(str, vector))}]"


def _read(text: str, dims: int) -> Any:
    """A vector of a colleague, brought to length 1; None for what is no direction."""
    import numpy as np

    vector = np.array(json.loads(text), dtype=np.float32)
    length = float(np.linalg.norm(vector)) if vector.shape == (dims,) else 0.0
    return vector / np.float32(length) if 0 < length < math.inf else None

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
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING

from kode.errors import MemoryRefused
from kode.memory import rank
from kode.memory.embed import DEFAULT_MODEL, Embedder
from kode.memory.index import CANDIDATES, MEASURED
from kode.memory.notes.search import LAST_PLACE, MADE_AT_ONCE, NoteVectors
from kode.memory.notes.store import NoteStore, Wanted
from kode.memory.notes.team.address import Address
from kode.memory.notes.team.member import RETRY_S, Start
from kode.memory.notes.team.rebase import is_shared
from kode.memory.notes.team.server import Server, Unreachable, open_server

if TYPE_CHECKING:
    from kode.config import Embedding as Settings
    from kode.memory.index import Vector

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


class TeamVectors(NoteVectors):
    """The team knows the space of vectors by the model's name and their dimensions: the address of
    an embedding server is each member's own. `start` runs work that nobody waits for."""

    def __init__(
        self,
        store: NoteStore,
        embedder: Embedder,
        address: Address,
        settings: "Settings",
        start: Start,
        notice: Callable[[str], None],
    ) -> None:
        super().__init__(store, embedder)
        self._model_here = embedder
        self._address = address
        self._model = settings.model or DEFAULT_MODEL
        self._start = start
        self._notice = notice
        self._not_before = 0.0
        self._is_offered = False

    async def make_missing(self, most: int = MADE_AT_ONCE) -> int:
        """As for notes of one's own, but takes over first what colleagues have made, and sends what
        they lack: once a session all that is here, then what was just made."""
        if self._missing(1):
            await self._reach(self._take)
        elif self._is_offered:
            return 0
        ids = [id for _, id, _ in self._missing(most)]
        made = await super().make_missing(most)
        if made or not self._is_offered:
            await self._reach(lambda server: self._offer(server, ids))
        return made

    async def elsewhere(self, vector: "Vector", wanted: Wanted) -> Mapping[int, float]:
        """Those of the server's notes that are near, by their places in the copy; none while the
        copy measures all by itself."""
        if len(self._database.index) <= MEASURED and not self._missing(1):
            return {}
        project = None if wanted.anywhere else self._store.project_scope
        many = max(CANDIDATES, 3 * wanted.limit)
        found: dict[str, float] = {}

        async def ask(server: Server) -> None:
            found.update(await server.nearest(self._model, _text(vector), project, many))

        task = self._start(self._reach(ask))
        await asyncio.wait({task}, timeout=ASK_S)
        if not task.done():
            self._not_before = asyncio.get_running_loop().time() + RETRY_S
            task.cancel()
        near = {id: cosine for id, cosine in found.items() if cosine >= rank.MIN_COSINE}
        sql = "SELECT n.place, n.id FROM memory_notes n JOIN json_each(?) j ON n.id = j.value"
        return {place: near[id] for place, id in self._database.rows(sql, (json.dumps([*near]),))}

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

    async def _take(self, server: Server) -> None:
        """Puts what the server has beside the notes here, the newest first."""
        dims, before = await self._dims(), LAST_PLACE
        while dims and (page := self._missing(TAKEN_AT_ONCE, before)):
            before = page[-1][0]
            found = await server.vectors(self._model, dims, [id for _, id, _ in page])
            fitting = [
                (place, content, one.person, vector)
                for place, id, content in page
                if (one := found.get(id)) and one.digest == _digest(content)
                if (vector := _read(one.embedding, dims)) is not None
            ]
            if fitting and not await self._is_ours(*random.choice(fitting)[1:]):
                return
            async with self._store.writing():
                for place, content, _, vector in fitting:
                    self._put(place, content, vector)

    async def _is_ours(self, content: str, person: str, vector: "Vector") -> bool:
        """Whether a vector is what the model makes of a text; False while its server fails.
        Raises: MemoryRefused where it is another, since then others may be too."""
        vectors = await self._model_here.embed([content])
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

    async def _offer(self, server: Server, made: Collection[str]) -> None:
        """Sends what the server lacks, which only the first time may be more than was just made."""
        dims, after = await self._dims(), ""
        if dims and not self._is_offered:
            while lacking := await server.lacking(self._model, dims, after, LACKING_AT_ONCE):
                await self._send(server, dims, lacking)
                after = lacking[-1]
            self._is_offered = True
        elif dims:
            await self._send(server, dims, made)

    async def _send(self, server: Server, dims: int, ids: Collection[str]) -> None:
        """Sends the vectors that are here for those of the notes that the team has."""
        import numpy as np

        notes = [note for note in self._store.by_ids(ids).values() if is_shared(note)]
        sql = (
            "SELECT n.id, v.vector FROM json_each(?) j JOIN memory_notes n ON n.id = j.value "
            "JOIN note_vectors v ON v.place = n.place WHERE v.space = ? AND length(v.vector) = ?"
        )
        values = (json.dumps([note.id for note in notes]), self.space, 4 * dims)
        held = dict(self._database.rows(sql, values))
        ready = [
            {
                "id": note.id,
                "digest": _digest(note.content),
                "vector": _text(np.frombuffer(held[note.id], dtype="<f4")),
            }
            for note in notes
            if note.id in held and any(held[note.id])
        ]
        for first in range(0, len(ready), SENT_AT_ONCE):
            await server.keep_vectors(self._model, dims, ready[first : first + SENT_AT_ONCE])

    async def _dims(self) -> int:
        """Of the model's vectors: of one that is here, else as the model says or shows; 0 while its
        server fails."""
        sql = "SELECT length(vector) / 4 FROM note_vectors WHERE space = ? LIMIT 1"
        if held := self._database.value(sql, (self.space,)):
            return int(held)
        if not self._model_here.dims and (missing := self._missing(1)):
            await self._model_here.embed([missing[0][2]])
        return self._model_here.dims


def _digest(content: str) -> str:
    """As the function `digest` makes it on the server."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def _text(vector: "Vector") -> str:
    """A JSON array, in which each number is as short as it can be."""
    return f"[{','.join(map(str, vector))}]"


def _read(text: str, dims: int) -> "Vector | None":
    """A vector of a colleague, brought to length 1; None for what is no direction."""
    import numpy as np

    vector: Vector = np.array(json.loads(text), dtype=np.float32)
    length = float(np.linalg.norm(vector)) if vector.shape == (dims,) else 0.0
    return vector / np.float32(length) if 0 < length < math.inf else None

"""Many texts on disk that are searched by words, by time, and by vectors where a model makes them.

Made for the episodes of years: adding a text costs the same however many there are, opening reads a
few pages, several processes may write. A cache: the texts themselves live elsewhere. Whoever owns
them gives a `fingerprint` of what they were taken from, compares it when opening (one stat, not n),
and fills the collection again when it differs. A file that is damaged, or was made with another
tokenizer, is thrown away: then it is empty and its fingerprint is "".
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kode.memory import index, rank, terms, when
from kode.memory.cache import CacheFile
from kode.memory.index import CANDIDATES, Able, Place, TextIndex, Wanted

if TYPE_CHECKING:
    import apsw

    from kode.memory.index import Vector

VERSION = 100 + terms.VERSION
"""Of the tables and of the terms in them."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS texts (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL,
    since TEXT NOT NULL, until TEXT NOT NULL, project TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS texts_until ON texts (until DESC, id DESC);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Found:
    """One text of a result."""

    id: str
    ranked: rank.Ranked


@dataclass(frozen=True, slots=True)
class Row:
    """One text to put in."""

    id: str
    text: str
    stamp: str = ""
    """Whatever tells one version of the text from another: a time, a hash."""
    vector: "Vector | None" = None
    """Of a neural embedder; of length 1."""
    since: str = ""
    """When what it is about began, as `when.stamp` gives it; "" without a time."""
    until: str = ""
    """When it ended."""
    project: str = ""


class Collection:
    """Texts by id. Opens its file when first used; one object serves one thread."""

    def __init__(self, path: Path, *, space: str = "") -> None:
        self.path = path
        self._space = space
        """The neural embedder's name; "" searches by words alone."""
        self._file = CacheFile(path, self._prepare, version=VERSION)
        self._index = TextIndex(self._file.rows, "text", Able())

    def close(self) -> None:
        """Gives the file back; the collection opens it again when used."""
        self._file.close()

    def fingerprint(self) -> str:
        """What `set_fingerprint` was last given; "" for a new, damaged or emptied collection."""
        sql = "SELECT value FROM meta WHERE name = 'fingerprint'"
        rows = self._file.read(lambda: self._file.rows(sql))
        return str(rows[0][0]) if rows else ""

    def set_fingerprint(self, value: str) -> None:
        """Says what the collection is now a faithful image of. Raises: StorageError."""

        def set_value() -> None:
            self._file.rows("INSERT OR REPLACE INTO meta VALUES ('fingerprint', ?)", (value,))

        self._file.change(set_value)

    def stamps(self) -> dict[str, str]:
        """Every id with its stamp: what to compare with when the fingerprint differs."""
        return self._file.read(lambda: dict(self._file.rows("SELECT id, stamp FROM texts"))) or {}

    def __len__(self) -> int:
        return self._file.read(lambda: len(self._index)) or 0

    def put(self, rows: Iterable[Row]) -> None:
        """Adds texts, or replaces those whose id is there, in one transaction.

        Raises: StorageError; then none of them is in.
        """
        given = list(rows)

        def put_all() -> None:
            for row in given:
                self._put(row)

        self._file.change(put_all)

    def remove(self, ids: Iterable[str]) -> None:
        """Takes texts out; ids that are not there are no error. Raises: StorageError."""
        given = list(ids)

        def remove_all() -> None:
            for id in given:
                self._delete(id)

        self._file.change(remove_all)

    def search(
        self,
        query: str,
        k: int,
        now: datetime,
        vector: "Vector | None" = None,
        *,
        typo_chars: int = rank.TYPO_CHARS,
    ) -> list[Found] | None:
        """The best `k`, none for a query that matches nothing; None when the file cannot be read,
        or this SQLite has no FTS5.

        `vector` is the query's under the neural embedder of this collection.
        """
        many = max(CANDIDATES, 3 * k)

        def search_in() -> list[Found] | None:
            self._file.rows("SELECT 1")  # opened, it knows what it is able to do
            if not self._index.able.words:
                return None
            asked = self._index.read(query, now, typo_chars=typo_chars)
            nearest = (
                self._index.nearest(vector, self._space, many, Wanted())
                if vector is not None
                else {}
            )
            near = {place: cos for place, cos in nearest.items() if cos >= rank.MIN_COSINE}
            meant = self._in_period(asked.period, many)
            chosen = dict.fromkeys((*self._index.candidates(asked, many, Wanted()), *near, *meant))
            sql = "SELECT t.place, t.id, t.until FROM json_each(?) j JOIN texts t ON t.place = j.value"
            rows = self._file.rows(sql, (json.dumps(list(chosen)),))
            ids = {place: id for place, id, _ in rows}
            places = [Place(place, until, in_period=place in meant) for place, _, until in rows]
            ranked = self._index.order(asked, places, near)
            return [Found(ids[place], one) for place, one in ranked[:k]]

        return self._file.read(search_in)

    def newest(self, many: int, project: str | None = None) -> list[str]:
        """The ids of the newest texts, the newest first; with `project`, of this one and of those
        that name none."""
        sql = (
            "SELECT id FROM texts WHERE :project IS NULL OR project IN (:project, '') "
            "ORDER BY until DESC, id DESC LIMIT :many"
        )
        values = {"project": project, "many": many}
        return [id for (id,) in self._file.read(lambda: self._file.rows(sql, values)) or []]

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _prepare(self, connection: "apsw.Connection") -> None:
        connection.execute(_SCHEMA)
        self._index.able = index.prepare(connection, "text", writable=True)

    def _put(self, row: Row) -> None:
        self._delete(row.id)
        sql = (
            "INSERT INTO texts (id, stamp, since, until, project) VALUES (?, ?, ?, ?, ?) "
            "RETURNING place"
        )
        values = (row.id, row.stamp, row.since, row.until, row.project)
        ((place,),) = self._file.rows(sql, values)
        self._index.add(place, row.text)
        if self._space and row.vector is not None:
            self._index.add_vector(place, self._space, row.vector)

    def _delete(self, id: str) -> None:
        for (place,) in self._file.rows("DELETE FROM texts WHERE id = ? RETURNING place", (id,)):
            self._index.remove(place)

    def _in_period(self, period: when.Period | None, many: int) -> set[int]:
        if period is None:
            return set()
        sql = "SELECT place FROM texts WHERE until > '' ORDER BY until DESC, id DESC LIMIT ?"
        values: tuple[object, ...] = (rank.NEWEST,)
        if not period.is_newest:
            sql = (
                "SELECT place FROM texts WHERE until >= ? AND since < ? ORDER BY until DESC LIMIT ?"
            )
            values = (period.start, period.end, many)
        return {place for (place,) in self._file.rows(sql, values)}

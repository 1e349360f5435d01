"""Many texts on disk that are searched by words, by time, and by vectors where a model makes them.

Made for the episodes of years: adding a text costs the same however many there are, opening reads a
few pages, several processes may write. A cache: the texts themselves live elsewhere. Whoever owns
them gives a `fingerprint` of what they were taken from, compares it when opening (one stat, not n),
and fills the collection again when it differs. A file that is damaged, or was made with another
tokenizer, is thrown away: then it is empty and its fingerprint is "".
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kode.memory import index, rank, terms
from kode.memory.cache import CacheFile
from kode.memory.index import CANDIDATES, Able, Source, TextIndex

if TYPE_CHECKING:
    import apsw

    from kode.memory.index import Vector

VERSION = 100 + terms.VERSION
"""Of the tables and of the terms in them."""
NAME = "text"

_TABLES = """
CREATE TABLE IF NOT EXISTS texts (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL,
    since TEXT NOT NULL, until TEXT NOT NULL, project TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS texts_until ON texts (until DESC, id DESC);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_ALL = Source("SELECT place, since, until, '' AS row FROM texts")


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
    """Texts by id. `space` is the neural embedder's name; "" searches by words alone. Opens its
    file when first used; one object serves one thread."""

    def __init__(self, path: Path, *, space: str = "", read_only: bool = False) -> None:
        self._space = space
        self._file = CacheFile(path, self._prepare, version=VERSION, read_only=read_only)
        self._index = TextIndex(self._file.rows, NAME, Able())

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
        return dict(self._file.read(lambda: self._file.rows("SELECT id, stamp FROM texts")) or [])

    def __len__(self) -> int:
        return self._file.read(lambda: len(self._index)) or 0

    def put(self, rows: Iterable[Row]) -> None:
        """Adds texts, or replaces those whose id is there, in one transaction.

        Raises: StorageError; then none of them is in.
        """
        given = list(rows)

        def put_all() -> None:
            for row in given:
                self._delete(row.id)
                ((place,),) = self._file.rows(
                    "INSERT INTO texts (id, stamp, since, until, project) VALUES (?, ?, ?, ?, ?) "
                    "RETURNING place",
                    (row.id, row.stamp, row.since, row.until, row.project),
                )
                self._index.add(place, row.text)
                if self._space and row.vector is not None:
                    self._index.add_vector(place, self._space, row.vector)

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
    ) -> list[tuple[str, rank.Ranked]] | None:
        """The ids of the best `k`, none for a query that matches nothing; None when the file cannot
        be read, or this SQLite has no FTS5.

        `vector` is the query's under the neural embedder of this collection.
        """
        many = max(CANDIDATES, 3 * k)

        def find() -> list[tuple[str, rank.Ranked]] | None:
            near = {}
            if vector is not None:
                nearest = self._index.nearest(vector, self._space, many, _ALL)
                near = {place: cos for place, cos in nearest.items() if cos >= rank.MIN_COSINE}
            found = self._index.search(
                query, _ALL, now, many=many, near=near, typo_chars=typo_chars
            )
            sql = "SELECT id FROM texts WHERE place = ?"
            return [(self._file.rows(sql, (place,))[0][0], ranked) for place, ranked in found[:k]]

        return self._file.read(lambda: find() if self._has_words() else None)

    def newest(self, many: int, project: str | None = None) -> list[str] | None:
        """The ids of the newest texts, the newest first; with `project`, of this one and of those
        that name none. None when the file cannot be read."""
        sql = (
            "SELECT id FROM texts WHERE :project IS NULL OR project IN (:project, '') "
            "ORDER BY until DESC, id DESC LIMIT :many"
        )
        values = {"project": project, "many": many}
        return self._file.read(lambda: [id for (id,) in self._file.rows(sql, values)])

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _prepare(self, connection: "apsw.Connection") -> None:
        connection.execute(_TABLES)
        self._index.able = index.prepare(connection, NAME, writable=not connection.readonly("main"))

    def _has_words(self) -> bool:
        self._file.rows("SELECT 1")  # opened, it knows
        return self._index.able.words

    def _delete(self, id: str) -> None:
        for (place,) in self._file.rows("DELETE FROM texts WHERE id = ? RETURNING place", (id,)):
            self._index.remove(place)

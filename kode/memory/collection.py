"""Many texts on disk that are searched by words, and by vectors where a model makes them: a cache.

Made for the episodes of years. SQLite's FTS5 keeps the postings: adding a text costs the same
however many there are, opening reads a few pages, several processes may write, and the file needs
no code of ours to stay whole. The rarest words of a query choose the candidates, so that a word
that half of all texts hold costs nothing; then the candidates are ranked by the formula of
`kode.memory.rank` over all words. A neural model's vectors lie beside it in a memory-mapped file, a
row a text; a search multiplies it once with the query's vector.

The texts themselves live elsewhere. Whoever owns them gives a `fingerprint` of what they were taken
from, compares it when opening (one stat, not n), and fills the collection again when it differs. A
damaged file is thrown away: then it is empty and its fingerprint is "".
"""

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kode import durable
from kode.errors import StorageError
from kode.memory import rank, terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

T = TypeVar("T")

CANDIDATES = 60
"""How many texts the rarest words choose for ranking; more where more are asked for."""
POSTINGS_A_QUERY = 20_000
"""How many postings choosing may read: words are taken from the rarest on until it is spent."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS texts (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL,
    terms TEXT NOT NULL, length INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (
    terms, content='texts', content_rowid='place', detail='none', columnsize=0,
    tokenize="unicode61 remove_diacritics 0 categories 'L* N* M* Co' tokenchars '.'"
);
CREATE VIRTUAL TABLE IF NOT EXISTS holding USING fts5vocab (words, row);
"""


@dataclass(frozen=True, slots=True)
class Found:
    """One text of a result."""

    id: str
    score: float
    """More is better; comparable within one result only."""
    why: str
    """The words that matched, rarest first."""


@dataclass(frozen=True, slots=True)
class Row:
    """One text to put in."""

    id: str
    text: str
    stamp: str = ""
    """Whatever tells one version of the text from another: a time, a hash."""
    vector: "Vector | None" = None
    """Of a neural embedder; of length 1."""


class Collection:
    """Texts by id. Opens its file when first used; one object serves one thread."""

    def __init__(self, path: Path, *, space: str = "") -> None:
        self.path = path
        self._space = space
        """The neural embedder's name; "" searches by words alone."""
        self._database: sqlite3.Connection | None = None

    def close(self) -> None:
        """Gives the file back; the collection opens it again when used."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def fingerprint(self) -> str:
        """What `set_fingerprint` was last told; "" for a new, damaged or emptied collection."""
        return self._read(lambda database: _note(database, "fingerprint"), "")

    def set_fingerprint(self, value: str) -> None:
        """Says what the collection is now a faithful image of. Raises: StorageError."""
        self._change(lambda database: _set_note(database, "fingerprint", value))

    def stamps(self) -> dict[str, str]:
        """Every id with its stamp: what to compare with when the fingerprint differs."""
        return self._read(lambda db: dict(db.execute("SELECT id, stamp FROM texts")), {})

    def __len__(self) -> int:
        return self._read(lambda database: int(_note(database, "texts") or 0), 0)

    def put(self, rows: Iterable[Row]) -> None:
        """Adds texts, or replaces those whose id is there, in one transaction.

        Raises: StorageError; then none of them is in.
        """
        given = list(rows)

        def put_all(database: sqlite3.Connection) -> None:
            for row in given:
                self._put(database, row)

        self._change(put_all)

    def remove(self, ids: Iterable[str]) -> None:
        """Takes texts out; ids that are not there are no error. Raises: StorageError."""
        given = list(ids)

        def remove_all(database: sqlite3.Connection) -> None:
            for id in given:
                _delete(database, id)

        self._change(remove_all)

    def search(self, query: str, k: int, vector: "Vector | None" = None) -> list[Found] | None:
        """The best `k`, none for a query that matches nothing; None when the file cannot be read,
        or this SQLite has no FTS5.

        `vector` is the query's under the neural embedder of this collection.
        """
        many = max(CANDIDATES, 3 * k)

        def search_in(database: sqlite3.Connection) -> list[Found] | None:
            holding = _holding(database, terms.search_terms(query))
            cosines = self._cosines(database, vector, many)
            places = _candidates(database, holding, many)
            return _ranked(database, {*places, *cosines}, holding, cosines)[:k]

        return self._read(search_in, None)

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _read(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """What `work` finds; `otherwise` when the file is locked too long, unreadable or damaged
        (then it is thrown away, and its fingerprint tells the owner to fill it again)."""
        try:
            return work(self._open())
        except (sqlite3.OperationalError, StorageError, OSError):
            self.close()
        except sqlite3.DatabaseError:
            self.throw_away()
        return otherwise

    def _change(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Runs `work` in one transaction; a damaged file is first thrown away."""
        for attempt in (1, 2):
            try:
                with self._open() as database:
                    database.execute("BEGIN IMMEDIATE")
                    work(database)
                return
            except (sqlite3.OperationalError, OSError) as error:
                self.close()
                raise StorageError(
                    f"Could not write the search index {self.path} ({error}). "
                    "Check the disk; the index is made again at the next start."
                ) from error
            except sqlite3.DatabaseError as error:
                self.throw_away()
                if attempt == 2:
                    raise StorageError(
                        f"The search index {self.path} stays damaged ({error}). Delete it."
                    ) from error

    def _put(self, database: sqlite3.Connection, row: Row) -> None:
        _delete(database, row.id)
        words = terms.search_terms(row.text)
        joined = " ".join(words)
        place = database.execute(
            "INSERT INTO texts (id, stamp, terms, length) VALUES (?, ?, ?, ?)",
            (row.id, row.stamp, joined, len(words)),
        ).lastrowid
        database.execute("INSERT INTO words (rowid, terms) VALUES (?, ?)", (place, joined))
        _count(database, 1, len(words))
        if self._space and row.vector is not None and place is not None:
            self._write_vector(database, place, row.vector)

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            durable.make_folder(self.path.parent)
            database = sqlite3.connect(
                self.path, timeout=5.0, check_same_thread=False, isolation_level=None
            )
            try:
                # No fsync: after a power cut the file is damaged at worst, and made again.
                database.execute("PRAGMA journal_mode=WAL")
                database.execute("PRAGMA synchronous=OFF")
                database.executescript(_SCHEMA)
                os.chmod(self.path, 0o600)
            except BaseException:
                database.close()
                raise
            self._database = database
        return self._database

    def throw_away(self) -> None:
        """Deletes the files; the next use begins with an empty collection."""
        self.close()
        for suffix in ("", "-wal", "-shm", "-journal", ".vectors"):
            with suppress(OSError):
                os.unlink(f"{self.path}{suffix}")

    @property
    def _vectors(self) -> Path:
        return Path(f"{self.path}.vectors")

    def _write_vector(self, database: sqlite3.Connection, place: int, vector: "Vector") -> None:
        space = f"{self._space} {len(vector)}"
        if _note(database, "space") != space:
            with suppress(FileNotFoundError):
                os.unlink(self._vectors)
            _set_note(database, "space", space)
        data = vector.astype("<f4").tobytes()
        descriptor = os.open(self._vectors, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            file.seek(place * len(data))
            file.write(data)

    def _cosines(
        self, database: sqlite3.Connection, vector: "Vector | None", many: int
    ) -> dict[int, float]:
        """The nearest texts by the model's vectors: place and cosine."""
        if vector is None or _note(database, "space") != f"{self._space} {len(vector)}":
            return {}
        import numpy as np

        size = self._vectors.stat().st_size // (4 * len(vector))
        if size == 0:
            return {}
        rows = np.memmap(self._vectors, dtype="<f4", mode="r", shape=(size, len(vector)))
        cosines = rows @ vector
        near = np.argpartition(-cosines, min(many, size - 1))[:many]
        return {int(p): float(cosines[p]) for p in near if cosines[p] >= rank.MIN_COSINE}


def _note(database: sqlite3.Connection, name: str) -> str:
    row = database.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
    return str(row[0]) if row else ""


def _set_note(database: sqlite3.Connection, name: str, value: str) -> None:
    database.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, value))


def _count(database: sqlite3.Connection, texts: int, words: int) -> None:
    """Keeps the number of texts and words, which a query needs and must not count."""
    for name, more in (("texts", texts), ("words", words)):
        _set_note(database, name, str(int(_note(database, name) or 0) + more))


def _delete(database: sqlite3.Connection, id: str) -> None:
    row = database.execute("SELECT place, terms, length FROM texts WHERE id = ?", (id,)).fetchone()
    if row is None:
        return
    place, _, length = row
    database.execute("INSERT INTO words (words, rowid, terms) VALUES ('delete', ?, ?)", row[:2])
    database.execute("DELETE FROM texts WHERE place = ?", (place,))
    _count(database, -1, -length)


def _holding(database: sqlite3.Connection, asked: Iterable[str]) -> dict[str, int]:
    """The words of the query that occur, with how many texts hold each, rarest first."""
    found = {}
    for term in dict.fromkeys(asked):
        row = database.execute("SELECT doc FROM holding WHERE term = ?", (term,)).fetchone()
        if row:
            found[term] = int(row[0])
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _candidates(database: sqlite3.Connection, holding: Mapping[str, int], many: int) -> list[int]:
    """The places of the texts whose rare words add up to most."""
    texts = int(_note(database, "texts") or 0)
    sums: dict[int, float] = {}
    spent = 0
    for term, held in holding.items():
        if sums and spent + held > POSTINGS_A_QUERY:
            break
        spent += held
        weight = rank.idf(texts, held)
        quoted = '"' + term.replace('"', '""') + '"'
        matches = database.execute(
            "SELECT rowid FROM words WHERE words MATCH ? LIMIT ?", (quoted, POSTINGS_A_QUERY)
        )
        for (place,) in matches:
            sums[place] = sums.get(place, 0.0) + weight
    return sorted(sums, key=lambda place: -sums[place])[:many]


def _ranked(
    database: sqlite3.Connection,
    places: Iterable[int],
    holding: Mapping[str, int],
    cosines: Mapping[int, float],
) -> list[Found]:
    """The candidates in order, by all words of the query."""
    texts = int(_note(database, "texts") or 0)
    usual = int(_note(database, "words") or 0) / max(1, texts) or 1.0
    weights = {term: rank.idf(texts, held) for term, held in holding.items()}
    found: list[Found] = []
    scored: list[tuple[str, float, int, set[str]]] = []
    for place in places:
        rows = database.execute("SELECT id, terms, length FROM texts WHERE place = ?", (place,))
        for id, words, length in rows:
            counts = Counter(words.split(" "))
            scored.append((id, rank.bm25(counts, length / usual, weights), place, set(counts)))
    best = max((score for _, score, _, _ in scored), default=0.0) or 1.0
    for id, score, place, held in scored:
        if cosines:
            score = rank.fused_score(score / best, cosines.get(place, 0.0))
        if score > 0:
            matched = [term for term in holding if term in held]
            found.append(Found(id, score, rank.why(matched, lambda term: holding[term])))
    return sorted(found, key=lambda one: (-one.score, one.id))

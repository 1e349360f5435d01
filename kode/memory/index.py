"""A word and vector index over many texts, each at a place (a number), in an SQLite database that
its owner opens and commits: the one store that memory searches.

FTS5 maps terms to texts; the rarest words of a query select the candidates. `sqlite-vec` compares
vectors inside SQL; where it cannot be loaded, words count alone.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kode.memory import rank, terms

if TYPE_CHECKING:
    import apsw
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

Values: TypeAlias = Sequence[Any] | Mapping[str, Any]
Rows: TypeAlias = Callable[[str, Values], list[tuple[Any, ...]]]

CANDIDATES = 60
"""Select at least this many texts for ranking; more if more results are requested."""
POSTINGS_A_QUERY = 20_000
"""Limit of postings read to select candidates: words are used from the rarest on until it is
spent."""
MEASURED = 20_000
"""Only this many of the newest vectors are compared, so that a search costs the same in any
year."""

_TABLES = """
CREATE TABLE IF NOT EXISTS {name}_terms (
    place INTEGER PRIMARY KEY, terms TEXT NOT NULL, length INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS {name}_vectors (
    place INTEGER PRIMARY KEY, space TEXT NOT NULL, vector BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS {name}_sums (
    name TEXT PRIMARY KEY, value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT OR IGNORE INTO {name}_sums VALUES
    ('texts', 0), ('terms', 0), ('version', 0);
CREATE VIRTUAL TABLE IF NOT EXISTS {name}_words USING fts5 (
    terms, content='{name}_terms', content_rowid='place', detail='none', columnsize=0,
    tokenize="ascii tokenchars '.'"
);
CREATE VIRTUAL TABLE IF NOT EXISTS {name}_holding USING fts5vocab ({name}_words, row);
INSERT INTO {name}_words ({name}_words, rank) VALUES ('secure-delete', 1);
"""


@dataclass(frozen=True, slots=True)
class Source:
    """The texts that a search may find."""

    sql: str
    """A SELECT of `place`, `since` and `until` (times as from `when.stamp`; "" for a text without a
    time), and `row`: "", or a key that neighbours share."""
    values: Mapping[str, Any] = field(default_factory=dict)


def prepare(connection: "apsw.Connection", name: str, *, has_vectors: bool = True) -> bool:
    """Creates an index's missing tables; returns whether it `has_vectors` and they can be compared
    here."""
    known = "SELECT 1 FROM sqlite_master WHERE name = ?"
    if not connection.execute(known, (f"{name}_sums",)).fetchall():
        connection.execute(_TABLES.format(name=name))
    return has_vectors and _load_vectors(connection)


class TextIndex:
    """`rows` runs SQL on the owner's connection; its errors pass through. Changes belong in a
    transaction of the owner. Table names begin with `name`."""

    def __init__(self, rows: Rows, name: str) -> None:
        self.rows = rows
        self._name = name
        self.measures = True
        """What `prepare` returned."""

    def is_current(self) -> bool:
        """Whether all texts were indexed with the current tokenizer."""
        return self._sum("version") == terms.VERSION

    def refill(self, texts: Iterable[tuple[int, str]]) -> None:
        """Indexes all texts again, under their places; vectors stay."""
        self._run("INSERT INTO {name}_words ({name}_words) VALUES ('delete-all')")
        self._run("DELETE FROM {name}_terms")
        self._run("UPDATE {name}_sums SET value = 0 WHERE name IN ('texts', 'terms')")
        for place, text in texts:
            self.add(place, text)
        self._run("UPDATE {name}_sums SET value = ? WHERE name = 'version'", (terms.VERSION,))

    # ── changing ─────────────────────────────────────────────────────────────────────────────

    def add(self, place: int, text: str) -> None:
        """Indexes the words of a new text."""
        found = terms.terms_of(text)
        joined = " ".join(found)
        self._run("INSERT INTO {name}_terms VALUES (?, ?, ?)", (place, joined, len(found)))
        self._run("INSERT INTO {name}_words (rowid, terms) VALUES (?, ?)", (place, joined))
        self._count(1, len(found))

    def remove(self, place: int) -> None:
        """Removes a text and its vector; an unknown one is not an error."""
        held = "SELECT terms, length FROM {name}_terms WHERE place = ?"
        for joined, length in self._run(held, (place,)):
            self._run(
                "INSERT INTO {name}_words ({name}_words, rowid, terms) VALUES ('delete', ?, ?)",
                (place, joined),
            )
            self._run("DELETE FROM {name}_terms WHERE place = ?", (place,))
            self._count(-1, -length)
        self._run("DELETE FROM {name}_vectors WHERE place = ?", (place,))

    def add_vector(self, place: int, space: str, vector: "Vector") -> None:
        """Adds a vector of length 1 for a text; vectors of different spaces are never compared."""
        row = (place, space, vector.astype("<f4").tobytes())
        self._run("INSERT OR REPLACE INTO {name}_vectors VALUES (?, ?, ?)", row)

    # ── searching ────────────────────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        return self._sum("texts")

    def search(
        self,
        query: str,
        source: Source,
        now: datetime,
        k: int,
        vector: "Vector | None",
        space: str,
        *,
        typo_chars: int,
    ) -> list[tuple[int, rank.Ranked]]:
        """The best `k` matching texts: place and ranking. `vector` is the query's under a neural
        model, in its `space`; `elsewhere` has its cosines with texts whose vectors are stored
        elsewhere."""
        many = max(CANDIDATES, 3 * k)
        near = {} if vector is None else self.nearest(vector, space, many, source, rank.MIN_COSINE)
        asked = rank.read(query, self._known, len(self), now, typo_chars=typo_chars)
        meant = self._in_period(asked, source, many)
        chosen = {*self._candidates(asked, source, many), *near, *meant}
        places = self._with_neighbours(chosen, source)
        sql = "SELECT place, terms FROM json_each(?) j JOIN {name}_terms ON place = j.value"
        held = dict(self._run(sql, (json.dumps([place for place, _, _ in places]),)))
        documents = [
            rank.Document(
                terms=held.get(place, ""),
                counts=Counter(held.get(place, "").split(" ")),
                at=at,
                row=row,
                in_period=place in meant,
                cosine=near.get(place, 0.0),
            )
            for place, at, row in places
        ]
        usual = self._sum("terms") / max(1, len(self))
        ranked = rank.order(asked, documents, usual, len(self))
        return [(places[one.index][0], one) for one in ranked[:k]]

    def nearest(
        self, vector: "Vector", space: str, many: int, source: Source, least: float
    ) -> dict[int, float]:
        """The cosines of the nearest texts, nearest first, none below `least`."""
        if not self.measures:
            return {}
        data = vector.astype("<f4").tobytes()
        values = {**source.values, "space": space, "bytes": len(data), "measured": MEASURED}
        # Joined from the vectors outwards (CROSS), because those are bounded and texts are not.
        newest = (
            "FROM (SELECT place, vector FROM {name}_vectors WHERE space = :space AND "
            "length(vector) = :bytes ORDER BY place DESC LIMIT :measured) v "
            f"CROSS JOIN ({source.sql}) s ON s.place = v.place"
        )
        distance = "vec_distance_l2(v.vector, :vector) AS distance"
        sql = f"SELECT v.place, {distance} {newest} ORDER BY distance LIMIT :many"
        rows = self._run(sql, {**values, "vector": data, "many": many})
        found = ((place, 1 - distance * distance / 2) for place, distance in rows)
        return {place: cosine for place, cosine in found if cosine >= least}

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _candidates(self, asked: rank.Asked, source: Source, many: int) -> list[int]:
        """The texts with the highest sum of rare words."""
        sums: dict[int, float] = {}
        spent = 0
        sql = (
            f"SELECT s.place FROM {{name}}_words w CROSS JOIN ({source.sql}) s "
            "ON s.place = w.rowid WHERE w.{name}_words MATCH :words LIMIT :most"
        )
        for one in sorted(asked.wanted, key=lambda one: one.held):
            if sums and spent + one.held > POSTINGS_A_QUERY:
                break
            spent += one.held
            words = " AND ".join(f'"{term}"' for term in one.terms.split(" "))
            values = {**source.values, "words": words, "most": POSTINGS_A_QUERY}
            for (place,) in self._run(sql, values):
                sums[place] = sums.get(place, 0.0) + one.weight
        return sorted(sums, key=lambda place: -sums[place])[:many]

    def _in_period(self, asked: rank.Asked, source: Source, many: int) -> set[int]:
        period = asked.period
        if period is None:
            return set()
        sql = f"SELECT place FROM ({source.sql}) WHERE since <> ''"
        if period.end:
            sql += " AND until >= :start AND since < :end"
        values = {**source.values, "start": period.start, "end": period.end}
        values["many"] = many if period.end else rank.NEWEST
        found = self._run(f"{sql} ORDER BY until DESC, place DESC LIMIT :many", values)
        return {place for (place,) in found}

    def _with_neighbours(self, chosen: set[int], source: Source) -> list[tuple[int, str, str]]:
        """The selected texts, with their neighbours in rows: place, time and row."""

        def those(column: str, some: Iterable[object]) -> list[tuple[int, str, str]]:
            sql = (
                f"SELECT place, until, row FROM json_each(:some) j CROSS JOIN ({source.sql}) "
                f"ON {column} = j.value ORDER BY row, until, place"
            )
            return self._run(sql, {**source.values, "some": json.dumps(list(some))})

        found = those("place", chosen)
        places = [one for one in found if not one[2]]
        in_rows = those("row", {row for _, _, row in found if row})
        reach = range(-len(rank.LENT), len(rank.LENT) + 1)
        for row, group in groupby(in_rows, key=lambda one: one[2]):
            members = list(group)
            near = {n + d for n, one in enumerate(members) if one[0] in chosen for d in reach}
            kept = [(n, one) for n, one in enumerate(members) if n in near]
            # A row ends where a text in between is missing.
            places += [(p, at, f"{row} {n - i}") for i, (n, (p, at, _)) in enumerate(kept)]
        return places

    def _known(self, some: Iterable[str]) -> dict[str, int]:
        sql = "SELECT term, doc FROM json_each(?) j CROSS JOIN {name}_holding ON term = j.value"
        return dict(self._run(sql, (json.dumps(list(some)),)))

    def _count(self, texts: int, length: int) -> None:
        """Updates the totals that ranking needs, to avoid counting."""
        for name, more in (("texts", texts), ("terms", length)):
            self._run("UPDATE {name}_sums SET value = value + ? WHERE name = ?", (more, name))

    def _sum(self, name: str) -> int:
        rows = self._run("SELECT value FROM {name}_sums WHERE name = ?", (name,))
        return int(rows[0][0]) if rows else 0

    def _run(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        return self.rows(sql.replace("{name}", self._name), values)


def _load_vectors(connection: "apsw.Connection") -> bool:
    import apsw

    # Found, not imported: the package imports numpy, only to offer it.
    found = find_spec("sqlite_vec")
    if found is None or found.origin is None:
        return False
    try:
        connection.enable_load_extension(True)
        try:
            connection.load_extension(str(Path(found.origin).with_name("vec0")))
        finally:
            connection.enable_load_extension(False)
        connection.execute("SELECT vec_version()").fetchall()
    except (AttributeError, apsw.Error):
        return False
    return True

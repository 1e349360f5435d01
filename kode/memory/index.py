"""An index of the words of texts, by SQLite's FTS5: in memory up to `MAX_IN_MEMORY` texts, above
that in a file that processes share and that may be deleted at any time."""

import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kode import durable
from kode.errors import StorageError
from kode.memory.words import TOKENIZER, index_form

if TYPE_CHECKING:
    import apsw

T = TypeVar("T")

MAX_IN_MEMORY = 2_000  # indexed in 0.1 s
VERSION = 1
"""Of the file: increase it whenever texts are split differently."""
BATCH = 200
"""Texts that are indexed in one transaction."""
MAX_OCCURRENCES = 10_000
"""That one query reads: its words are looked up from the rarest on."""

_TABLES = f"""
CREATE TABLE texts (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, length INTEGER NOT NULL
);
CREATE VIRTUAL TABLE words USING fts5 (
    text, tokenize = "porter {" ".join(f"'{value}'" for value in TOKENIZER)}"
);
CREATE VIRTUAL TABLE terms USING fts5vocab (words, row);
CREATE VIRTUAL TABLE occurrences USING fts5vocab (words, instance);
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
PRAGMA user_version = {VERSION};
"""


@dataclass(frozen=True, slots=True)
class IndexedText:
    id: str
    """The same id always means the same text."""
    text: str
    where: str = ""
    """The file or note that it is from, for a person."""
    at: str = ""
    """When it was said, as from `timestamp`; "" for a text without a time."""
    row: str = ""
    """Texts of one row that follow each other are neighbours; "" for none."""


class WordIndex:
    """Finds texts by their words. Texts are named by their positions in `texts`. Use one object per
    thread."""

    def __init__(self, path: Path | None = None) -> None:
        """`path`: the file for many texts; without one, or if it cannot be used, all are indexed in
        memory."""
        self.texts: Sequence[IndexedText] = ()
        self._path = path
        self._connection: apsw.Connection | None = None
        self._positions: dict[str, int] = {}
        """By id."""
        self._rows: dict[int, tuple[str, int]] = {}
        """Place in the index → id, number of words."""

    def update(self, texts: Sequence[IndexedText], *, limit_s: float = math.inf) -> int:
        """Indexes what is new, the last first, and removes what is gone. Returns how many texts are
        left after `limit_s`: they are not found until another call."""
        self.texts = texts
        self._positions = {text.id: position for position, text in enumerate(texts)}
        deadline = time.monotonic() + limit_s
        return self.use_index(lambda: self._update(deadline))

    def close(self) -> None:
        """Closes the file; what uses the index next opens it again."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._rows = None, {}

    def use_index(self, work: Callable[[], T]) -> T:
        """Does some work with the index. A file that is damaged, of another version or on a full
        disk is deleted, and the work done in memory; the next process makes a new file."""
        import apsw

        try:
            return work()
        except (apsw.Error, OSError, StorageError):
            if self._path is None:
                raise
            with suppress(Exception):
                self.close()
            self._connection, self._rows = None, {}
            for suffix in ("", "-journal"):
                with suppress(OSError):
                    os.unlink(f"{self._path}{suffix}")
            self._path = None
            return work()

    def reopen(self) -> None:
        """Indexes the texts again if the index was closed."""
        if self._connection is None:
            self._update(math.inf)

    @property
    def average_length(self) -> float:
        """In words; never 0."""
        return sum(length for _, length in self._rows.values()) / max(1, len(self._rows)) or 1.0

    def length_of(self, place: int) -> tuple[int | None, int]:
        """The position of the text at a place of the index, None if it is gone; and its words."""
        id, length = self._rows.get(place, ("", 0))
        return self._positions.get(id), length

    # ── looking up ───────────────────────────────────────────────────────────────────────────

    def count_texts(self, terms: Sequence[str]) -> dict[str, int]:
        """The terms that occur, and how many texts contain each."""
        sql = "SELECT term, doc FROM json_each(?) CROSS JOIN terms ON term = value"
        return dict(self._run(sql, (json.dumps(list(dict.fromkeys(terms))),)))

    def count_beginnings(self, beginning: str) -> dict[str, int]:
        """The same for the terms with this beginning."""
        sql = "SELECT term, doc FROM terms WHERE term >= ? AND term < ?"
        return dict(self._run(sql, (beginning, beginning + "\U0010ffff")))

    def occurrences(self, term: str) -> Mapping[int, int]:
        """Place → how often a term occurs there."""
        sql = "SELECT doc FROM occurrences WHERE term = ? LIMIT ?"
        return Counter(place for (place,) in self._run(sql, (term, MAX_OCCURRENCES)))

    def occurrences_of_phrase(self, words: Sequence[str]) -> Mapping[int, int]:
        """The places where words, which are not stems, follow each other."""
        sql = "SELECT rowid FROM words WHERE words MATCH ? LIMIT ?"
        rows = self._run(sql, (f'"{" ".join(words)}"', MAX_OCCURRENCES))
        return {place: 1 for (place,) in rows}

    # ── storage ──────────────────────────────────────────────────────────────────────────────

    def _update(self, deadline: float) -> int:
        path = self._path if len(self.texts) > MAX_IN_MEMORY else None
        if self._connection is None or (path and not self._connection.filename):
            self.close()
            self._connection = _open(path)
        self._read_rows()
        with self._connection:
            for place in [p for p, (id, _) in self._rows.items() if id not in self._positions]:
                self._run("DELETE FROM texts WHERE place = ?", (place,))
                self._run("DELETE FROM words WHERE rowid = ?", (place,))
                del self._rows[place]
        indexed = {id for id, _ in self._rows.values()}
        new = [text for text in reversed(self.texts) if text.id not in indexed]
        for first in range(0, len(new), BATCH):
            if time.monotonic() > deadline:
                return len(new) - first
            with self._connection:
                for text in new[first : first + BATCH]:
                    self._add(text)
            self._read_rows()
        return 0

    def _add(self, text: IndexedText) -> None:
        words = index_form(text.text)
        sql = "INSERT OR IGNORE INTO texts (id, length) VALUES (?, ?) RETURNING place"
        for (place,) in self._run(sql, (text.id, len(words))):
            joined = " ".join(words).encode(errors="replace").decode()
            self._run("INSERT INTO words (rowid, text) VALUES (?, ?)", (place, joined))

    def _read_rows(self) -> None:
        """Reads what this process and others added."""
        last = max(self._rows, default=0)
        for place, id, length in self._run("SELECT * FROM texts WHERE place > ?", (last,)):
            self._rows[place] = (id, length)

    def _run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        assert self._connection is not None, "update comes first"
        return self._connection.execute(sql, values).fetchall()


def _open(path: Path | None) -> "apsw.Connection":
    """The file, or an index in memory. Raises: apsw.Error, OSError, StorageError."""
    import apsw

    if path is not None:
        durable.make_folder(path.parent)
    connection = apsw.Connection(":memory:" if path is None else str(path))
    connection.set_busy_timeout(5_000)
    if path is not None:
        os.chmod(path, 0o600)
    # No fsync, since it can be made again; what is deleted is overwritten.
    connection.execute("PRAGMA synchronous = OFF; PRAGMA secure_delete = ON")
    connection.transaction_mode = "IMMEDIATE"
    with connection:
        if connection.pragma("user_version") != VERSION:
            connection.execute(_TABLES)  # fails on a file of another version
    return connection

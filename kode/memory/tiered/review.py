"""Pairs of facts that no model could be asked about: kept on disk until one can.

A pair is put down before its fact is written, and forgotten after its answer was carried out: a
crash leaves at most a pair of texts that are not both there, which whoever settles passes over. Not
here: the question (`merge`), and what becomes of the answer (`write`).
"""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kode import durable
from kode.memory.stored import locked, read_row

MAX_PAIRS = 40
"""In one question; the others wait for the next."""
MAX_ATTEMPTS = 5
"""Questions without a usable word about a pair; then both texts stay."""
MOST_KEPT = 500
"""Facts have a limit: older pairs are of texts that were replaced long ago."""


@dataclass(frozen=True, kw_only=True)
class WaitingPair:
    target: str
    """The fact file, as the history calls it."""
    entry: str
    new: str
    attempts: int = 0
    """Questions that were asked about it."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.target, self.entry, self.new


class Review:
    """`review/pairs.json` of a memory folder, shared by processes."""

    def __init__(self, folder: Path, notice: Callable[[str], None]) -> None:
        self._folder = folder
        self._path = folder / "pairs.json"
        self._notice = notice

    def waiting(self) -> list[WaitingPair]:
        """All pairs, oldest first; none where the file is missing or damaged."""
        return self._read() or []

    async def note(self, target: str, entries: Sequence[str], new: str) -> None:
        """Puts down a pair of a new text and each entry, once. Raises: StorageError, BusyError."""
        async with locked(self._folder):
            pairs = self._read_or_set_aside()
            known = {pair.key for pair in pairs}
            fresh = (WaitingPair(target=target, entry=entry, new=new) for entry in entries)
            self._write([*pairs, *(pair for pair in fresh if pair.key not in known)])

    async def take(self, targets: Collection[str]) -> list[WaitingPair]:
        """The pairs of these files to ask about now, up to `MAX_PAIRS`. They stay on disk, with the
        attempt counted: one whose answer never comes is not asked about for ever. Raises as `note`.
        """
        if not self._path.exists():
            return []
        async with locked(self._folder):
            pairs = self._read_or_set_aside()
            ours = [pair for pair in pairs if pair.target in targets][:MAX_PAIRS]
            taken = {pair.key: replace(pair, attempts=pair.attempts + 1) for pair in ours}
            self._write([taken.get(pair.key, pair) for pair in pairs])
        return list(taken.values())

    async def remove(self, pairs: Collection[WaitingPair]) -> None:
        """Forgets pairs. Raises as `note`."""
        gone = {pair.key for pair in pairs}
        async with locked(self._folder):
            self._write([pair for pair in self._read_or_set_aside() if pair.key not in gone])

    def _read(self) -> list[WaitingPair] | None:
        """None when the file cannot be read as what it is."""
        try:
            return read_row(list[WaitingPair], self._path.read_bytes())
        except FileNotFoundError:
            return []
        except OSError:
            return None

    def _read_or_set_aside(self) -> list[WaitingPair]:
        pairs = self._read()
        if pairs is None:
            aside = durable.set_aside(self._path)
            self._notice(
                f"The pairs of facts that wait for a model's judgment cannot be read. They are in "
                f"{aside} now; no fact is lost, only a repetition may stay."
            )
        return pairs or []

    def _write(self, pairs: Sequence[WaitingPair]) -> None:
        if not pairs:
            durable.remove(self._path)
            return
        durable.make_folder(self._folder)
        rows = [asdict(pair) for pair in pairs[-MOST_KEPT:]]
        data = json.dumps(rows, ensure_ascii=False, indent=1).encode(errors="replace")
        durable.replace(self._path, data)

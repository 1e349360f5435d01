"""A budget that several kodes share: an append-only file of JSON lines.

    {"limit_usd": 5.0}                      the limit; the last such line counts
    {"spent_usd": 0.0123, "by": "SESSION"}  one request, written when its reply is on disk

Each line has an `id` and a checksum too.

Each kode checks before every request, so together they exceed the limit by at most one reply each.
"""

import contextlib
import json
import math
import secrets
from collections import defaultdict
from pathlib import Path

from kode import durable
from kode.errors import LimitError
from kode.sealed import is_intact, seal


class SharedBudget:
    """The budget in one file. `add` names `by`, the spending session; with `only_looks` it adds
    nothing, because another process does."""

    def __init__(self, path: Path, *, by: str = "", only_looks: bool = False) -> None:
        self.path = path
        self.limit_usd: float = math.inf
        self.spent_usd = 0.0
        self.spent_by: defaultdict[str, float] = defaultdict(float)
        self.damaged = 0
        """Lines that cannot be read, since a person last set the limit."""
        self._is_cut = False
        self._ids: set[object] = set()
        self._by = by
        self._only_looks = only_looks
        self._read_to = 0

    def refresh(self) -> None:
        """Reads new lines. Raises: StorageError."""
        noted = durable.noted_length(self.path)
        data = b""
        with durable.storage_errors(self.path, "read"), contextlib.suppress(FileNotFoundError):
            with self.path.open("rb") as file:
                file.seek(self._read_to)
                data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._is_cut = self._read_to + len(data) < noted
        self._read_to += len(whole)
        for line in whole.splitlines():
            self._take(line)

    def stopped(self) -> str:
        """Why nothing more is to be spent, as of the last `refresh`; "" where it is."""
        if self.damaged or self._is_cut:
            return (
                f"{self.path} is damaged, so more than ${self.spent_usd:.4f} of the budget may be "
                "spent. Give a new one: `kode fleet resume --budget-usd`."
            )
        if self.spent_usd >= self.limit_usd:
            return f"The budget of ${self.limit_usd:g} is used up (${self.spent_usd:.4f} spent)."
        return ""

    def check(self) -> None:
        """Raises: LimitError if nothing more is to be spent; StorageError."""
        self.refresh()
        if why := self.stopped():
            raise LimitError(why)

    def add(self, cost_usd: float, by: str = "") -> None:
        """Records spent money. Raises: StorageError."""
        if cost_usd and not self._only_looks:
            self._append({"spent_usd": cost_usd, "by": by or self._by})

    def set_limit(self, limit_usd: float) -> None:
        """Sets the total limit, including what is already spent. Raises: StorageError."""
        self._append({"limit_usd": limit_usd})

    def _append(self, value: dict[str, object]) -> None:
        lost = durable.lost_bytes(self.path)
        # A line that is no money counts as damage until the limit is set again.
        loss: dict[str, object] = {"lost_bytes": lost}
        values = [loss, value] if lost else [value]
        # Unlike every other line, so that one that is there twice counts once.
        lines = [json.dumps({**one, "id": secrets.token_hex(4)}).encode() for one in values]
        durable.append_lines(self.path, [*map(seal, lines)], note_end=True)

    def _take(self, line: bytes) -> None:
        try:
            value = json.loads(line)
            amount = float(value["limit_usd"] if "limit_usd" in value else value["spent_usd"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            amount = math.nan
        if not is_intact(line) or not 0 <= amount < math.inf:
            self.damaged += 1
            return
        if (id := value.get("id")) is not None and id in self._ids:
            return
        self._ids.add(id)
        if "limit_usd" in value:
            self.limit_usd, self.damaged = amount, 0
        else:
            self.spent_usd += amount
            self.spent_by[str(value.get("by", ""))] += amount

"""A budget that several kodes share: an append-only file of JSON lines.

    {"limit_usd": 5.0}                      the limit; the last such line counts
    {"spent_usd": 0.0123, "by": "SESSION"}  one request, written when its reply is on disk

Each kode checks before every request, so together they exceed the limit by at most one reply each.
"""

import contextlib
import json
import math
from collections import defaultdict
from pathlib import Path

from kode import durable
from kode.errors import LimitError


class SharedBudget:
    """The budget in one file. `add` names `by`, the spending session; with `only_looks` it adds
    nothing, because another process does."""

    def __init__(self, path: Path, *, by: str = "", only_looks: bool = False) -> None:
        self.path = path
        self.limit_usd: float = math.inf
        self.spent_usd = 0.0
        self.spent_by: defaultdict[str, float] = defaultdict(float)
        self._by = by
        self._only_looks = only_looks
        self._read_to = 0

    def refresh(self) -> None:
        """Reads new lines. A line that cannot be parsed counts as no money. Raises:
        StorageError."""
        with (
            durable.storage_errors(self.path, "read"),
            contextlib.suppress(FileNotFoundError),
            self.path.open("rb") as file,
        ):
            file.seek(self._read_to)
            data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read_to += len(whole)
            for line in whole.splitlines():
                self._take(line)

    def is_used_up(self) -> bool:
        """Whether the budget is used up, as of the last `refresh`."""
        return self.spent_usd >= self.limit_usd

    def check(self) -> None:
        """Raises: LimitError if the budget is used up; StorageError."""
        self.refresh()
        if self.is_used_up():
            raise LimitError(
                f"The shared budget of ${self.limit_usd:g} is used up "
                f"(${self.spent_usd:.4f} spent by all together)."
            )

    def add(self, cost_usd: float, by: str = "") -> None:
        """Records spent money. Raises: StorageError."""
        if cost_usd and not self._only_looks:
            self._append({"spent_usd": cost_usd, "by": by or self._by})

    def set_limit(self, limit_usd: float) -> None:
        """Sets the total limit, including what is already spent. Raises: StorageError."""
        self._append({"limit_usd": limit_usd})

    def _append(self, value: dict[str, object]) -> None:
        durable.append_line(self.path, json.dumps(value).encode())

    def _take(self, line: bytes) -> None:
        try:
            value = json.loads(line)
            amount = float(value["limit_usd"] if "limit_usd" in value else value["spent_usd"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return
        if not 0 <= amount < math.inf:
            return
        if "limit_usd" in value:
            self.limit_usd = amount
        else:
            self.spent_usd += amount
            self.spent_by[str(value.get("by", ""))] += amount

"""A budget that several kodes share: a `RecordLog` with lines of two kinds.

    {"limit_usd": 5.0}                      the limit; the last such line counts
    {"spent_usd": 0.0123, "by": "SESSION"}  one request, written when its reply is on disk

Each kode checks before every request, so together they exceed it by at most one reply each.
"""

import json
import math
import secrets
from collections import defaultdict
from pathlib import Path

from kode.durable import RecordLog
from kode.errors import KodeError


class SharedBudget:
    """The budget in one file. `by` is the spending session, recorded by `add`; with `only_looks`
    nothing is added, because another process adds it."""

    def __init__(self, path: Path, *, by: str = "", only_looks: bool = False) -> None:
        self.path = path
        self.limit_usd: float = math.inf
        self.spent_usd = 0.0
        self.spent_by: defaultdict[str, float] = defaultdict(float)
        self._log = RecordLog(path)
        self._by = by
        self._only_looks = only_looks

    def refresh(self) -> None:
        """Reads new lines. One without a valid amount is damage until the limit is set again.
        Raises: StorageError."""
        for line in self._log.read():
            try:
                value = json.loads(line)
                amount = float(value["limit_usd"] if "limit_usd" in value else value["spent_usd"])
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                amount = math.nan
            if not 0 <= amount < math.inf:
                self._log.damaged += 1
            elif "limit_usd" in value:
                self.limit_usd, self._log.damaged = amount, 0
            else:
                self.spent_usd += amount
                self.spent_by[str(value.get("by", ""))] += amount

    def explain_stop(self) -> str:
        """Why no more money may be spent, as of the last `refresh`; "" if it may."""
        if self._log.damaged or self._log.lost_bytes:
            return (
                f"{self.path} is damaged, so more than ${self.spent_usd:.4f} of the budget may be "
                "spent. Give a new one: `kode fleet resume --budget-usd`."
            )
        if self.spent_usd >= self.limit_usd:
            return f"The budget of ${self.limit_usd:g} is used up (${self.spent_usd:.4f} spent)."
        return ""

    def check(self) -> None:
        """Refreshes. Raises: KodeError if no more money may be spent; StorageError."""
        self.refresh()
        if why := self.explain_stop():
            raise KodeError(why)

    def add(self, cost_usd: float, by: str = "") -> None:
        """Records spent money. Raises: StorageError."""
        if cost_usd and not self._only_looks:
            self._append({"spent_usd": cost_usd, "by": by or self._by})

    def set_limit(self, limit_usd: float) -> None:
        """Sets the total limit, including what is already spent. Raises: StorageError."""
        self._append({"limit_usd": limit_usd})

    def _append(self, value: dict[str, object]) -> None:
        # Makes the line unique, so that one that is there twice counts once.
        line = json.dumps({**value, "id": secrets.token_hex(4)}).encode()
        with self._log.hold() as append:
            append(line)

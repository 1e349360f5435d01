"""What a session spent, turn by turn."""

from collections.abc import Sequence
from dataclasses import dataclass

from kode.plugin import MessageEntry, Spent, Usage, spending_of
from kode.plugin import total_spent as total
from kode.plugins.view.transcript import Turn

Rows = tuple[tuple[str, Spent], ...]
"""Name of a model → its spending."""


@dataclass(frozen=True, kw_only=True)
class TurnRow:
    """The cost of one turn."""

    turn: Turn
    spent: Spent
    context_tokens: int
    """The size of its last request and reply."""
    total_usd: float
    """Total of the session up to its end."""


@dataclass(frozen=True, kw_only=True)
class SessionSpending:
    rows: tuple[TurnRow, ...]
    models: Rows
    """The most expensive first."""
    total: Spent


def session_spending(turns: Sequence[Turn]) -> SessionSpending:
    """Tokens and cost of a session over time, including rewound turns, which were paid for too."""
    rows: list[TurnRow] = []
    so_far = 0.0
    for turn in turns:
        size = 0
        for entry in turn.entries:
            so_far += total(spending_of([entry])).cost_usd
            if isinstance(entry, MessageEntry) and isinstance(entry.usage, Usage):
                size = entry.usage.input_tokens + entry.usage.output_tokens
        spent = total(spending_of(turn.entries))
        if spent.requests:
            rows.append(TurnRow(turn=turn, spent=spent, context_tokens=size, total_usd=so_far))
    models = spending_of(entry for turn in turns for entry in turn.entries)
    return SessionSpending(rows=tuple(rows), models=tuple(models.items()), total=total(models))

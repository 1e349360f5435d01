"""The figures of an open session: for a status line, and for what it has cost."""

import asyncio
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

from kode.conversation.open_session import OpenSession
from kode.engine.context import context_tokens
from kode.messages import Usage
from kode.permissions.modes import PermissionMode

if TYPE_CHECKING:
    from kode.session.spending import Spending


@dataclass(frozen=True, kw_only=True)
class StatusLine:
    """What a status line shows."""

    provider: str
    model: str
    mode: PermissionMode
    session_id: str | None
    turns: int
    context_tokens: int
    context_window: int
    usage: Usage
    cost_usd: float | None
    """Total of the requests with a known price; None without any, if the model's price is unknown
    too."""
    cost_is_partial: bool = False
    """Whether some requests had an unknown price."""
    jobs: int = 0
    """Running commands in the background."""
    line: str = ""
    """What the person's own program says; it may hold anything."""


def status_of(opened: OpenSession) -> StatusLine:
    session, provider = opened.session, opened.agent.provider
    known = session.cost_usd > 0 or opened.agent.cost_usd(Usage()) is not None
    return StatusLine(
        provider=provider.name,
        model=provider.model,
        mode=opened.mode,
        session_id=session.id,
        turns=session.turns,
        context_tokens=_context_tokens(opened),
        context_window=provider.info.context_window,
        usage=session.usage,
        cost_usd=session.cost_usd if known else None,
        cost_is_partial=session.unpriced,
        jobs=len(opened.terms.commands.running()),
        line=opened.status_line,
    )


def _context_tokens(opened: OpenSession) -> int:
    """Before a resumed session's first turn: the size of its last request."""
    if opened.started is not None:
        return context_tokens(opened.context)
    used = next((one.usage for one in reversed(opened.session.messages) if one.usage), Usage())
    return used.input_tokens + used.output_tokens


async def spending(opened: OpenSession) -> "dict[str, Spending]":
    """Spending by model, for the last `turn`, the `session`, and the `day`. Raises:
    StorageError."""
    from kode.session.spending import Spending, last_turn, spending_since

    entries = opened.session.entries
    # Made local after the fact: on a day that changes the clocks midnight has another offset.
    midnight = datetime.combine(date.today(), datetime.min.time()).astimezone()
    day = await asyncio.to_thread(spending_since, opened.place.home, midnight)
    turn, session = Spending.of(last_turn(entries)), Spending.of(entries)
    return {"turn": turn, "session": session, "day": day}

"""Asks at a terminal about what waits for approval."""

import sys
from collections.abc import Sequence
from pathlib import Path

from kode.cli.screen.lines import public
from kode.cli.screen.question import make_ask
from kode.errors import ConfigError
from kode.extensions import review, trust
from kode.extensions.trust import Approvals, Item
from kode.permissions.gate import visible
from kode.plain_text import clean


async def approve_shown(
    items: Sequence[Item],
    approvals: Approvals,
    home: Path,
    *,
    unasked: bool,
    lines: int = review.SHOWN_LINES,
    grants: Sequence[str] = (),
) -> bool:
    """Shows what waits and saves what the person approves, with `grants` for each if there are any;
    False if they refuse any of it. Raises: ConfigError if nobody can be asked."""
    names = visible(", ".join(map(review.named, items)))
    if not unasked and items:
        if sys.stdin is None or not sys.stdin.isatty():
            raise ConfigError(
                f"There is no terminal to ask in about {names}: --yes approves without asking."
            )
        return not await review.settle(home, items, approvals, make_ask(), lines, grants)
    for item in items:
        print(public(review.shown(item, approvals, lines=lines)))
    if items:
        trust.approve(home, approvals.project, items, grants)
        print(clean(f"Approved until it changes: {names}"))
    return True

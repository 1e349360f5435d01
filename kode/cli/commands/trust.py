"""Shows what waits for approval at a terminal, and asks about it."""

import sys
from collections.abc import Sequence
from pathlib import Path

from kode.cli.screen.lines import clean, public
from kode.errors import ConfigError
from kode.extensions import review, trust
from kode.extensions.trust import Approvals, Item
from kode.permissions.gate import visible


def approve_shown(
    items: Sequence[Item],
    approvals: Approvals,
    home: Path,
    project: Path,
    *,
    unasked: bool,
    lines: int = review.SHOWN_LINES,
    grants: Sequence[str] = (),
) -> bool:
    """Shows what waits and saves the person's approval; False if they refuse. Raises: ConfigError
    if nobody can be asked."""
    for item in items:
        print(public(review.shown(item, approvals, lines=lines)))
    names = visible(", ".join(map(review.named, items)))
    if items and not unasked and not _is_wanted(names):
        return False
    if items:
        trust.approve(home, project, items, grants)
        print(clean(f"Approved until it changes: {names}"))
    return True


def _is_wanted(what: str) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError(
            f"There is no terminal to ask in about {what}: --yes approves without asking."
        )
    try:
        return input(f"Approve {what}? [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False

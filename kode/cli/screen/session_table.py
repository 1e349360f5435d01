"""Sessions as a table for people: when, where, turns, cost, the first task.

`kode.session.index` lists sessions; programs get JSON.
"""

import shutil
import sys
from collections.abc import Sequence
from datetime import date, datetime

from kode.cli.screen.lines import clip, clip_middle, fit_table, money, one_line
from kode.paths import short_path
from kode.session.index import Summary

WIDEST_FOLDER, WIDEST_TASK = 28, 36
HEAD = ("id", "first task", "when", "turns", "cost", "where")


def table(summaries: Sequence[Summary], width: int, today: date | None = None) -> list[str]:
    """A header line, then one line per session. The id is complete on any screen."""
    rows = [HEAD, *(_cells(summary, max(WIDEST_TASK, width // 3), today) for summary in summaries)]
    right = (HEAD.index("turns"), HEAD.index("cost"))
    return fit_table(rows, max(width, *(len(row[0]) + 1 for row in rows)), right)


def list_lines(summaries: Sequence[Summary], limit: int | None) -> list[str]:
    """A table on a terminal, else whole lines without its head. With a `limit` the last session is
    not shown: it only indicates that there are more."""
    shown = summaries[: limit and limit - 1]
    if sys.stdout.isatty():
        lines = table(shown, shutil.get_terminal_size().columns)
    else:
        lines = table(shown, sys.maxsize)[1:]
    more = ["... and more: --all shows every session."] if len(summaries) > len(shown) else []
    return [*lines, *more] if summaries else []


def when(at: str, today: date | None = None) -> str:
    """`today 14:02`, `yesterday 09:10`, `Nov 03 14:02`, or the full date of another year."""
    try:
        moment = datetime.fromisoformat(at).astimezone()
    except (ValueError, OverflowError):
        return "?"
    today = today or datetime.now().astimezone().date()
    days = (today - moment.date()).days
    if days == 0:
        return f"today {moment:%H:%M}"
    if days == 1:
        return f"yesterday {moment:%H:%M}"
    return f"{moment:%b %d %H:%M}" if moment.year == today.year else f"{moment:%Y-%m-%d}"


def _cells(summary: Summary, widest_task: int, today: date | None) -> tuple[str, ...]:
    task = one_line(summary.task)
    if summary.damaged:
        task = f"damaged: `kode session check {summary.id}` shows the damage"
    elif summary.parent:
        task = f"(a subagent) {task}"
    return (
        summary.id,
        clip(task, widest_task) if not summary.damaged else task,
        when(summary.updated_at, today),
        str(summary.turns) if summary.turns else "-",
        money(summary.cost_usd) if summary.cost_usd else "-",
        clip_middle(one_line(short_path(summary.cwd)), WIDEST_FOLDER),
    )

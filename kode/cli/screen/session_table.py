"""Sessions as a table for people: when, where, the first task, turns, cost.

`kode.session.index` lists sessions; programs get JSON.
"""

import shutil
import sys
from collections.abc import Sequence
from datetime import date, datetime

from kode.cli.screen.lines import cell_width, clip, clip_middle, money, one_line
from kode.messages import plural
from kode.paths import short_path
from kode.session.index import Summary

WIDEST_FOLDER = 28
MIN_TASK_COLUMNS = 20  # fewer do not tell two tasks apart

Row = tuple[str, ...]
HEAD: Row = ("id", "when", "where", "turns", "cost", "first task")
_LESS_TELLING = ("where", "cost", "turns")
"""Columns to drop on a narrow screen, in this order."""
_RIGHT = frozenset({"turns", "cost"})


def table(
    summaries: Sequence[Summary],
    width: int,
    *,
    today: date,
    with_folder: bool = True,
    numbered: bool = False,
) -> list[str]:
    """A header line, then one line per session. The id is complete on any screen; if numbers
    replace it, it is dropped before the first task."""
    columns = [name for name in HEAD if with_folder or name != "where"]
    rows = [_cells(summary, today) for summary in summaries]
    widths = {name: max([len(name), *(cell_width(row[name]) for row in rows)]) for name in columns}
    if with_folder:
        widths["where"] = min(widths["where"], WIDEST_FOLDER)
    number_columns = len(str(len(rows))) + 2 if numbered else 0
    for name in (*_LESS_TELLING, "id" if numbered else "when"):
        if _taken(columns, widths) + number_columns + MIN_TASK_COLUMNS <= width:
            break
        columns = [column for column in columns if column != name]
    lines = []
    for index, row in enumerate([dict(zip(HEAD, HEAD, strict=True)), *rows]):
        number = f"{index or '':>{number_columns - 2}}  " if numbered else ""
        pieces = [_pad(name, row[name], widths[name]) for name in columns[:-1]]
        lines.append(number + "  ".join([*pieces, row["first task"]]).rstrip())
    least = number_columns + (widths["id"] if "id" in columns else 0)
    # Numbers and ids are plain ASCII: a character is a column.
    return [clip(line, width) if width > least else line[:least] for line in lines]


def listed(
    summaries: Sequence[Summary],
    limit: int | None,
    *,
    with_folder: bool,
) -> list[str]:
    """A table on a terminal, else uncut lines. With a `limit` the last session is not shown:
    it only indicates that there are more."""
    shown = summaries if limit is None else summaries[: limit - 1]
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        today = datetime.now().astimezone().date()
        lines = table(shown, width, today=today, with_folder=with_folder)
    else:
        lines = [_line(row, with_folder=with_folder) for row in shown]
    more = ["... and more: --all shows every session."] if len(summaries) > len(shown) else []
    return [*lines, *more] if summaries else []


def _line(summary: Summary, *, with_folder: bool) -> str:
    at = local_time(summary.updated_at)
    if summary.damaged:
        return f"{summary.id}  {at}  damaged: `kode session check {summary.id}` shows the damage"
    cost = money(summary.cost_usd) if summary.cost_usd else ""
    where = one_line(short_path(summary.cwd)) if with_folder else ""
    pieces = [summary.id, at, f"{plural(summary.turns, 'turn'):>8}", cost]
    optional = [*pieces, one_line(summary.model), where]
    return "  ".join([*filter(None, optional), one_line(summary.task)])


def local_time(at: str) -> str:
    """`2026-11-03 14:02`."""
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):
        return "?"


def when(at: str, today: date) -> str:
    """`today 14:02`, `yesterday 09:10`, `Nov 03 14:02`, or the full date of another year."""
    try:
        moment = datetime.fromisoformat(at).astimezone()
    except (ValueError, OverflowError):
        return "?"
    days = (today - moment.date()).days
    if days == 0:
        return f"today {moment:%H:%M}"
    if days == 1:
        return f"yesterday {moment:%H:%M}"
    return f"{moment:%b %d %H:%M}" if moment.year == today.year else f"{moment:%Y-%m-%d}"


def _cells(summary: Summary, today: date) -> dict[str, str]:
    task = one_line(summary.task)
    if summary.damaged:
        task = f"damaged: `kode session check {summary.id}` shows the damage"
    elif summary.parent:
        task = f"(a subagent) {task}"
    return {
        "id": summary.id,
        "when": when(summary.updated_at, today),
        "where": one_line(short_path(summary.cwd)),
        "turns": str(summary.turns) if summary.turns else "-",
        "cost": money(summary.cost_usd) if summary.cost_usd else "-",
        "first task": task,
    }


def _taken(columns: Sequence[str], widths: dict[str, int]) -> int:
    return sum(widths[name] + 2 for name in columns if name != "first task")


def _pad(name: str, text: str, width: int) -> str:
    text = clip_middle(text, width)
    pad = " " * (width - cell_width(text))
    return pad + text if name in _RIGHT else text + pad

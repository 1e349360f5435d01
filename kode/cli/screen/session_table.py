"""Sessions as a table for people: when, where, the first task, turns, cost.

`kode.session.index` lists sessions; programs get JSON.
"""

import os
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path

from kode.cli.screen.lines import cell_width, clip, clip_middle, money, one_line
from kode.session.index import Summary

WHERE_COLUMNS = 28
MIN_TASK_COLUMNS = 20

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
    widths["where"] = min(widths.get("where", 0), WHERE_COLUMNS)
    number_columns = len(str(len(rows))) + 2 if numbered else 0
    for name in (*_LESS_TELLING, "id") if numbered else _LESS_TELLING:
        if _taken(columns, widths) + number_columns + MIN_TASK_COLUMNS <= width:
            break
        columns = [column for column in columns if column != name]
    lines = []
    for index, row in enumerate([dict(zip(HEAD, HEAD, strict=True)), *rows]):
        number = f"{index or '':>{number_columns - 2}}  " if numbered else ""
        pieces = [_padded(name, row[name], widths[name]) for name in columns[:-1]]
        lines.append(number + "  ".join([*pieces, row["first task"]]).rstrip())
    least = number_columns + (widths["id"] if "id" in columns else 0)
    # Numbers and ids are plain ASCII: a character is a column.
    return [clip(line, width) if width > least else line[:least] for line in lines]


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


def short_folder(folder: str) -> str:
    """A path with `~` for the home."""
    home = os.path.expanduser("~")
    inside = Path(folder).is_relative_to(home) and folder != home and home != "/"
    return "~" + folder[len(home) :] if inside else folder


def _cells(summary: Summary, today: date) -> dict[str, str]:
    task = one_line(summary.task)
    if summary.damaged:
        task = f"damaged: `kode session check {summary.id}` says what is wrong"
    elif summary.parent:
        task = f"(a subagent) {task}"
    return {
        "id": summary.id,
        "when": when(summary.updated_at, today),
        "where": one_line(short_folder(summary.cwd)),
        "turns": str(summary.turns) if summary.turns else "-",
        "cost": money(summary.cost_usd) if summary.cost_usd else "-",
        "first task": task,
    }


def _taken(columns: Sequence[str], widths: dict[str, int]) -> int:
    return sum(widths[name] + 2 for name in columns if name != "first task")


def _padded(name: str, text: str, width: int) -> str:
    text = clip_middle(text, width)
    pad = " " * (width - cell_width(text))
    return pad + text if name in _RIGHT else text + pad

"""`/context` (what fills the window) and `/cost` (tokens and money).

`kode.engine.context` and `kode.session.spending` compute the figures.
"""

from typing import TYPE_CHECKING

from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import bars, clip, cost_text, count, one_line

if TYPE_CHECKING:
    from kode.engine.context import Window
    from kode.session.spending import Spending, Spent

MIN_NAME_COLUMNS = 20
"""Minimum width for the name of a row; on a narrower screen figures are dropped."""
TITLES = {"turn": "last turn", "session": "this session", "day": "today, all sessions"}


async def show_context(state: PromptState, argument: str) -> None:
    """Shows what fills the window, by kind, as bars, and what could be freed."""
    window = await state.conversation.window()
    for line in context_lines(window, state.screen.width - 1):
        state.screen.print(line)
    for line in advice(window):
        state.screen.print(line, "dim")


def context_lines(window: "Window", width: int) -> list[str]:
    """A summary line, then a bar per kind."""
    share = window.used / window.size if window.size else 0.0
    free = max(window.size - window.used, 0)
    head = f"{count(window.used)} of {count(window.size)} tokens are used ({share:.0%})."
    return [clip(head, width), *bars([*window.parts, ("free", free)], window.size, width)]


def advice(window: "Window") -> list[str]:
    """What happens when it fills, and what could be freed before."""
    return [
        f"Compacts automatically at {count(window.makes_room_at)} tokens, /compact does it now; "
        "/new starts over with only system prompt, tools and memory."
    ]


async def show_cost(state: PromptState, argument: str) -> None:
    """Shows tokens and money by model: of the last turn, the session, the day."""
    spending = await state.conversation.spending()
    for line in cost_lines(spending, state.screen.width - 1):
        state.screen.print(line)


def cost_lines(spending: "dict[str, Spending]", width: int) -> list[str]:
    """A table: a row per model, and a total if there are several."""

    rows: list[tuple[str, ...]] = [("", "requests", "in", "cached", "out", "thinking", "cost")]
    for scope, by_model in spending.items():
        title = TITLES[scope]
        if len(by_model) == 1:
            ((model, spent),) = by_model.items()
            rows.append((f"{title} · {one_line(model)}", *_figures(spent)))
            continue
        rows.append((title, *_figures(by_model.total)))
        rows += [(f"  {one_line(model)}", *_figures(spent)) for model, spent in by_model.items()]
    names = max(len(row[0]) for row in rows)
    columns = [1, 2, 3, 4, 5, 6]
    if all(row[5] == "0" for row in rows[1:]):
        columns.remove(5)
    widths = {column: max(len(row[column]) for row in rows) for column in columns}
    for less_telling in (1, 3, 5, 4, 2):
        room = width - sum(widths[column] + 2 for column in columns)
        if room >= min(names, MIN_NAME_COLUMNS):
            break
        if less_telling in columns:
            columns.remove(less_telling)
    names = max(min(names, width - sum(widths[column] + 2 for column in columns)), 8)
    lines = []
    for row in rows:
        figures = [f"{row[column]:>{widths[column]}}" for column in columns]
        lines.append(clip("  ".join([f"{clip(row[0], names):<{names}}", *figures]), width))
    unpriced = [m for m, spent in spending["session"].items() if spent.unpriced]
    if unpriced:
        names_shown = ", ".join(map(one_line, unpriced))
        lines.append(f"Not counted: {names_shown}, whose price is unknown (`prices` sets it).")
    return lines


def _figures(spent: "Spent") -> tuple[str, ...]:
    usage = spent.usage
    cached = f"{usage.cached_tokens / usage.input_tokens:.0%}" if usage.input_tokens else "-"
    return (
        str(spent.requests),
        count(usage.input_tokens),
        cached,
        count(usage.output_tokens),
        count(usage.thinking_tokens),
        cost_text(spent.cost_usd, spent.unpriced == spent.requests, spent.unpriced > 0),
    )

"""`kode cost`: what requests used and cost: of a session step by step, of a day, a project, a
period.

`kode.plugins.cost.figures` computes the figures; this module parses flags and prints them.
"""

import argparse
import itertools
import math
import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from kode.plugin import (
    EXIT_OK,
    ConfigError,
    Parser,
    columns,
    cost_text,
    money,
    one_line,
    paths,
    print_either,
    shorten,
    working_directory,
)

if TYPE_CHECKING:
    from kode.plugin import MemoryChange as Change
    from kode.plugin import Spending, Spent
    from kode.plugins.cost.breaks import Break
    from kode.plugins.cost.figures import Period, SessionCost

HEADS = ("uncached", "cached", "written", "output", "thinking", "cost")
FACT_CHARS = 60  # one line
_AGO = re.compile(r"(\d{1,5})([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def main(argv: Sequence[str]) -> int:
    """Runs `kode cost` with these arguments. Raises: SessionError, StorageError, ConfigError."""
    parser = Parser(
        "kode cost", "Show the tokens and cost of requests. Without arguments: of the last session."
    )
    parser.add_argument("id", nargs="?", metavar="ID", help="a session id, or any unique prefix")
    parser.add_argument(
        "--why", action="store_true", help="where a cache was lost, why, and what that cost"
    )
    parser.add_argument(
        "--day", nargs="?", const="today", metavar="DATE", help="all sessions of a day; today"
    )
    parser.add_argument("--since", metavar="WHEN", help="all since a date or a time: 12h, 7d, 2w")
    parser.add_argument(
        "--project", nargs="?", const=".", metavar="DIR", help="sessions of this folder and below"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument(
        "--cwd", metavar="DIR", help="the project whose last session and prices to use"
    )
    arguments = parser.parse(argv)
    if any(one is not None for one in (arguments.day, arguments.since, arguments.project)):
        return _show_period(arguments)
    return _show_session(arguments)


def _show_session(arguments: argparse.Namespace) -> int:
    from kode.plugin import find_session as find
    from kode.plugin import given_prices, load_config, models, newest_session
    from kode.plugins.cost.figures import session_cost

    home, cwd = paths.home(), working_directory(arguments)
    session_id = find(home, arguments.id, cwd) if arguments.id else newest_session(home, cwd)[0]
    config = load_config(home, cwd, environ=os.environ, flags={}).config
    price = models.pricing(given_prices(config)) if arguments.why else None
    cost = session_cost(home, session_id, price)
    if arguments.why:
        cost = with_facts(cost, paths.memory_folder(home, config.memory.data_dir))
    whole, lines = _object_of(cost, why=arguments.why), session_lines(cost, why=arguments.why)
    print_either(whole, lines, as_json=arguments.json)
    return EXIT_OK


def with_facts(cost: "SessionCost", memory: Path) -> "SessionCost":
    """Names the change that caused a break by memory, if the history has one. Raises:
    StorageError."""
    from kode.plugin import MemoryHistory as History

    history = History(memory / "history.jsonl")
    here = paths.path_hash(paths.project_root(Path(cost.cwd)))

    def is_of_another_project(change: "Change") -> bool:
        return any(paths.is_path_hash(part) and part != here for part in change.target.split("/"))

    def named(one: "Break") -> "Break":
        changes = history.between(one.since, one.at) if one.kind == "memory" else ()
        change = next(itertools.filterfalse(is_of_another_project, changes), None)
        if change is None:
            return one
        sides = ("; ".join(texts) for texts in (change.before, change.after))
        what = " → ".join(shorten(text, FACT_CHARS) for text in sides if text)
        cause = f"a fact: {change.who} {change.kind} {change.target}: {what} (change {change.id})"
        return replace(one, cause=cause)

    return replace(cost, breaks=tuple(map(named, cost.breaks)))


def _show_period(arguments: argparse.Namespace) -> int:
    from kode.plugins.cost.figures import period_cost

    if arguments.id or arguments.why:
        raise ConfigError(
            "kode cost: ID and --why are about one session; leave out --day, --since and --project."
        )
    if arguments.day is not None and arguments.since is not None:
        raise ConfigError("kode cost: --day and --since are two ways to name a time. Give one.")
    since, until = _time(arguments.day, arguments.since)
    folder = None
    if arguments.project is not None:
        inside = working_directory(arguments) / paths.expand(arguments.project)
        folder = Path(paths.real_path(inside))
    period = period_cost(paths.home(), since, until, folder)
    print_either(_period_object(period), period_lines(period), as_json=arguments.json)
    return EXIT_OK


def _time(day: str | None, since: str | None) -> tuple[datetime, datetime | None]:
    """The period that the flags name. Raises: ConfigError."""
    if day is not None:
        chosen = str(date.today()) if day == "today" else day
        return _midnight(chosen, "--day"), _midnight(chosen, "--day", days_later=1)
    if since is None:
        return datetime.fromtimestamp(0).astimezone(), None
    if ago := _AGO.fullmatch(since):
        return datetime.now().astimezone() - timedelta(**{_UNITS[ago[2]]: int(ago[1])}), None
    return _midnight(since, "--since"), None


def _midnight(text: str, flag: str, days_later: int = 0) -> datetime:
    """Raises: ConfigError if it is not a date, or one at the very ends of the calendar."""
    try:
        day = date.fromisoformat(text) + timedelta(days=days_later)
        # Made local after the fact: on a day that changes the clocks midnight has another offset.
        return datetime.combine(day, datetime.min.time()).astimezone()
    except (ValueError, OverflowError):
        also = " or a time like 12h, 7d, 2w" if flag == "--since" else ""
        raise ConfigError(
            f"kode cost: {flag} takes a date like 2026-11-22{also}, not {text!r}."
        ) from None


def session_lines(cost: "SessionCost", *, why: bool) -> list[str]:
    """A table with one row per request, each break's reason below its row."""
    rows: list[tuple[str, ...]] = [("time", "request", *HEADS)]
    number = 0
    for step in cost.steps:
        number += step.purpose == "turn"
        name = f"step {number}" if step.purpose == "turn" else step.purpose
        rows.append((_local(step.at), name, *_figures(step.spent)))
    rows += _sums(cost.models, cost.total)
    lines = [f"Session {cost.session} in {paths.short_path(one_line(cost.cwd))}", ""]
    table = _align(rows)
    if not cost.steps:
        return [lines[0], "No usage is on record for it."]
    lines.append(table[0])
    reasons = {cache_break.step: cache_break for cache_break in cost.breaks}
    for step, line in zip(cost.steps, table[1:], strict=False):
        lines.append(line)
        if step.entry in reasons:
            lines += _reason(reasons[step.entry])
    lines += table[1 + len(cost.steps) :]
    if why:
        lines += ["", *_why_lines(cost)]
    return lines


def _why_lines(found: "SessionCost") -> list[str]:
    from kode.plugins.cost.figures import has_cache

    if not found.recorded:
        return ["This session holds no record of its requests, so there are no reasons to show."]
    if not found.breaks:
        if not has_cache(found.total):
            return ["Each request started like the one before. The server reported no cache."]
        return ["Each request started like the one before, and the server's cache held."]
    tokens = sum(cache_break.tokens for cache_break in found.breaks)
    if not tokens:
        return ["Only the end changed: nothing had to be reread."]
    known = [lost.cost_usd for lost in found.breaks if lost.cost_usd is not None]
    cost = f", {money(sum(known))} more than from a cache" if known else ""
    return [f"Reread after cache misses: {tokens:,} tokens{cost}."]


def _reason(cache_break: "Break") -> list[str]:
    """What changed and its cost; below it, the place."""
    cost = "" if cache_break.cost_usd is None else f", {money(cache_break.cost_usd)} more"
    again = f" · {cache_break.tokens:,} tokens read again{cost}" if cache_break.tokens else ""
    where = f"{_gap(cache_break)} after {cache_break.session_before or 'the request before'}"
    if (spot := cache_break.spot) is not None:
        where = f"{spot.name} · {where}"
        if spot.byte is not None:
            change = f"{spot.before!r} → {spot.after!r}"
            where = f"{spot.name}, byte {spot.byte:,}: {change} · {_gap(cache_break)}"
    return [f"          ↳ {one_line(cache_break.cause)}{again}", f"            {where}"]


def _gap(cache_break: "Break") -> str:
    try:
        since, at = map(datetime.fromisoformat, (cache_break.since, cache_break.at))
        seconds = (at - since).total_seconds()
    except (ValueError, TypeError):
        return "some time"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def period_lines(period: "Period") -> list[str]:
    """A table with one row per session, then one per model, and the total."""
    if not period.sessions:
        return ["There were no requests in that time."]
    rows: list[tuple[str, ...]] = [("session", "requests", *HEADS)]
    spent = ((session.session, session.spent) for session in period.sessions)
    rows += [(name, str(cost.requests), *_figures(cost)) for name, cost in spent]
    rows += _sums(period.models, period.total)
    lines = _align(rows)
    for index, total in enumerate(period.sessions, 1):
        lines[index] += f"  {paths.short_path(one_line(total.cwd))}"
    return lines


def _sums(models: "Spending", total: "Spent") -> list[tuple[str, ...]]:
    by_model = [(one_line(name), str(one.requests), *_figures(one)) for name, one in models.items()]
    whole = ("total", str(total.requests), *_figures(total))
    return by_model if len(by_model) == 1 else [*by_model, whole]


def _figures(spent: "Spent") -> tuple[str, ...]:
    usage = spent.usage
    tokens = (usage.uncached_tokens, usage.cached_tokens, usage.cache_write_tokens)
    return (
        *(f"{token:,}" for token in (*tokens, usage.output_tokens, usage.thinking_tokens)),
        cost_text(spent.cost_usd, spent.unpriced == spent.requests, spent.unpriced > 0),
    )


def _align(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The rows as lines. Tokens of thinking are part of the output; shown only if there are any. On
    a narrow screen the less telling columns are left out."""
    if all(row[rows[0].index("thinking")] == "0" for row in rows[1:]):
        rows = _without("thinking", rows)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf
    for name in ("written", "cached", "thinking", "time"):
        if len(max(columns(rows), key=len)) > width and name in rows[0]:
            rows = _without(name, rows)
    return columns(rows, right=range(1 if rows[0][0] == "request" else 2, len(rows[0])))


def _without(name: str, rows: Sequence[tuple[str, ...]]) -> Sequence[tuple[str, ...]]:
    position = rows[0].index(name)
    return [(*row[:position], *row[position + 1 :]) for row in rows]


def _local(at: str) -> str:
    try:
        return f"{datetime.fromisoformat(at).astimezone():%m-%d %H:%M:%S}"
    except (ValueError, OverflowError):
        return "?"


def _object_of(cost: "SessionCost", *, why: bool) -> dict[str, object]:
    steps = [
        {"entry": step.entry, "at": step.at, "purpose": step.purpose, "model": step.model}
        | _spent_object(step.spent)
        for step in cost.steps
    ]
    whole: dict[str, object] = {"session": cost.session, "cwd": cost.cwd, "steps": steps}
    if why:
        whole |= {"recorded": cost.recorded, "breaks": [asdict(lost) for lost in cost.breaks]}
    return whole | _sums_object(cost.models, cost.total)


def _period_object(period: "Period") -> dict[str, object]:
    sessions = [
        {"session": session.session, "cwd": session.cwd} | _spent_object(session.spent)
        for session in period.sessions
    ]
    return {"sessions": sessions} | _sums_object(period.models, period.total)


def _sums_object(models: "Spending", total: "Spent") -> dict[str, object]:
    by_model = {name: _spent_object(one) for name, one in models.items()}
    return {"models": by_model, "total": _spent_object(total)}


def _spent_object(spent: "Spent") -> dict[str, object]:
    unknown = spent.requests > 0 and spent.unpriced == spent.requests
    return {
        "requests": spent.requests,
        **asdict(spent.usage),
        "uncached_tokens": spent.usage.uncached_tokens,
        "cost_usd": None if unknown else round(spent.cost_usd, 9),
        "unpriced": spent.unpriced,
    }

"""`kode cost`: tokens and dollars of a session request by request."""

import itertools
import os
from collections.abc import Sequence
from dataclasses import asdict

from kode import paths
from kode.cli.flags import working_directory
from kode.cli.parser import Parser
from kode.cli.screen.lines import cost_text, money, one_line, when
from kode.cli.screen.printer import Answer
from kode.config.load import load_config
from kode.config.model import given_prices
from kode.messages import columns
from kode.providers.models import cost_usd, info_of
from kode.session.cache_breaks import CacheBreak, find_breaks
from kode.session.entries import Entry
from kode.session.index import find, find_newest, read, session_path
from kode.session.spending import Spending, Spent, find_requests

HEADS = ("uncached", "cached", "written", "output", "cost")


def main(argv: Sequence[str]) -> Answer:
    """Runs `kode cost` with these arguments: a table with one row per request, each break's reason
    below its row. Raises: SessionError, StorageError, ConfigError."""
    parser = Parser(
        "kode cost", "Show the tokens and cost of requests. Without arguments: of the last session."
    )
    add = parser.add_argument
    add("id", nargs="?", metavar="ID", help="a session id, or any unique prefix")
    add("--why", action="store_true", help="where a cache was lost, why, and what that cost")
    add("--json", action="store_true", help="one JSON object")
    add("--cwd", metavar="DIR", help="the project whose last session and prices to use")
    arguments = parser.parse(argv)
    home, cwd = paths.home(), working_directory(arguments)
    session_id = find(home, arguments.id) if arguments.id else find_newest(home, cwd)[0]
    header, entries, _ = read(session_path(home, session_id))
    steps = [(entry, Spent.of(entry)) for entry in find_requests(entries)]
    listed = [
        {"entry": entry.id, "at": entry.at, "purpose": _purpose(entry), "model": entry.model}
        | _spent_object(spent)
        for entry, spent in steps
    ]
    value: dict[str, object] = {"session": session_id, "cwd": header.cwd, "steps": listed}
    breaks: Sequence[CacheBreak] = ()
    if arguments.why:
        config = load_config(home, cwd, environ=os.environ, flags={}).config
        given = given_prices(config)
        breaks = find_breaks(
            home, session_id, lambda model, usage: cost_usd(info_of(model, given), usage)
        )
        value["breaks"] = [asdict(cache_break) for cache_break in breaks]
    lines = [f"Session {session_id} in {paths.short_path(one_line(header.cwd))}", ""]
    spending, numbers = Spending.of(entries), itertools.count(1)
    rows: list[tuple[str, ...]] = [("time", "request", *HEADS)]
    for entry, spent in steps:
        name = _purpose(entry)
        name = f"step {next(numbers)}" if name == "turn" else name
        rows.append((when(entry.at), name, *_figures(spent)))
    head, *table = columns([*rows, *_sums(spending)], right=range(2, len(rows[0])))
    reasons = {cache_break.step: _reason(cache_break) for cache_break in breaks}
    lines += [head] if steps else ["No usage is on record for it."]
    for (entry, _), line in zip(steps, table, strict=False):
        lines += [line, *reasons.get(entry.id, ())]
    lines += table[len(steps) :] if steps else ()
    lines += ["", _summarize_breaks(breaks)] if arguments.why else ()
    return Answer(value=value | _totals(spending), as_json=arguments.json, lines=lines)


def _purpose(entry: Entry) -> str:
    """`turn`, `memory`, `compaction` or `subagent`."""
    return str(getattr(entry, "purpose", "turn"))


def _reason(cache_break: CacheBreak) -> list[str]:
    """What changed, and its cost."""
    cost = "" if cache_break.cost_usd is None else f", {money(cache_break.cost_usd)} more"
    again = f" · {cache_break.tokens:,} tokens read again{cost}" if cache_break.tokens else ""
    return [f"          ↳ {one_line(cache_break.cause)}{again}"]


def _summarize_breaks(breaks: Sequence[CacheBreak]) -> str:
    if not breaks:
        return "Each request started like the one before, and no cached beginning was lost."
    costs = [lost.cost_usd for lost in breaks if lost.cost_usd is not None]
    cost = f", {money(sum(costs))} more than from a cache" if costs else ""
    return f"Read again: {sum(lost.tokens for lost in breaks):,} tokens{cost}."


def _sums(spending: Spending) -> list[tuple[str, ...]]:
    by_name = {one_line(name): spent for name, spent in spending.items()}
    if len(by_name) > 1:
        by_name["total"] = spending.total
    return [(name, str(spent.requests), *_figures(spent)) for name, spent in by_name.items()]


def _figures(spent: Spent) -> tuple[str, ...]:
    usage = spent.usage
    tokens = usage.uncached_tokens, usage.cached_tokens, usage.cache_write_tokens
    cost = cost_text(spent.cost_usd, spent.unpriced == spent.requests, spent.unpriced > 0)
    return (*(f"{count:,}" for count in (*tokens, usage.output_tokens)), cost)


def _totals(spending: Spending) -> dict[str, object]:
    by_model = {name: _spent_object(spent) for name, spent in spending.items()}
    return {"models": by_model, "total": _spent_object(spending.total)}


def _spent_object(spent: Spent) -> dict[str, object]:
    is_unknown = spent.requests > 0 and spent.unpriced == spent.requests
    return {
        "requests": spent.requests,
        **asdict(spent.usage),
        "uncached_tokens": spent.usage.uncached_tokens,
        "cost_usd": None if is_unknown else round(spent.cost_usd, 9),
        "unpriced": spent.unpriced,
    }

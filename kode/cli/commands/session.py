"""`kode session`: lists, searches, shows, deletes, trims, cleans up, forks, exports and checks
sessions; and `kode cost`: the tokens and dollars of one session, request by request."""

import argparse
import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kode import installed, paths
from kode.cli.flags import working_directory
from kode.cli.parser import Commands, Parser
from kode.cli.screen.lines import (
    cell_width,
    clip,
    clip_middle,
    format_cost,
    format_when,
    money,
    one_line,
)
from kode.cli.screen.printer import Answered, CommandAnswer, complain, print_document
from kode.errors import EXIT_FAILED, EXIT_OK, SessionError
from kode.installed import ExportFile
from kode.messages import align_columns, plural
from kode.session import index, upkeep
from kode.session.entries import Entry, Header
from kode.session.index import Summary, find_newest, find_session, search_sessions, session_path
from kode.session.spending import Spending, Spent, find_requests
from kode.session.transcript import Transcript, as_json, as_markdown
from kode.values import asdict

if TYPE_CHECKING:
    from kode.session.cache_breaks import CacheBreak


def export_session(parser: Parser, argv: Sequence[str]) -> int:
    """Prints a session as one document, and on stderr what personal data it holds, if the format
    says so. Raises: ConfigError, SessionError, StorageError."""
    of_plugins = installed.find_additions("exports")
    about = f"{ID_HELP} (the newest here)"
    parser.add_argument("id", metavar="ID", nargs="?", help=about)
    parser.add_argument("--format", choices=list({**FORMATS, **of_plugins}), default="json")
    arguments = parser.parse(argv)
    name, home = arguments.format, paths.kode_home()
    run = FORMATS[name] if name in FORMATS else partial(installed.call_part, *of_plugins[name])
    id = find_session(home, arguments.id) if arguments.id else find_newest(home, Path.cwd())[0]
    document = run(Transcript.read(session_path(home, id)))
    if isinstance(document, ExportFile):
        complain(*(f"it holds {line}" for line in document.contains))
        document = document.data.decode("utf-8", "replace")
    print_document(document)
    return EXIT_OK


FORMATS: Mapping[str, Callable[[Transcript], str | ExportFile]] = {
    "json": lambda transcript: json.dumps(as_json(transcript), indent=2),
    "markdown": as_markdown,
}
"""kode's own formats: name → a function of the transcript, as for those of plug-ins."""

WIDEST_FOLDER, WIDEST_TASK = 28, 36
ID_HELP = "a session: its id, any unique beginning of it, or its name"
HEAD = ("id", "first task", "when", "turns", "cost", "where")
NUMBERS = ("turns", "cost")


def draw_table(summaries: Sequence[Summary], width: int, today: date | None = None) -> list[str]:
    """Returns a header line, then one line per session. On a narrow screen the last columns are
    left out, and then the task is cut, but never the id."""
    widest_task = max(WIDEST_TASK, width // 3)
    rows = [HEAD, *(_make_cells(summary, widest_task, today) for summary in summaries)]
    widths = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    while len(widths) > 2 and sum(widths) + 2 * (len(widths) - 1) > width:
        widths.pop()

    def pad(name: str, text: str, widest: int) -> str:
        space = " " * (widest - cell_width(text))
        return space + text if name in NUMBERS else text + space

    least = max(width, widths[0] + 1)
    return [clip("  ".join(map(pad, HEAD, row, widths)).rstrip(), least) for row in rows]


def list_lines(summaries: Sequence[Summary], limit: int | None) -> list[str]:
    """Returns a table that fits the terminal, or uncut lines without a header if stdout is not one.
    The session at `limit` is not shown: it only indicates that there are more."""
    shown, is_watched = summaries[: limit and limit - 1], sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_watched else sys.maxsize
    lines = draw_table(shown, width)[0 if is_watched and shown else 1 :]
    more = ["... and more: --all shows every session."] if len(summaries) > len(shown) else []
    return lines + more


def _make_cells(summary: Summary, widest_task: int, today: date | None) -> tuple[str, ...]:
    task = one_line(summary.title)
    if summary.damaged:
        task = f"damaged: `kode session check {summary.id}` shows the damage"
    elif summary.parent:
        task = f"(a subagent) {task}"
    is_unpriced = summary.cost_usd is None and summary.tokens > 0
    return (
        summary.id,
        clip(task, widest_task) if not summary.damaged else task,
        format_when(summary.updated_at, today),
        str(summary.turns) if summary.turns else "-",
        money(summary.cost_usd or None) or ("unknown" if is_unpriced else "-"),
        clip_middle(one_line(paths.short_path(summary.cwd)), WIDEST_FOLDER),
    )


SHOWN = 20
"""How many sessions or matches a person gets; `--all` and `--json` show every one."""


def _list_sessions(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    parser.add_flags(("--all", f"not only the last {SHOWN}"), ("--json", "one JSON list"))
    arguments = parser.parse(argv)
    limit = None if arguments.all or arguments.json else SHOWN + 1
    summaries = index.list_sessions(paths.kode_home(), limit=limit)
    return CommandAnswer(
        value=[asdict(summary) for summary in summaries],
        as_json=arguments.json,
        lines=list_lines(summaries, limit),
        empty="No sessions yet. `kode` starts one.",
    )


def _search_sessions(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    about = "words that must all occur; quote a phrase"
    parser.add_argument("words", nargs="+", metavar="WORD", help=about)
    parser.add_flags(("--all", f"not only the first {SHOWN}"), ("--json", "one JSON list of all"))
    arguments = parser.parse(argv)
    limit = None if arguments.all or arguments.json else SHOWN
    places = search_sessions(paths.kode_home(), arguments.words, limit)
    lines = []
    for place in places:
        where = f"{format_when(place.at)}  turn {place.turn}  {one_line(place.who)}"
        lines.append(f"{place.session}  {where}  {one_line(paths.short_path(place.cwd))}")
        lines.append(f"    {one_line(place.line)}")
    if places and len(places) == limit:
        lines.append("... there may be more: --all shows every match.")
    return CommandAnswer(
        value=[asdict(place) for place in places],
        as_json=arguments.json,
        lines=lines,
        empty="No message contains all these words. Parts of words match, too.",
    )


def _parse_id(
    parser: Parser, argv: Sequence[str], *flags: tuple[str, str]
) -> tuple[argparse.Namespace, str]:
    """Parses an ID and these flags; also returns the session that the ID names. Raises:
    ConfigError, SessionError."""
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_flags(*flags)
    arguments = parser.parse(argv)
    return arguments, find_session(paths.kode_home(), arguments.id)


def _show_session(parser: Parser, argv: Sequence[str]) -> Answered:
    arguments, session_id = _parse_id(parser, argv, ("--json", "the document of `export_session`"))
    transcript = Transcript.read(session_path(paths.kode_home(), session_id))
    if arguments.json:
        return CommandAnswer(value=as_json(transcript), as_json=True, faults=transcript.faults)
    return CommandAnswer(
        lines=[as_markdown(transcript).removesuffix("\n")], faults=transcript.faults
    )


def _delete_session(parser: Parser, argv: Sequence[str]) -> str:
    _, session_id = _parse_id(parser, argv)
    upkeep.delete_session(paths.kode_home(), session_id)
    return f"deleted {session_id}"


def _trim_session(parser: Parser, argv: Sequence[str]) -> str:
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("messages", metavar="N", type="natural", help="number of messages to keep")
    arguments = parser.parse(argv)
    session_id = find_session(paths.kode_home(), arguments.id)
    count, dropped = upkeep.trim_session(paths.kode_home(), session_id, arguments.messages)
    return f"{session_id}: {plural(count, 'message')} kept, {dropped} dropped (still in the file)"


def _clean_up_sessions(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    parser.add_argument("days", metavar="DAYS", type="natural", help="number of days without use")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be deleted")
    arguments = parser.parse(argv)
    removed, busy = upkeep.cleanup(paths.kode_home(), arguments.days, dry_run=arguments.dry_run)
    verb = "would delete" if arguments.dry_run else "deleted"
    lines = [f"{verb} {session_id}" for session_id in removed]
    lines += [f"skipped {id}: it is open in another kode" for id in busy]
    return CommandAnswer(lines=[*lines, f"{verb} {plural(len(removed), 'session')}"])


def _fork_session(parser: Parser, argv: Sequence[str]) -> str:
    arguments, session_id = _parse_id(parser, argv, ("--at ENTRY", "the last entry to copy"))
    return upkeep.fork_session(paths.kode_home(), session_id, arguments.at)


def _import_files(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    from kode.session.upkeep import find_imported, import_file, session_files

    about = "files, or folders such as ~/.claude/projects and ~/.codex/sessions"
    parser.add_argument("paths", nargs="+", metavar="PATH", type=Path, help=about)
    places = [paths.expand_path(path) for path in parser.parse(argv).paths]
    home, lines, faults, skipped = paths.kode_home(), list[str](), list[str](), 0
    earlier = find_imported(home)
    for path in (file for place in places for file in session_files(place)):
        try:
            session_id, transcript = import_file(home, path, earlier)
        except SessionError as error:
            skipped += 1
            if path in places:  # in a folder, not every file is a session
                faults.append(str(error))
            continue
        news = "there already"
        if transcript is not None:
            news = plural(sum(turn.number > 0 for turn in transcript.turns), "turn")
            faults += transcript.faults
        lines.append(f"{session_id}  {news}  {path}")
    faults += [f"skipped {plural(skipped, 'file')} without a session"] if skipped else []
    return CommandAnswer(lines=lines, faults=faults, exit_code=EXIT_OK if lines else EXIT_FAILED)


def _check_sessions(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    parser.add_argument("id", metavar="ID", nargs="?", help="one session (default: all)")
    parser.add_argument("--repair", action="store_true", help="repair what can be repaired")
    arguments = parser.parse(argv)
    session_id = find_session(paths.kode_home(), arguments.id) if arguments.id else None
    checked = upkeep.check(paths.kode_home(), session_id, repair=arguments.repair)
    faulty = [session for session in checked if session.faults]
    lines = [f"{session.id}: {fault}" for session in faulty for fault in session.faults]
    lines += [f"{it.id}: open in another kode, not checked" for it in checked if it.in_use]
    left = sum(not session.repaired for session in faulty)
    advice = "" if arguments.repair else "; `kode session check --repair` fixes what it can"
    outcome = f"{plural(len(faulty), 'session')} fixed" if faulty else "no damage"
    if left:
        outcome = f"faults in {plural(left, 'session')}{advice}"
    return CommandAnswer(
        lines=[*lines, f"{plural(len(checked), 'session')} checked: {outcome}"],
        exit_code=EXIT_FAILED if left else EXIT_OK,
    )


COMMANDS: Commands = {
    "list": (_list_sessions, "list sessions, the last used first"),
    "search": (_search_sessions, "search the text of all sessions"),
    "show": (_show_session, "a transcript"),
    "delete": (_delete_session, "delete one session"),
    "trim": (_trim_session, "keep only the last N messages"),
    "cleanup": (_clean_up_sessions, "delete sessions unused for DAYS days"),
    "fork": (_fork_session, "copy this session into a new one"),
    "export": (export_session, "write one JSON or Markdown document, or a cassette"),
    "import": (_import_files, "import sessions of Claude Code and Codex"),
    "check": (_check_sessions, "check for damage; --repair fixes it"),
}


def main(argv: Sequence[str]) -> Answered:
    """Runs `kode session ...`. Raises: SessionError, ConfigError."""
    return Parser.run_group("session", COMMANDS, argv)


HEADS = ("uncached", "cached", "written", "output", "cost")


def show_cost(argv: Sequence[str]) -> CommandAnswer:
    """Runs `kode cost` with these arguments: prints one row per request and, with `--why`, under it
    why its cache was lost. Raises: SessionError, StorageError, ConfigError."""
    parser = Parser("kode cost", "Show the cost of each request, by default of the last session.")
    parser.add_argument("id", nargs="?", metavar="ID", help=ID_HELP)
    parser.add_flags(("--why", "where a cache was lost, why, and what that cost"))
    parser.add_flags(("--json", "one JSON object"))
    parser.add_flags(("--cwd DIR", "the project whose last session and prices to use"))
    arguments = parser.parse(argv)
    home, cwd = paths.kode_home(), working_directory(arguments)
    session_id = find_session(home, arguments.id) if arguments.id else find_newest(home, cwd)[0]
    header, entries, _ = index.read(session_path(home, session_id))
    requests, spending = [*find_requests(entries)], Spending.of(entries)
    breaks = _find_breaks(header, entries, cwd) if arguments.why else ()
    value: dict[str, object] = {
        "session": session_id,
        "cwd": header.cwd,
        "steps": [
            {"entry": it.id, "at": it.at, "purpose": _name_purpose(it), "model": it.model}
            | _spent_object(Spent().with_request(it))
            for it in requests
        ],
        "models": {name: _spent_object(spent) for name, spent in spending.items()},
        "total": _spent_object(spending.total),
    }
    lines = [f"Session {session_id} in {paths.short_path(one_line(header.cwd))}", ""]
    rows: list[tuple[str, ...]] = [("time", "request", *HEADS)]
    numbers = itertools.count(1)
    for entry in requests:
        name = _name_purpose(entry)
        name = f"step {next(numbers)}" if name == "turn" else name
        rows.append((format_when(entry.at), name, *_format_spent(Spent().with_request(entry))))
    sums = {one_line(name): spent for name, spent in spending.items()}
    sums |= {"total": spending.total} if len(sums) > 1 else {}
    rows += [(name, str(spent.requests), *_format_spent(spent)) for name, spent in sums.items()]
    right = range(2, len(rows[0]))
    table = align_columns(rows, right) if requests else ["No usage is on record."]
    for line, request in itertools.zip_longest(table, [None, *requests]):
        lines.append(line)
        for lost in breaks:
            if request is not None and lost.step == request.id:
                again = f"{lost.tokens:,} tokens read again{_format_extra_cost(lost.cost_usd)}"
                cause = " · ".join([one_line(lost.cause), *([again] if lost.tokens else [])])
                lines.append(f"          ↳ {cause}")
    if arguments.why:
        value["breaks"] = [asdict(lost) for lost in breaks]
        tokens = sum(lost.tokens for lost in breaks)
        costs = [lost.cost_usd for lost in breaks if lost.cost_usd is not None]
        none = "Each request started like the one before, and no cached beginning was lost."
        total = f"Read again: {tokens:,} tokens{_format_extra_cost(sum(costs) if costs else None)}."
        lines += ["", total if breaks else none]
    return CommandAnswer(value=value, as_json=arguments.json, lines=lines)


def _find_breaks(header: Header, entries: Sequence[Entry], cwd: Path) -> "Sequence[CacheBreak]":
    from kode.config.load import load_config
    from kode.config.model import configured_prices
    from kode.providers.models import cost_usd, model_info_of
    from kode.session.cache_breaks import find_breaks

    loaded = load_config(paths.kode_home(), cwd, environ=os.environ, flags={})
    prices = configured_prices(loaded.config)
    price = lambda model, usage: cost_usd(model_info_of(model, prices), usage)  # noqa: E731
    return find_breaks(header, entries, price)


def _format_extra_cost(cost_usd: float | None) -> str:
    return "" if cost_usd is None else f", {money(cost_usd)} more"


def _name_purpose(entry: Entry) -> str:
    """Returns the purpose of a `UsageEntry`, or `turn` for any other entry."""
    return str(getattr(entry, "purpose", "turn"))


def _format_spent(spent: Spent) -> tuple[str, ...]:
    usage = spent.usage
    tokens = usage.uncached_tokens, usage.cached_tokens, usage.cache_write_tokens
    return (*(f"{count:,}" for count in (*tokens, usage.output_tokens)), format_cost(spent))


def _spent_object(spent: Spent) -> dict[str, object]:
    is_unknown = spent.requests > 0 and spent.unpriced == spent.requests
    return {
        "requests": spent.requests,
        **asdict(spent.usage),
        "uncached_tokens": spent.usage.uncached_tokens,
        "cost_usd": None if is_unknown else round(spent.cost_usd, 9),
        "unpriced": spent.unpriced,
    }

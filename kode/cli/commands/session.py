"""`kode session`: list, search, show, delete, trim, clean up, fork, export and check sessions."""

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path

from kode import installed, paths
from kode.cli.flags import directory
from kode.cli.parser import Commands, Parser
from kode.cli.screen.lines import cell_width, clip, clip_middle, money, one_line, when
from kode.cli.screen.printer import Answer, Answered, complain, print_answer, print_document
from kode.errors import EXIT_FAILED, EXIT_OK, SessionError
from kode.installed import ExportFile
from kode.messages import plural
from kode.session import index, upkeep
from kode.session.export import as_json, as_markdown
from kode.session.index import Summary, search, session_path
from kode.session.transcript import Transcript


def export(parser: Parser, argv: Sequence[str]) -> int:
    """Prints a session as one document; on stderr, what is personal in it, if the format says so.
    Raises: ConfigError, SessionError, StorageError."""
    of_plugins = installed.find_additions("exports")
    parser.add_argument(
        "id", metavar="ID", nargs="?", help="a session id, or any unique prefix (the newest here)"
    )
    parser.add_argument("--format", choices=list({**FORMATS, **of_plugins}), default="json")
    arguments = parser.parse(argv)
    name, home = arguments.format, paths.home()
    run = FORMATS[name] if name in FORMATS else partial(installed.call, *of_plugins[name])
    id = index.find(home, arguments.id) if arguments.id else index.find_newest(home, Path.cwd())[0]
    document = run(Transcript.read(session_path(home, id)))
    if isinstance(document, ExportFile):
        complain(*(f"it holds {line}" for line in document.contains))
        document = document.data.decode("utf-8", "replace")
    print_document(document)
    return EXIT_OK


def _json(transcript: Transcript) -> str:
    return json.dumps(as_json(transcript), indent=2)


FORMATS: Mapping[str, Callable[[Transcript], str | ExportFile]] = {
    "json": _json,
    "markdown": as_markdown,
}
"""kode's own formats: name → a function of the session, as a plug-in's is."""


WIDEST_FOLDER, WIDEST_TASK = 28, 36
HEAD = ("id", "first task", "when", "turns", "cost", "where")
NUMBERS = ("turns", "cost")


def draw_table(summaries: Sequence[Summary], width: int, today: date | None = None) -> list[str]:
    """A header line, then one line per session. On a narrow screen the last columns are left out,
    and the task is cut, but never the id."""
    rows = [HEAD, *(_cells(summary, max(WIDEST_TASK, width // 3), today) for summary in summaries)]
    widths = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    while len(widths) > 2 and sum(widths) + 2 * (len(widths) - 1) > width:
        widths.pop()
    lines = []
    for row in rows:
        pads = [
            " " * (widest - cell_width(text)) for text, widest in zip(row, widths, strict=False)
        ]
        cells = [
            pad + text if name in NUMBERS else text + pad
            for name, text, pad in zip(HEAD, row, pads, strict=False)
        ]
        lines.append(clip("  ".join(cells).rstrip(), max(width, widths[0] + 1)))
    return lines


def list_lines(summaries: Sequence[Summary], limit: int | None) -> list[str]:
    """A table on a terminal, else whole lines without its head. With a `limit` the last session is
    not shown: it only indicates that there are more."""
    shown = summaries[: limit and limit - 1]
    if sys.stdout.isatty():
        lines = draw_table(shown, shutil.get_terminal_size().columns)
    else:
        lines = draw_table(shown, sys.maxsize)[1:]
    more = ["... and more: --all shows every session."] if len(summaries) > len(shown) else []
    return [*lines, *more] if summaries else []


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
        clip_middle(one_line(paths.short_path(summary.cwd)), WIDEST_FOLDER),
    )


SHOWN = 20
"""Lines of a list for people; `--all` and `--json` show every session."""


def _list(parser: Parser, argv: Sequence[str]) -> Answer:
    parser.add_argument(
        "--all", action="store_true", help=f"all sessions, not only the last {SHOWN}"
    )
    parser.add_argument("--here", action="store_true", help="only this directory's sessions")
    parser.add_argument("--json", action="store_true", help="one JSON list")
    arguments = parser.parse(argv)
    cwd = directory() if arguments.here else None
    limit = None if arguments.all or arguments.json else SHOWN + 1
    summaries = index.list_sessions(paths.home(), cwd=cwd, limit=limit)
    return Answer(
        value=[asdict(summary) for summary in summaries],
        as_json=arguments.json,
        lines=list_lines(summaries, limit),
        empty="No sessions here." if arguments.here else "No sessions yet. `kode` starts one.",
    )


def _search(parser: Parser, argv: Sequence[str]) -> Answer:
    parser.add_argument(
        "words", nargs="+", metavar="WORD", help="words that must all occur; quote a phrase"
    )
    parser.add_argument(
        "--all", action="store_true", help=f"every match, not only the first {SHOWN}"
    )
    parser.add_argument("--json", action="store_true", help="one JSON list of every match")
    arguments = parser.parse(argv)
    limit = None if arguments.all or arguments.json else SHOWN
    places = search(paths.home(), arguments.words, limit)
    lines = []
    for place in places:
        where = f"{when(place.at)}  turn {place.turn}  {one_line(place.who)}"
        lines.append(f"{place.session}  {where}  {one_line(paths.short_path(place.cwd))}")
        lines.append(f"    {one_line(place.line)}")
    if places and len(places) == limit:
        lines.append("... there may be more: --all shows every match.")
    return Answer(
        value=[asdict(place) for place in places],
        as_json=arguments.json,
        lines=lines,
        empty="No message contains all these words. Parts of words match, too.",
    )


def _add_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="a session id, or any unique prefix")


def _parse_id(parser: Parser, argv: Sequence[str]) -> tuple[argparse.Namespace, str]:
    """Parses the arguments; also returns the session that their ID names. Raises: ConfigError,
    SessionError."""
    arguments = parser.parse(argv)
    return arguments, index.find(paths.home(), arguments.id)


def _show(parser: Parser, argv: Sequence[str]) -> Answered:
    _add_id(parser)
    parser.add_argument("--json", action="store_true", help="the document of `export`")
    arguments, session_id = _parse_id(parser, argv)
    transcript = Transcript.read(session_path(paths.home(), session_id))
    if arguments.json:
        return Answer(value=as_json(transcript), as_json=True, faults=transcript.faults)
    return Answer(lines=[as_markdown(transcript).removesuffix("\n")], faults=transcript.faults)


def _delete(parser: Parser, argv: Sequence[str]) -> str:
    _add_id(parser)
    _, session_id = _parse_id(parser, argv)
    upkeep.delete(paths.home(), session_id)
    return f"deleted {session_id}"


def _trim(parser: Parser, argv: Sequence[str]) -> str:
    _add_id(parser)
    parser.add_argument("messages", metavar="N", type="natural", help="number of messages to keep")
    arguments, session_id = _parse_id(parser, argv)
    count, dropped = upkeep.trim(paths.home(), session_id, arguments.messages)
    return f"{session_id}: {plural(count, 'message')} kept, {dropped} dropped (still in the file)"


def _cleanup(parser: Parser, argv: Sequence[str]) -> Answer:
    parser.add_argument("days", metavar="DAYS", type="natural", help="number of days without use")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be deleted")
    arguments = parser.parse(argv)
    removed, busy = upkeep.cleanup(paths.home(), arguments.days, dry_run=arguments.dry_run)
    verb = "would delete" if arguments.dry_run else "deleted"
    lines = [f"{verb} {session_id}" for session_id in removed]
    lines += [f"skipped {id}: it is open in another kode" for id in busy]
    return Answer(lines=[*lines, f"{verb} {plural(len(removed), 'session')}"])


def _fork(parser: Parser, argv: Sequence[str]) -> str:
    _add_id(parser)
    parser.add_argument("--at", metavar="ENTRY", help="the last entry to copy")
    arguments, session_id = _parse_id(parser, argv)
    return upkeep.fork(paths.home(), session_id, arguments.at)


def _import(parser: Parser, argv: Sequence[str]) -> int:
    from kode.session.imports import find_imported, import_file, session_files

    about = "files, or folders such as ~/.claude/projects and ~/.codex/sessions"
    parser.add_argument("paths", nargs="+", metavar="PATH", type=Path, help=about)
    places = [paths.expand(path) for path in parser.parse(argv).paths]
    home, taken, skipped = paths.home(), 0, 0
    earlier = find_imported(home)
    for path in (file for place in places for file in session_files(place)):
        try:
            session_id, transcript = import_file(home, path, earlier)
        except SessionError as error:
            skipped += 1
            if path in places:  # of a folder, not every file is a session
                complain(str(error))
            continue
        taken += 1
        if transcript is None:
            answer = Answer(lines=[f"{session_id}  there already  {path}"])
        else:
            turns = plural(sum(turn.number > 0 for turn in transcript.turns), "turn")
            answer = Answer(lines=[f"{session_id}  {turns}  {path}"], faults=transcript.faults)
        print_answer(answer)
    complain(f"skipped {plural(skipped, 'file')} without a session" if skipped else "")
    return EXIT_OK if taken else EXIT_FAILED


def _check(parser: Parser, argv: Sequence[str]) -> Answer:
    parser.add_argument("id", metavar="ID", nargs="?", help="one session (default: all)")
    parser.add_argument("--repair", action="store_true", help="repair what can be repaired")
    arguments = parser.parse(argv)
    session_id = index.find(paths.home(), arguments.id) if arguments.id else None
    checked = upkeep.check(paths.home(), session_id, repair=arguments.repair)
    faulty = [session for session in checked if session.faults]
    lines = [f"{session.id}: {fault}" for session in faulty for fault in session.faults]
    lines += [f"{it.id}: open in another kode, not checked" for it in checked if it.in_use]
    left = sum(not session.repaired for session in faulty)
    advice = "" if arguments.repair else "; `kode session check --repair` fixes what it can"
    if left:
        outcome = f"faults in {plural(left, 'session')}{advice}"
    else:
        outcome = f"{plural(len(faulty), 'session')} fixed" if faulty else "no damage"
    return Answer(
        lines=[*lines, f"{plural(len(checked), 'session')} checked: {outcome}"],
        exit_code=EXIT_FAILED if left else EXIT_OK,
    )


COMMANDS: Commands = {
    "list": (_list, "list sessions, the last used first"),
    "search": (_search, "search the text of all sessions"),
    "show": (_show, "a transcript"),
    "delete": (_delete, "delete one session"),
    "trim": (_trim, "keep only the last N messages"),
    "cleanup": (_cleanup, "delete sessions unused for DAYS days"),
    "fork": (_fork, "copy this session into a new one"),
    "export": (export, "write one JSON or Markdown document, or a cassette"),
    "import": (_import, "import sessions of Claude Code and Codex"),
    "check": (_check, "check for damage; --repair fixes it"),
}


def main(argv: Sequence[str]) -> Answered:
    """Runs `kode session ...`. Raises: SessionError, ConfigError."""
    return Parser.run_group("session", COMMANDS, argv)

"""`kode session`: list, show, delete, trim, clean up, fork, export and check sessions."""

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kode import paths
from kode.cli.main import Parser
from kode.errors import EXIT_FAILED, EXIT_OK, ConfigError
from kode.session import index
from kode.session.export import as_json, as_markdown
from kode.session.log import read, session_path

SHOWN = 20
"""Lines of a list for people; `--all` and `--json` show every session."""

ACTIONS = {
    "list": "sessions of this directory, newest first",
    "show": "a transcript",
    "delete": "delete one session",
    "trim": "keep the last N messages",
    "cleanup": "delete sessions that nobody has used for DAYS",
    "fork": "a new session that begins like this one",
    "export": "one JSON or Markdown document",
    "check": "find damage, and with --repair mend it",
}


def main(argv: Sequence[str]) -> int:
    """Runs `kode session ...` and returns its exit code. Raises: SessionError, ConfigError."""
    if not argv or argv[0] in ("-h", "--help"):
        width = max(map(len, ACTIONS))
        lines = (f"  {name:<{width}}  {what}" for name, what in ACTIONS.items())
        print("usage: kode session ACTION ...\n\n" + "\n".join(lines))
        return EXIT_OK if argv else ConfigError.exit_code
    action, *rest = argv
    if action not in ACTIONS:
        from kode.cli.main import nearest

        raise ConfigError(
            f"kode session: unknown action {action!r}.{nearest(action, list(ACTIONS))} "
            f"The actions are: {', '.join(ACTIONS)}."
        )
    run: dict[str, Callable[[Parser, Sequence[str]], int]] = {
        "list": _list,
        "show": _show,
        "delete": _delete,
        "trim": _trim,
        "cleanup": _cleanup,
        "fork": _fork,
        "export": _export,
        "check": _check,
    }
    return run[action](Parser(f"kode session {action}", ACTIONS[action]), rest)


def _list(parser: Parser, argv: Sequence[str]) -> int:
    parser.add_argument("--all", action="store_true", help="those of every directory")
    parser.add_argument("--json", action="store_true", help="one JSON list")
    arguments = parser.parse(argv)
    cwd = None if arguments.all else Path.cwd()
    limit = None if arguments.all or arguments.json else SHOWN + 1
    found = index.list_sessions(paths.home(), cwd=cwd, limit=limit)
    if arguments.json:
        print(json.dumps([vars(summary) for summary in found], ensure_ascii=False))
        return EXIT_OK
    if not found:
        where = "" if arguments.all else " of this directory; --all shows those of others"
        print(f"No sessions{where}.")
        return EXIT_OK
    width = shutil.get_terminal_size().columns
    for summary in found if arguments.all else found[:SHOWN]:
        print(_line(summary, width, with_folder=arguments.all))
    if not arguments.all and len(found) > SHOWN:
        print("... and more: --all shows every session.")
    return EXIT_OK


def _line(summary: index.Summary, width: int, *, with_folder: bool) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.updated_at))
    if summary.damaged:
        return (
            f"{summary.id}  {when}  damaged: `kode session check {summary.id}` says what is wrong"
        )
    turns = "?" if summary.turns is None else str(summary.turns)
    turns = f"{turns} turn{'' if turns == '1' else 's'}"
    pieces = [summary.id, when, f"{turns:>8}"]
    if summary.cost_usd:
        pieces.append(f"${summary.cost_usd:.2f}")
    pieces.append(summary.model)
    if with_folder:
        pieces.append(_short(summary.cwd))
    line = "  ".join(pieces)
    room = width - len(line) - 2
    task = summary.task if len(summary.task) <= room else summary.task[: max(0, room - 1)] + "…"
    return f"{line}  {task}" if room > 8 else line


def _short(folder: str) -> str:
    home = os.path.expanduser("~")
    return "~" + folder[len(home) :] if folder.startswith(home + os.sep) else folder


def _session_argument(parser: Parser, argv: Sequence[str]) -> tuple[argparse.Namespace, str]:
    arguments = parser.parse(argv)
    return arguments, index.find(paths.home(), arguments.id)


def _show(parser: Parser, argv: Sequence[str]) -> int:
    parser.add_argument("id", metavar="ID", help="any unique beginning of an id")
    parser.add_argument("--json", action="store_true", help="the document of `export`")
    arguments, session_id = _session_argument(parser, argv)
    header, entries, faults = read(session_path(paths.home(), session_id))
    if arguments.json:
        print(json.dumps(as_json(header, entries), ensure_ascii=False))
        return EXIT_OK
    print(as_markdown(header, entries), end="")
    for fault in faults:
        print(f"! {fault}")
    return EXIT_OK


def _delete(parser: Parser, argv: Sequence[str]) -> int:
    parser.add_argument("id", metavar="ID", help="any unique beginning of an id")
    _, session_id = _session_argument(parser, argv)
    index.delete(paths.home(), session_id)
    print(f"deleted {session_id}")
    return EXIT_OK


def _trim(parser: Parser, argv: Sequence[str]) -> int:
    from kode.cli.flags import whole

    parser.add_argument("id", metavar="ID", help="any unique beginning of an id")
    parser.add_argument("messages", metavar="N", type=whole, help="how many messages to keep")
    arguments, session_id = _session_argument(parser, argv)
    kept, dropped = index.trim(paths.home(), session_id, arguments.messages)
    print(f"{session_id}: {kept} messages kept, {dropped} dropped (they stay in the file)")
    return EXIT_OK


def _cleanup(parser: Parser, argv: Sequence[str]) -> int:
    from kode.cli.flags import seconds

    parser.add_argument("days", metavar="DAYS", type=seconds, help="unused for so many days")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    arguments = parser.parse(argv)
    removed = index.cleanup(paths.home(), arguments.days, dry_run=arguments.dry_run)
    verb = "would delete" if arguments.dry_run else "deleted"
    for session_id in removed.ids:
        print(f"{verb} {session_id}")
    for session_id in removed.in_use:
        print(f"skipped {session_id}: it is open in another kode")
    print(f"{verb} {len(removed.ids)} session{'' if len(removed.ids) == 1 else 's'}")
    return EXIT_OK


def _fork(parser: Parser, argv: Sequence[str]) -> int:
    parser.add_argument("id", metavar="ID", help="any unique beginning of an id")
    parser.add_argument("--at", metavar="ENTRY", help="the last entry to take along")
    arguments, session_id = _session_argument(parser, argv)
    session = index.fork(paths.home(), session_id, arguments.at)
    session.loaded = True
    session.close()
    print(session.id)
    return EXIT_OK


def _export(parser: Parser, argv: Sequence[str]) -> int:
    parser.add_argument("id", metavar="ID", help="any unique beginning of an id")
    parser.add_argument("--format", choices=("json", "markdown"), default="json")
    arguments, session_id = _session_argument(parser, argv)
    header, entries, _ = read(session_path(paths.home(), session_id))
    if arguments.format == "json":
        print(json.dumps(as_json(header, entries), ensure_ascii=False, indent=2))
    else:
        print(as_markdown(header, entries), end="")
    return EXIT_OK


def _check(parser: Parser, argv: Sequence[str]) -> int:
    parser.add_argument("id", metavar="ID", nargs="?", help="one session; all without")
    parser.add_argument("--repair", action="store_true", help="mend what can be mended")
    arguments = parser.parse(argv)
    session_id = index.find(paths.home(), arguments.id) if arguments.id else None
    checked = index.check(paths.home(), session_id, repair=arguments.repair)
    faulty = [one for one in checked if one.faults]
    for one in faulty:
        for fault in one.faults:
            print(f"{one.id}: {fault}")
    count = f"{len(checked)} session{'' if len(checked) == 1 else 's'} checked"
    if not faulty:
        print(f"{count}: no faults")
        return EXIT_OK
    done = "mended" if arguments.repair else "found; `kode session check --repair` mends them"
    print(f"{count}: faults of {len(faulty)} {done}")
    return EXIT_OK if arguments.repair else EXIT_FAILED

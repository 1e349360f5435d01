"""`kode extensions`: lists, tests and approves what files of a project and of kode's home add.

A plug-in adds commands for bundles to the group. Older names, such as `kode skills`, still run.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kode import installed, paths
from kode.broken_json import object_of
from kode.cli.flags import directory
from kode.cli.parser import Commands, Parser
from kode.cli.screen.lines import make_public
from kode.cli.screen.printer import Answered, CommandAnswer, complain, say
from kode.cli.screen.question import make_ask
from kode.config.load import load_config
from kode.errors import EXIT_FAILED, EXIT_OK, ConfigError
from kode.extensions import review, trust
from kode.extensions.definitions import find_surroundings
from kode.extensions.hooks import EVENTS
from kode.extensions.review import lines_of, rows_of
from kode.extensions.trust import Approvals, Approved, Candidate
from kode.permissions.question import visible

LIST = "a list; --json: one JSON list"


def _list_kind(kind: Any, parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    parser.add_argument("--json", action="store_true", help=LIST)
    wants_json, extensions = parser.parse(argv).json, _find_extensions()
    rows = rows_of(extensions, kind)
    faults = [] if wants_json else map(make_public, extensions.problems[kind])
    return CommandAnswer(value=rows, as_json=wants_json, lines=lines_of(rows, kind), faults=faults)


def _find_extensions() -> review.FoundExtensions:
    home = paths.kode_home()
    around = find_surroundings(directory(), home, paths.user_home())
    return review.find_extensions(around, trust.load(home, around.project))


def _test_hooks(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    """Runs the hooks of an event as a session would; their changes are dropped."""
    parser.add_argument("event", metavar="EVENT", choices=EVENTS, help=", ".join(EVENTS))
    parser.add_argument("--input", metavar="FILE", help="their stdin, as JSON")
    arguments = parser.parse(argv)
    try:
        fields = object_of(Path(arguments.input).read_bytes()) if arguments.input else {}
    except OSError as error:
        raise ConfigError(
            f"--input {arguments.input}: {error.strerror}. Name a file to read."
        ) from error
    if fields is None:
        raise ConfigError(f"--input {arguments.input}: it holds no JSON object.")
    return asyncio.run(_run_hooks(arguments.event, fields))


async def _run_hooks(event: Any, fields: Mapping[str, Any]) -> CommandAnswer:
    from kode.assembly import open_sandbox, open_workplace
    from kode.conversation.extensions import run_hook
    from kode.extensions.hook_runs import TOPICS, describe_lost, make_line, names_of, parse_answer

    cwd, home = directory(), paths.kode_home()
    topics = [str(fields[topic]) for topic in TOPICS if topic in fields]
    names = tuple(name for topic in topics for name in names_of(topic))
    config = load_config(home, cwd, environ=os.environ, flags={}).config
    place = open_workplace(config, home, cwd)
    sandbox, is_required = open_sandbox(config, place), config.sandbox.enabled is True
    session = {"session_id": "test", "transcript_path": "", "permission_mode": "default"}
    line = make_line(event, {**session, "cwd": str(cwd)}, fields)

    lines, works = list[str](), True
    for hook, standing in ((it.thing, it.standing) for it in _find_extensions().hooks):
        name = hook.item.name
        if hook.event != event:
            continue
        if standing != "used":
            lines.append(f"{name}: not run, it is {standing} (kode extensions trust)")
            continue
        if not hook.matches(names):
            lines.append(f"{name}: not about {', '.join(names)}")
            continue
        ran = await run_hook(hook, line, place, sandbox, is_required)
        answer = parse_answer(hook, ran)
        details = {
            "decides": answer.outcome,
            "because": answer.reason,
            "for the model": answer.context,
            "for you": answer.message,
            "stderr": ran.stderr.strip(),
            "makes of the call": "" if answer.updated is None else json.dumps(answer.updated),
            "in vain": describe_lost(hook, ran),
        }
        ended = ran.fault or f"exit status {ran.exit_code}"
        lines.append(f"{name}: {ended}, {ran.duration_ms} ms ({hook.command})")
        lines += [f"  {label}: {text}" for label, text in details.items() if text]
        works = works and not answer.message and ran.exit_code in (0, 2)
    return CommandAnswer(
        lines=map(make_public, lines),
        empty=f"No hooks for {event} here. `kode extensions hooks list` lists all.",
        exit_code=EXIT_OK if works else EXIT_FAILED,
    )


def _open_trust() -> tuple[Sequence[Candidate], Approvals, Path]:
    """Returns the items that need approval here, the saved approvals, and kode's home."""
    cwd, home = directory(), paths.kode_home()
    approvals = trust.load(home, paths.project_root(cwd))
    complain(approvals.problem)
    return review.find_items(home, cwd), approvals, home


def _find_items(items: Sequence[Candidate], name: str) -> Sequence[Candidate]:
    """Returns the items with this name. Raises: ConfigError if there is none."""
    if matches := [item for item in items if item.name == name]:
        return matches
    raise ConfigError(f"There is nothing called {name!r} here: see `kode extensions trust`.")


def _show_item(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    parser.add_argument("name", metavar="ITEM")
    name, (items, approvals, _) = parser.parse(argv).name, _open_trust()
    matches = _find_items(items, name)
    shown = [make_public(review.describe(item, approvals, lines=sys.maxsize)) for item in matches]
    return CommandAnswer(lines=shown)


def _list_items(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    parser.add_argument("--json", action="store_true", help="one JSON list")
    as_json, (items, approvals, _) = parser.parse(argv).json, _open_trust()
    rows = [
        _row(item, item.scope, trust.state(item, approvals), trust.digest(item)) for item in items
    ]
    listed = {(row["kind"], row["name"], row["origin"]) for row in rows}
    rows += [
        _row(item, "project", "approved" if item.kind in trust.NOT_FOUND else "gone", item.digest)
        for item in approvals.items
        if (item.kind, item.name, item.origin) not in listed
    ]
    names = ("state", "kind", "name", "hash", "origin")
    return CommandAnswer(
        value=rows,
        as_json=as_json,
        rows=[[make_public(row[name]) for name in names] for row in rows],
        empty="This project has nothing that needs approval.",
    )


def _row(item: Candidate | Approved, scope: str, state: str, digest: str) -> dict[str, Any]:
    place = {"scope": scope, "state": state, "origin": str(item.origin)}
    return {"kind": item.kind, "name": item.name, **place, "hash": digest}


def _approve_items(parser: Parser, argv: Sequence[str]) -> Answered:
    parser.add_argument("name", metavar="ITEM", nargs="?")
    about = "servers may run without a sandbox where there is none, hooks do"
    parser.add_flags(("--yes", "do not ask for confirmation"), ("--outside", about))
    arguments, (items, approvals, home) = parser.parse(argv), _open_trust()
    wanted = [*(_find_items(items, arguments.name) if arguments.name else items)]
    if arguments.outside:
        wanted += [trust.outside_item(item) for item in wanted if item.kind in ("mcp", "hook")]
    pending = [item for item in wanted if trust.state(item, approvals) != "trusted"]
    if not pending:
        return "Nothing is pending."
    is_approved = asyncio.run(approve_shown(pending, approvals, home, unasked=arguments.yes))
    return EXIT_OK if is_approved else EXIT_FAILED


async def approve_shown(
    items: Sequence[Candidate],
    approvals: Approvals,
    home: Path,
    *,
    unasked: bool,
    lines: int = review.SHOWN_LINES,
) -> bool:
    """Shows the items and saves their approval, for which it asks unless `unasked`; returns False
    if the person refuses. Raises: ConfigError if nobody can be asked."""
    names = visible(", ".join(map(review.name_item, items)))
    if not unasked and items:
        if sys.stdin is None or not sys.stdin.isatty():
            raise ConfigError(f"No terminal to ask in about {names}: --yes approves it.")
        return await review.ask_approval(home, items, approvals, make_ask(), lines)
    for item in items:
        say(make_public(review.describe(item, approvals, lines=lines)))
    if items:
        trust.approve_items(home, approvals.project, items)
        say(f"Approved until it changes: {names}")
    return True


def _revoke_approval(parser: Parser, argv: Sequence[str]) -> str:
    parser.add_argument("name", metavar="ITEM")
    name, (_, approvals, home) = parser.parse(argv).name, _open_trust()

    def is_about(approval: Approved) -> bool:
        is_tool = approval.kind == "mcp-tool" and approval.name.startswith(f"{name}:")
        return approval.name == name or is_tool  # a server includes its tools

    revoked = [approval for approval in approvals.items if is_about(approval)]
    if not revoked:
        raise ConfigError(f"Nothing called {name!r} is approved: see `kode extensions trust`.")
    trust.revoke_approvals(home, approvals.project, revoked)
    return make_public(f"Revoked: {', '.join(f'{it.kind} {it.name}' for it in revoked)}")


TRUST: Commands = {
    "list": (_list_items, "list approved, changed and new items"),
    "show": (_show_item, "show one item in full, or what changed in it"),
    "approve": (_approve_items, "approve one item, or all that are pending"),
    "revoke": (_revoke_approval, "withdraw an approval"),
}
HOOKS: Commands = {
    "list": (partial(_list_kind, "hooks"), LIST),
    "test": (_test_hooks, "run the hooks of an event and print their answers"),
}


def _run_subgroup(commands: Commands, parser: Parser, argv: Sequence[str]) -> Answered:
    return Parser.run_group(parser.prog.partition(" ")[2], commands, argv or ["list"])


COMMANDS: Commands = {
    "skills": (partial(_list_kind, "skills"), "list skills, with source and status"),
    "commands": (partial(_list_kind, "commands"), "list commands defined by Markdown files"),
    "agents": (partial(_list_kind, "agents"), "list agent definitions for subagents"),
    "hooks": (partial(_run_subgroup, HOOKS), "list hooks, or test those of an event"),
    "trust": (partial(_run_subgroup, TRUST), "list, show, approve and revoke what needs approval"),
    "approve": TRUST["approve"],
    "revoke": TRUST["revoke"],
}


def main(argv: Sequence[str]) -> Answered:
    """Runs `kode extensions ...`. Raises: ConfigError, StorageError, BusyError."""
    default = "list" if "list" in installed.subcommands("extensions") else "--help"
    return Parser.run_group("extensions", COMMANDS, argv or [default])

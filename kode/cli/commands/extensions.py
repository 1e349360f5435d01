"""`kode extensions`: what files of a repository and of a home bring, listed, tried and approved.

Plug-ins add commands to the group: those of bundles. Older names, such as `kode skills`, still run.
"""

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kode import installed, paths
from kode.broken_json import object_of
from kode.cli.commands.trust import main as approvals
from kode.cli.flags import directory
from kode.cli.parser import Parser
from kode.cli.screen.lines import public
from kode.cli.screen.printer import Answer, Answered
from kode.errors import EXIT_FAILED, EXIT_OK, ConfigError
from kode.extensions import found_extensions, trust
from kode.extensions.found_extensions import lines_of, rows_of
from kode.extensions.hooks import EVENTS, Hook
from kode.extensions.places import surroundings

COMMANDS = {
    "skills": "list skills, with source and status",
    "commands": "list commands defined by Markdown files",
    "agents": "list agent definitions for subagents",
    "hooks": "list hooks, or test those of an event",
    "trust": "show what of this repository is approved, and what is pending",
    "approve": "approve one item, or all that are pending",
    "revoke": "withdraw an approval",
}
LIST = "a list; --json: one JSON list"


def main(argv: Sequence[str]) -> Answered:
    """Runs `kode extensions ...`. Raises: ConfigError, StorageError, BusyError."""
    every = COMMANDS | installed.subcommands("extensions")
    argv = argv or ["list" if "list" in every else "--help"]
    if (of_plugin := installed.command("extensions", *argv[:1])) is not None:
        return of_plugin(argv[1:])
    command, _, rest = Parser.of_group("extensions", every, argv)
    run: dict[str, Callable[[Sequence[str]], Answered]] = {
        "hooks": hooks,
        "trust": approvals,
        "approve": partial(approvals, verb=["approve"]),
        "revoke": partial(approvals, verb=["revoke"]),
    }
    return run[command](rest) if command in run else _list_kind(command, rest)


def _list_kind(kind: Any, argv: Sequence[str]) -> Answer:
    parser = Parser(f"kode extensions {kind}", COMMANDS[kind])
    parser.add_argument("--json", action="store_true", help=LIST)
    return _answer(kind, wants_json=parser.parse(argv).json)


skills, commands, agents = (partial(_list_kind, kind) for kind in ("skills", "commands", "agents"))


def hooks(argv: Sequence[str]) -> Answer:
    """Runs `kode extensions hooks ...`. Raises: ConfigError."""
    parser = Parser("kode extensions hooks", COMMANDS["hooks"])
    below = parser.add_subparsers(dest="command", metavar="COMMAND")
    below.add_parser("list", help=LIST).add_argument("--json", action="store_true", help=LIST)
    test = below.add_parser("test", help="run the hooks of an event and print their answers")
    test.add_argument("event", metavar="EVENT", choices=EVENTS, help=", ".join(EVENTS))
    test.add_argument("--input", metavar="FILE", help="their stdin, as JSON")
    arguments = parser.parse(argv or ["list"])
    if arguments.command == "list":
        return _answer("hooks", wants_json=arguments.json)
    return asyncio.run(_test_hooks(arguments.event, _read_input(arguments.input)))


def _answer(kind: found_extensions.Kind, *, wants_json: bool) -> Answer:
    extensions = _find()
    rows = rows_of(extensions, kind)
    faults = [] if wants_json else map(public, extensions.problems[kind])
    return Answer(value=rows, as_json=wants_json, lines=lines_of(rows, kind), faults=faults)


def _find() -> found_extensions.FoundExtensions:
    home = paths.home()
    around = surroundings(directory(), home, paths.user_home())
    return found_extensions.find(around, trust.load(home, around.project))


def _read_input(name: str | None) -> Mapping[str, Any]:
    """Raises: ConfigError."""
    try:
        value = object_of(Path(name).read_bytes()) if name is not None else {}
    except OSError as error:
        raise ConfigError(f"--input {name}: {error.strerror}. Name a file to read.") from error
    if value is None:
        raise ConfigError(f"--input {name}: it holds no JSON object.")
    return value


async def _test_hooks(event: Any, fields: Mapping[str, Any]) -> Answer:
    """Runs the hooks of an event as a session would; their changes are dropped."""
    from kode.assembly import open_sandbox, open_workplace
    from kode.config.load import load_config
    from kode.conversation.extensions import run_hook
    from kode.extensions.hook_runs import TOPICS, answer_of, describe_lost, line_of, other_names

    cwd, home = directory(), paths.home()
    topics = [str(fields[topic]) for topic in TOPICS if topic in fields]
    names = tuple(name for topic in topics for name in other_names(topic))
    config = load_config(home, cwd, environ=os.environ, flags={}).config
    place = open_workplace(config, home, cwd)
    sandbox, is_required = open_sandbox(config, place), config.sandbox.enabled is True
    session = {"session_id": "test", "transcript_path": "", "permission_mode": "default"}
    line = line_of(event, {**session, "cwd": str(cwd)}, fields)

    async def test(hook: Hook, standing: str) -> tuple[bool, list[str]]:
        name = hook.item.name
        if standing != "used":
            return True, [f"{name}: not run, it is {standing} (kode extensions trust)"]
        if not hook.matches(names):
            return True, [f"{name}: not about {', '.join(names)}"]
        ran = await run_hook(hook, line, place, sandbox, is_required)
        answer = answer_of(hook, ran)
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
        head = f"{name}: {ended}, {ran.duration_ms} ms ({hook.command})"
        works = not answer.message and ran.exit_code in (0, 2)
        return works, [head, *(f"  {label}: {text}" for label, text in details.items() if text)]

    results = [
        await test(hook.thing, hook.standing) for hook in _find().hooks if hook.thing.event == event
    ]
    return Answer(
        lines=[public(text) for _, texts in results for text in texts],
        empty=f"No hooks for {event} here. `kode extensions hooks list` lists all.",
        exit_code=EXIT_OK if all(works for works, _ in results) else EXIT_FAILED,
    )

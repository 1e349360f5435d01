"""`kode extensions skills`, `commands`, `agents`, `hooks`: lists those here; runs hooks by hand."""

import argparse
import asyncio
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kode.plugin import (
    EVENTS,
    EXIT_FAILED,
    EXIT_OK,
    TOPICS,
    ConfigError,
    Parser,
    answer_of,
    as_json,
    brought,
    granted,
    lines_of,
    load_config,
    lost_of,
    open_sandbox,
    open_workplace,
    other_names,
    paths,
    public,
    rows_of,
    run_hook,
    surroundings,
    trust,
    working_directory,
)
from kode.plugin import (
    PrintedAnswer as Answer,
)
from kode.plugin import (
    hook_line_of as line_of,
)

ABOUT = "Lists {} of this project and your home, with source and status."


def _list(kind: brought.Kind, argv: Sequence[str]) -> Answer:
    parser = Parser(f"kode extensions {kind}", ABOUT.format(kind))
    _add_list(parser)
    return _answer(kind, as_list=parser.parse(argv).json)


skills = partial(_list, "skills")
commands = partial(_list, "commands")
agents = partial(_list, "agents")


def hooks(argv: Sequence[str]) -> Answer:
    """Runs `kode extensions hooks ...`. Raises: ConfigError."""
    parser = Parser("kode extensions hooks", ABOUT.format("hooks"))
    called = parser.add_subparsers(dest="command", metavar="COMMAND")
    about = "all hooks (--json: one list)"
    listed = called.add_parser("list", help=about, description=about)
    _add_list(listed)
    about = "run the hooks of an event and print their answers"
    tried = called.add_parser("test", help=about, description=about)
    tried.add_argument("event", metavar="EVENT", choices=EVENTS, help=", ".join(EVENTS))
    tried.add_argument("--input", metavar="FILE", help="their stdin, as JSON")
    arguments = parser.parse(argv or ["list"])
    if arguments.command == "test":
        return asyncio.run(_test(arguments.event, arguments.input))
    return _answer("hooks", as_list=arguments.json)


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON list")


def _answer(kind: brought.Kind, *, as_list: bool) -> Answer:
    found = _found(_cwd())
    rows = rows_of(found, kind)
    return Answer(
        value=as_json(rows),
        as_json=as_list,
        lines=lines_of(rows, kind),
        faults=() if as_list else map(public, found.problems[kind]),
    )


def _cwd() -> Path:
    return working_directory(argparse.Namespace(cwd=None))


def _found(cwd: Path) -> Any:
    home = paths.home()
    around = surroundings(cwd, home, paths.user_home())
    return brought.find(around, trust.load(home, around.project))


async def _test(event: Any, name: str | None) -> Answer:
    """Runs the hooks of an event as a session would; their changes are dropped."""
    cwd, home = _cwd(), paths.home()
    given = _given(name)
    names = tuple(str(given[topic]) for topic in TOPICS if topic in given)
    names = tuple(known for name in names for known in other_names(name))
    config = load_config(home, cwd, environ=os.environ, flags={}).config
    place = open_workplace(config, home, cwd)
    sandbox = open_sandbox(config, place)
    common = {
        "session_id": "test",
        "transcript_path": "",
        "cwd": str(cwd),
        "permission_mode": "default",
    }
    failed, lines = False, []
    found = [one for one in _found(cwd).hooks if one.thing.event == event]
    for one in found:
        hook = one.thing
        if one.standing != "used":
            lines.append(f"{hook.item.name}: not run, it is {one.standing} (kode extensions trust)")
            continue
        if not hook.matches(names):
            lines.append(f"{hook.item.name}: not about {', '.join(names)}")
            continue
        line, required = line_of(event, common, given), config.sandbox.enabled is True
        grants = granted(hook, place)
        ran = await run_hook(hook, line, place, sandbox, required=required, grants=grants)
        answer = answer_of(hook, ran)
        failed |= bool(answer.message) or ran.exit_code not in (0, 2)
        ended = ran.fault or f"exit status {ran.exit_code}"
        lines.append(f"{hook.item.name}: {ended}, {ran.duration_ms} ms ({hook.command})")
        told = (
            ("decides", answer.outcome),
            ("because", answer.reason),
            ("for the model", answer.context),
            ("for you", answer.message),
            ("stderr", ran.stderr.strip()),
            ("makes of the call", "" if answer.updated is None else json.dumps(answer.updated)),
            ("sets", ", ".join(ran.variables)),
            ("in vain", lost_of(hook, ran)),
        )
        lines += [f"  {label}: {text}" for label, text in told if text]
    return Answer(
        lines=map(public, lines),
        empty=f"No hooks for {event} here. `kode extensions hooks list` lists all.",
        exit_code=EXIT_FAILED if failed else EXIT_OK,
    )


def _given(name: str | None) -> dict[str, Any]:
    """Reads `--input`. Raises: ConfigError."""
    if name is None:
        return {}
    try:
        value = json.loads(Path(name).read_bytes())
    except OSError as error:
        raise ConfigError(f"--input {name}: {error.strerror}. Name a file to read.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--input {name}: {error}. Give one JSON object.") from error
    if not isinstance(value, dict):
        raise ConfigError(f"--input {name}: it holds no JSON object.")
    return value

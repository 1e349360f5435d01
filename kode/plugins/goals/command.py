"""`/goal`, and the flags that begin a goal: `kode run --goal TEXT --verify CMD`."""

import argparse
import asyncio
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kode.plugin import (
    ConfigError,
    Opened,
    Parser,
    PluginEntry,
    Prompt,
    SessionError,
    UserError,
    is_turn,
    paths,
    read_session,
    session_path,
)
from kode.plugins.goals import words
from kode.plugins.goals.state import TYPE, current, goals_of

NAME = "/goal"
_FLAG = re.compile(r"(?:^|\s)--(verify|protect|review)(?=\s|=|$)[=\s]*")


def add_flags(parser: Parser) -> None:
    """Adds the flags of a goal."""
    add = parser.add_argument
    add("--goal", metavar="TEXT", help="work until --verify succeeds; limits are for all turns")
    add("--verify", metavar="CMD", help="the command that says whether the goal is reached")
    add(
        "--protect",
        metavar="PATTERN",
        action="append",
        help="what the goal may not change (default: the tests that CMD names); none",
    )


def task(arguments: argparse.Namespace, text: str | None, session_id: str | None) -> str | None:
    """The message that begins the goal of the flags, or resumes the one of the session. Raises:
    ConfigError."""
    given = vars(arguments)
    if given.get("goal"):
        if not given["verify"]:
            raise ConfigError("--goal needs a check: give --verify CMD with it.")
        value = {
            "text": given["goal"],
            "verify": given["verify"],
            "protect": given["protect"],
            "task": text or "",
        }
        typed = _typed(value)
        return f"{NAME} {typed or json.dumps(value, ensure_ascii=False)}"
    for flag in ("verify", "protect"):
        if given.get(flag):
            raise ConfigError(f"--{flag} belongs to a goal: give --goal TEXT with it.")
    if session_id is None or (text or "").strip():
        return text
    home = paths.home()
    try:
        _, entries, _ = read_session(session_path(home, session_id))
    except SessionError:
        return text
    own = [one.value for one in entries if isinstance(one, PluginEntry) and one.type == TYPE]
    if current(own) is not None:
        return f"{NAME} resume"
    from kode.plugin import unsent

    turns = sum(map(is_turn, entries))
    waiting = unsent.of(home, session_id, turns)
    return waiting if waiting.startswith(f"{NAME} ") else text


async def goal(opened: Opened, argument: str) -> str | Prompt:
    """`/goal`: shows the goal, begins or resumes one, or stops it. Raises: UserError,
    StorageError."""
    now = current(opened.records())
    word = argument.strip()
    if not word:
        goals = goals_of(opened.records())
        if goals:
            return words.as_it_is(words.summary(goals[-1]))
        return "No goal. /goal TEXT --verify CMD begins one."
    if word == "stop":
        if now is None:
            return "No goal is pursued."
        _end(opened, "stopped by the person")
        return "The goal is no longer pursued. What was done stays; /undo takes back a turn."
    if word == "resume":
        if now is None:
            raise UserError("There is no goal to resume. /goal TEXT --verify CMD begins one.")
        return Prompt(text=words.RESUME)
    value = _given(word)
    if now is not None:
        _end(opened, "another goal took its place")
    return await begin(opened, value)


async def begin(opened: Opened, value: Mapping[str, Any]) -> Prompt:
    """Records a goal; returns the message of its first turn. Raises: StorageError."""
    number = len(goals_of(opened.records())) + 1
    patterns = value["protect"]
    protect = None if not patterns else [one for one in patterns if one != "none"]
    record = {
        "goal": number,
        "text": value["text"],
        "verify": value["verify"],
        "guard": await _guarded(opened, value["verify"], protect),
        "limits": limits_of(opened),
        "before_usd": opened.session.cost_usd,
    }
    opened.record(record)
    found = current(opened.records())
    assert found is not None
    return Prompt(text=_paragraphs(value["task"], words.goal_text(found)))


async def _guarded(
    opened: Opened, command: str, protect: Sequence[str] | None
) -> Mapping[str, Any]:
    """What a check guards, with a copy of each file. Raises: StorageError."""
    from kode.plugins.goals.guard import copies, keep_copies, make_guard

    guard = await asyncio.to_thread(make_guard, command, protect, opened.place)
    if (folder := copies(opened)) is not None:
        await asyncio.to_thread(keep_copies, guard, opened.place, folder)
    return asdict(guard)


def limits_of(opened: Opened) -> dict[str, float]:
    """The limits that the person has set, for the whole goal."""
    config = opened.config
    steps = config.max_steps if config.max_steps != type(config)().max_steps else None
    given = {"requests": steps, "usd": config.max_budget_usd, "seconds": config.timeout_s}
    return {name: value for name, value in given.items() if value is not None}


def _end(opened: Opened, why: str) -> None:
    opened.record({"ended": "not_reached", "error": f"The goal was not reached: {why}."})


def _given(text: str) -> dict[str, Any]:
    """What a person typed: TEXT, `--verify CMD` up to the next flag or empty line, `--protect
    PATTERN`; or the object of `task`. What follows is another message, which had not been sent.
    Raises: UserError."""
    value: Any
    if text.startswith("{"):
        try:
            value, end = json.JSONDecoder().raw_decode(text)
        except ValueError:
            value = None
        if isinstance(value, dict) and {"text", "verify", "protect"} <= value.keys():
            return {**value, "task": _paragraphs(value.get("task"), text[end:])}
    parts = _FLAG.split(text)
    value = {"text": parts[0].strip(), "verify": "", "protect": None, "task": ""}
    for flag, given in zip(parts[1::2], parts[2::2], strict=True):
        given, _, rest = given.partition("\n\n")
        value["task"] = _paragraphs(value["task"], rest)
        if flag == "verify":
            value["verify"] = _unquoted(given)
        elif flag == "protect":
            value["protect"] = [*(value["protect"] or []), _unquoted(given)]
        else:
            raise UserError(f"/goal: unknown flag --{flag}. It has --verify and --protect.")
    if not value["text"] or not value["verify"]:
        raise UserError("A goal needs words and a check: /goal TEXT --verify CMD")
    return dict(value)


def _paragraphs(*texts: str | None) -> str:
    return "\n\n".join(one.strip() for one in texts if one and one.strip())


def _typed(value: Mapping[str, Any]) -> str:
    """What a person would type for it, which the screen shows; "" where that says something else,
    for instance of a goal whose text has a flag in it."""
    verify = f"--verify {shlex.quote(value['verify'])}"
    protect = [f"--protect {shlex.quote(one)}" for one in value["protect"] or ()]
    text = " ".join((value["text"], verify, *protect))
    try:
        known = _given(text) == value and text not in ("stop", "resume")
    except UserError:
        return ""
    return text if known else ""


def _unquoted(text: str) -> str:
    """A value that stands in quotes as a whole, without them; any other as it is."""
    stripped = text.strip()
    try:
        if stripped[:1] in ("'", '"') and len(found := shlex.split(stripped)) == 1:
            return found[0]
    except ValueError:
        pass
    return stripped

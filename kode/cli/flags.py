"""The flags that `run`, `continue` and the REPL share, and what they set in the configuration."""

import argparse
import gc
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.cli.parser import Parser
from kode.errors import ConfigError
from kode.registry import provider_names

if TYPE_CHECKING:
    from kode.contracts import PermissionMode

FORMATS = ("text", "json", "stream-json")

MODE_MEANS: "dict[PermissionMode, str]" = {
    "ask": "Edits ask. Commands are tried in the sandbox; what changes, sends or destroys asks.",
    "auto-edit": "Edits inside the project run, and what commands change in it; the rest asks.",
    "plan": "Nothing is changed: commands run in the sandbox, on a copy that is thrown away.",
    "full": "All runs, outside the sandbox too, but what a rule names, keys, and what destroys.",
}
"""Each permission mode in a person's words. What each lets run is `kode.permissions.decide`."""

MODES = tuple(MODE_MEANS)


def add_conversation_flags(parser: Parser) -> None:
    """Adds every flag they share; each is None or empty when it was not given."""
    add = parser.add_argument
    add("--model", metavar="M", help="the model to ask")
    add("--provider", choices=provider_names(), help="whose wire format to speak")
    add("--base-url", metavar="URL", help="another server that speaks the provider's format")
    add("--script", metavar="FILE", help="the script that the provider `scripted` plays")
    add("--max-steps", metavar="N", type=whole, help="requests to the model a turn (90)")
    add("--max-budget-usd", metavar="X", type=amount, help="end the turn when this is spent")
    add("--timeout", metavar="S", type=seconds, help="end the turn after so many seconds")
    add("--system", metavar="TEXT", help="replace kode's own system prompt")
    add("--append-system", metavar="TEXT", help="add to the system prompt")
    add("--permission-mode", choices=MODES, help="ask (default), auto-edit, plan or full")
    add("--allow", metavar="RULE", action="append", default=[], help="as 'shell(pytest:*)'")
    add("--deny", metavar="RULE", action="append", default=[], help="as 'edit(secrets/**)'")
    add(
        "--ctx", metavar="FILE[,FILE]", action="append", default=[], help="attach; folders as lists"
    )
    add("--add-dir", metavar="DIR", action="append", default=[], help="work there too")
    add("--sandbox", action="store_true", help="keep commands in the sandbox, in mode full too")
    add("--output-format", choices=FORMATS, default=None, help="text (default), json, stream-json")
    add("--no-session", action="store_true", help="keep nothing on disk of this session")
    add("--no-memory", action="store_true", help="neither read nor write memory")
    add("--memory", metavar="SYSTEM", help="the memory system: tiered, vault, journal, notes")
    add("--no-agents", action="store_true", help="skip AGENTS.md")
    add("--cwd", metavar="DIR", help="work in this directory")
    add("--quiet", action="store_true", help="no progress on stderr")
    add("--verbose", action="store_true", help="more on stderr: thinking, tool output")
    add("--no-color", action="store_true", help="no colours (also: NO_COLOR)")


def config_flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the given flags set, by dotted config key."""
    keys = {
        "model": arguments.model,
        "provider": arguments.provider,
        "base_url": arguments.base_url,
        "script": arguments.script,
        "max_steps": arguments.max_steps,
        "max_budget_usd": arguments.max_budget_usd,
        "timeout_s": arguments.timeout,
        "system": arguments.system,
        "append_system": arguments.append_system,
        "permissions.mode": arguments.permission_mode,
        "permissions.allow": arguments.allow or None,
        "permissions.deny": arguments.deny or None,
        "add_dirs": arguments.add_dir or None,
        "sandbox.enabled": True if arguments.sandbox else None,
        "memory.system": arguments.memory,
        "memory.enabled": False if arguments.no_memory else None,
        "agents_files": False if arguments.no_agents else None,
    }
    return {key: value for key, value in keys.items() if value is not None}


def working_directory(arguments: argparse.Namespace) -> Path:
    """The directory of `--cwd`, else the current one.

    Raises: ConfigError when it is not there.
    """
    try:
        folder = Path(arguments.cwd or ".").expanduser().resolve(strict=True)
    except (OSError, RuntimeError) as error:
        where = arguments.cwd or "the working directory"
        raise ConfigError(
            f"{where} is not there. Change to a directory that exists, or name one with --cwd."
        ) from error
    if not folder.is_dir():
        raise ConfigError(f"--cwd {arguments.cwd}: not a directory. Name a directory.")
    return folder


def whole(text: str) -> int:
    """A whole number from 1."""
    return int(_number(text, int, "a whole number from 1", lambda value: value >= 1))


def seconds(text: str) -> float:
    """A number of seconds above 0."""
    return _number(text, float, "a number of seconds above 0", lambda value: value > 0)


def amount(text: str) -> float:
    """An amount of money above 0."""
    return _number(text, float, "an amount above 0", lambda value: value > 0)


def _number(
    text: str, kind: Callable[[str], float], allowed: str, fits: Callable[[float], bool]
) -> float:
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not fits(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not {allowed}")
    return value


def started() -> None:
    """Start-up is over: what was imported is never looked through again, what comes is."""
    gc.freeze()
    gc.enable()

"""The flags shared by `run`, `continue` and the REPL, and the configuration they set."""

import argparse
import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import paths
from kode.cli.parser import Parser
from kode.errors import ConfigError
from kode.permissions.names import MODE_CALLED, MODE_MEANS, split_rules
from kode.provider import EFFORTS

if TYPE_CHECKING:
    from kode.extensions.mcp_config import ServerEntry

FORMATS = ("text", "json", "stream-json")

MODES = tuple(MODE_MEANS)
SCRIPTED = "scripted"
FIRST_FLAGS = {
    "Model": "--model --effort",
    "Permissions": "--permission-mode --allow --deny --add-dir",
    "Session": "--id --worktree --no-memory",
    "Input and output": "--ctx --output-format --json-schema",
    "Goal and limits": "--goal --verify --max-steps --max-budget-usd --timeout",
}


def add_conversation_flags(parser: Parser) -> None:
    """Adds the flags of a conversation. The attribute of a flag that was not given, or that this
    parser lacks, is falsy."""
    parser.set_defaults(record=None, replay=None, session_id=None, piped=(), screen=None)
    add_setting_flags(parser)
    parser.first_flags = FIRST_FLAGS
    several = {"action": "append", "default": []}
    parser.add_flags(
        ("--ctx FILE[,FILE]", "attach files (folders: as a listing)", several),
        ("--mcp-config FILE", "MCP servers: file, JSON", several),
        ("--plugin FILE", "use the plug-in in this file, for this run", several),
        ("--output-format FORMAT", "text (default), json, stream-json", {"choices": FORMATS}),
        ("--input-format FORMAT", "stream-json: messages on stdin", {"choices": FORMATS[::2]}),
        ("--json-schema FILE", "answer with JSON that fits this schema"),
        ("--name NAME", "what `kode -r NAME` finds the session by", {"type": _check_name}),
        ("--no-session", "do not save this session"),
        ("--cwd DIR", "work in this directory"),
        ("--ask", "`run`: ask before what needs permission"),
        ("--quiet", "no progress on stderr"),
        ("--verbose", "more on stderr: thinking, tool output"),
        ("--no-color", "no colours (also: NO_COLOR)"),
        ("--plain", "for screen readers and logs: no colour, no drawing"),
    )


def _check_name(text: str) -> str:
    from kode.session.index import name_from

    return name_from(text)


def add_setting_flags(parser: Parser) -> Callable[[argparse.Namespace], dict[str, Any]]:
    """Adds the flags for settings and trust; returns `config_flags`, which reads them."""
    add_model_flags(parser)
    parser.add_flags(
        ("--max-steps N", "maximum model requests per turn (90)", {"type": "whole"}),
        ("--max-budget-usd X", "spending limit per turn", {"type": "amount"}),
        ("--shared-budget FILE", "a budget file shared by several kodes"),
        ("--timeout S", "time limit per turn, in seconds", {"type": "seconds"}),
        ("--system TEXT", "replace kode's own system prompt"),
        ("--append-system TEXT", "add to the system prompt"),
    )
    add_permission_flags(parser)
    parser.add_flags(
        ("--add-dir DIR", "also work in this folder", {"action": "append", "default": []}),
        ("--trust-project", "use the repository's extensions without approval"),
        ("--sandbox", "run commands only in a sandbox, in mode full too"),
        ("--no-memory", "do not read or write memory"),
        ("--memory SYSTEM", "the memory system: tiered, vault, journal, notes"),
        ("--no-agents", "do not read AGENTS.md and similar files"),
    )
    _add_other_names(parser)
    return config_flags


def add_model_flags(parser: Parser) -> None:
    """Adds the flags that choose the model."""
    parser.add_flags(
        ("--model M", "the model to use"),
        ("--provider PROVIDER", "openai, anthropic, ollama, ... or your own"),
        ("--base-url URL", "another server that speaks the provider's format"),
        ("--effort LEVEL", "how much it thinks: none ... max", {"choices": EFFORTS}),
        ("--script FILE", "the script that the provider `scripted` plays"),
    )


def add_permission_flags(parser: Parser) -> None:
    """Adds the flags for the permission mode and the rules."""
    kode_name = lambda name: MODE_CALLED.get(name, name)  # noqa: E731
    rules = {"action": "append", "default": []}
    modes = {"type": kode_name, "choices": MODES}
    parser.add_flags(
        ("--permission-mode MODE", "ask (default), auto-edit, plan or full", modes),
        ("--allow RULE", "allow without asking, e.g. 'shell(pytest:*)'", rules),
        ("--deny RULE", "never allow, e.g. 'edit(secrets/**)'", rules),
    )


def _add_other_names(parser: Parser) -> None:
    """Adds flags that people know from other agents; help does not list them."""
    add = partial(parser.add_argument, help=argparse.SUPPRESS, default=argparse.SUPPRESS)
    add("-m", dest="model", metavar="M")
    add("--max-turns", dest="max_steps", metavar="N", type="whole")
    add("--reasoning-effort", dest="effort", metavar="LEVEL", choices=EFFORTS)
    add("--system-prompt", dest="system", metavar="TEXT")
    add("--append-system-prompt", dest="append_system", metavar="TEXT")
    add("--settings", metavar="FILE")
    add("--fallback-model", metavar="M")
    for name in ("--yolo", "--dangerously-skip-permissions"):
        add(name, dest="permission_mode", action="store_const", const="full")
    rules: dict[str, Any] = {"metavar": "RULES", "action": "extend", "type": split_rules}
    add("--allowedTools", "--allowed-tools", dest="allow", **rules)
    add("--disallowedTools", "--disallowed-tools", dest="deny", **rules)


def read_servers(arguments: argparse.Namespace, cwd: Path) -> "list[ServerEntry]":
    """The MCP servers of `--mcp-config`. Raises: ConfigError."""
    if not arguments.mcp_config:
        return []
    from kode.extensions.mcp_config import read_named_servers

    return [entry for text in arguments.mcp_config for entry in read_named_servers(text, cwd)]


def config_flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the settings that the given flags make, by dotted key; flags that were not given are
    left out. A script overrides the configured provider.

    Raises: ConfigError for a script with another provider than `scripted`.
    """
    get = vars(arguments).get
    provider = get("provider")
    if get("script") and provider not in (None, SCRIPTED):
        raise ConfigError(f"--script needs the provider scripted, not {provider}. Drop one.")
    alike = (
        "model base_url effort script max_steps max_budget_usd shared_budget system append_system "
        "fallback_model settings"
    )
    keys = {
        **{name: get(name) for name in alike.split()},
        "provider": SCRIPTED if get("script") else provider,
        "timeout_s": get("timeout"),
        "permissions.mode": get("permission_mode"),
        "permissions.allow": get("allow") or None,
        "permissions.deny": get("deny") or None,
        "add_dirs": get("add_dir") or None,
        "sandbox.enabled": True if get("sandbox") else None,
        "memory.system": get("memory"),
        "memory.enabled": False if get("no_memory") else None,
        "agents_files": False if get("no_agents") else None,
        "repl.plain": True if get("plain") else None,
    }
    return {key: value for key, value in keys.items() if value is not None}


def working_directory(arguments: argparse.Namespace) -> Path:
    """The directory of `--cwd`, else the current one. Raises: ConfigError if there is none."""
    return directory(arguments.cwd)


def directory(name: str | None = None, flag: str = "--cwd") -> Path:
    """Resolves the directory that a flag names, else the current one. Raises: ConfigError if that
    does not exist or is no directory."""
    try:
        folder = paths.expand_path(name or ".").resolve(strict=True)
    except (OSError, RuntimeError) as error:
        where = name or "the working directory"
        raise ConfigError(
            f"{where} does not exist. Change to a directory that does, or name one with {flag}."
        ) from error
    if not folder.is_dir():
        raise ConfigError(f"{flag} {name}: not a directory. Name a directory.")
    return folder


def finish_startup() -> None:
    """Ends start-up: excludes everything imported from garbage collection, which starts now."""
    gc.freeze()
    gc.enable()

"""What a plug-in may use of kode, and what it may add: `from kode.plugin import Plugin, paths`.

Everything here keeps its meaning within a major version; nothing else of kode is public to a
plug-in, kode's own included. Each name is imported on first use, so that a plug-in costs nothing
before it is needed. `docs/plugins.md` explains them by examples.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kode import durable as durable
    from kode import extras as extras
    from kode import paths as paths
    from kode.cli.commands.diagnosis import Finding as Finding
    from kode.cli.flags import working_directory as working_directory
    from kode.cli.parser import Parser as Parser
    from kode.cli.parser import command_of as command_of
    from kode.cli.screen.lines import clean as clean
    from kode.cli.screen.lines import cost_text as cost_text
    from kode.cli.screen.lines import money as money
    from kode.cli.screen.lines import one_line as one_line
    from kode.cli.screen.output import to_json as to_json
    from kode.config import given_prices as given_prices
    from kode.config import load_config as load_config
    from kode.conversation.plugged import Opened as Opened
    from kode.conversation.plugged import Prompt as Prompt
    from kode.conversation.plugged import Subscriber as Subscriber
    from kode.function_tool import tool as tool
    from kode.installed import Command as Command
    from kode.installed import Plugin as Plugin
    from kode.memory.base import NullMemory as NullMemory
    from kode.memory.history import Change as _MemoryChange
    from kode.memory.history import History as _MemoryHistory
    from kode.providers.models import pricing as pricing
    from kode.registry import Dialect as Dialect
    from kode.registry import ProviderRow as ProviderRow
    from kode.registry import ProviderSettings as ProviderSettings
    from kode.session.index import Summary as _SessionSummary
    from kode.session.index import files as _session_files
    from kode.session.index import find as _find_session
    from kode.session.index import newest as _newest_session
    from kode.session.index import summarize as _summarize_session
    from kode.session.log import Session as Session
    from kode.session.log import writable_path as writable_path
    from kode.session.reading import read as _read_session
    from kode.session.reading import session_path as session_path
    from kode.session.requests import digest_of as digest_of
    from kode.session.requests import message_bytes as message_bytes
    from kode.session.requests import part_object as part_object
    from kode.session.sent import Piece as _SentPiece
    from kode.session.sent import Sent as Sent
    from kode.session.sent import pieces as _sent_pieces
    from kode.session.sent import requests_of as requests_of
    from kode.session.spending import Spending as Spending
    from kode.session.spending import Spent as Spent
    from kode.session.spending import Step as Step
    from kode.session.spending import requests_by_folder as requests_by_folder
    from kode.session.spending import spending_of as spending_of
    from kode.session.spending import step_of as step_of
    from kode.session.spending import total as _total_spent

    MemoryChange = _MemoryChange
    MemoryHistory = _MemoryHistory
    SessionSummary = _SessionSummary
    session_files = _session_files
    find_session = _find_session
    newest_session = _newest_session
    summarize_session = _summarize_session
    read_session = _read_session
    SentPiece = _SentPiece
    sent_pieces = _sent_pieces
    total_spent = _total_spent

HOMES = {
    "clean": "kode.cli.screen.lines:clean",
    "Command": "kode.installed:Command",
    "command_of": "kode.cli.parser:command_of",
    "cost_text": "kode.cli.screen.lines:cost_text",
    "Dialect": "kode.registry:Dialect",
    "digest_of": "kode.session.requests:digest_of",
    "durable": "kode.durable",
    "extras": "kode.extras",
    "find_session": "kode.session.index:find",
    "Finding": "kode.cli.commands.diagnosis:Finding",
    "given_prices": "kode.config:given_prices",
    "load_config": "kode.config:load_config",
    "MemoryChange": "kode.memory.history:Change",
    "MemoryHistory": "kode.memory.history:History",
    "message_bytes": "kode.session.requests:message_bytes",
    "money": "kode.cli.screen.lines:money",
    "newest_session": "kode.session.index:newest",
    "NullMemory": "kode.memory.base:NullMemory",
    "one_line": "kode.cli.screen.lines:one_line",
    "Opened": "kode.conversation.plugged:Opened",
    "Parser": "kode.cli.parser:Parser",
    "part_object": "kode.session.requests:part_object",
    "paths": "kode.paths",
    "Plugin": "kode.installed:Plugin",
    "pricing": "kode.providers.models:pricing",
    "Prompt": "kode.conversation.plugged:Prompt",
    "ProviderRow": "kode.registry:ProviderRow",
    "ProviderSettings": "kode.registry:ProviderSettings",
    "read_session": "kode.session.reading:read",
    "requests_by_folder": "kode.session.spending:requests_by_folder",
    "requests_of": "kode.session.sent:requests_of",
    "Sent": "kode.session.sent:Sent",
    "sent_pieces": "kode.session.sent:pieces",
    "SentPiece": "kode.session.sent:Piece",
    "Session": "kode.session.log:Session",
    "session_files": "kode.session.index:files",
    "session_path": "kode.session.reading:session_path",
    "SessionSummary": "kode.session.index:Summary",
    "Spending": "kode.session.spending:Spending",
    "spending_of": "kode.session.spending:spending_of",
    "Spent": "kode.session.spending:Spent",
    "Step": "kode.session.spending:Step",
    "step_of": "kode.session.spending:step_of",
    "Subscriber": "kode.conversation.plugged:Subscriber",
    "summarize_session": "kode.session.index:summarize",
    "to_json": "kode.cli.screen.output:to_json",
    "tool": "kode.function_tool:tool",
    "total_spent": "kode.session.spending:total",
    "working_directory": "kode.cli.flags:working_directory",
    "writable_path": "kode.session.log:writable_path",
}
"""Public name → where it is defined: a module, or "module:name"."""

__all__ = [*HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    if name not in HOMES:
        raise AttributeError(f"module 'kode.plugin' has no attribute {name!r}")
    import pkgutil

    found: object = pkgutil.resolve_name(HOMES[name])
    return globals().setdefault(name, found)


def __dir__() -> list[str]:
    return sorted(HOMES)

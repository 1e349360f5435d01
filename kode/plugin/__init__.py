"""What a plug-in may use of kode, and what it may add: `from kode.plugin import Plugin, paths`.

Everything here keeps its meaning within a major version; nothing else of kode is public to a
plug-in, kode's own included. Each name is imported on first use, so that a plug-in costs nothing
before it is needed. `docs/plugins.md` explains them by examples.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kode import __version__ as _kode_version
    from kode import beneath as beneath
    from kode import credentials as credentials
    from kode import durable as durable
    from kode import extras as extras
    from kode import fault_reports as fault_reports
    from kode import paths as paths
    from kode import programs as programs
    from kode import sealed as sealed
    from kode.assembly import run_check as run_check
    from kode.broken_json import object_of as object_of
    from kode.cli.commands.diagnosis import Finding as Finding
    from kode.cli.commands.init import main as _run_setup
    from kode.cli.flags import add_setting_flags as add_setting_flags
    from kode.cli.flags import config_flags as config_flags
    from kode.cli.flags import directory as directory
    from kode.cli.flags import finish_startup as finish_startup
    from kode.cli.flags import working_directory as working_directory
    from kode.cli.parser import Parser as Parser
    from kode.cli.parser import command_of as command_of
    from kode.cli.prompt.attach import read_mentioned as read_mentioned
    from kode.cli.prompt.mentions import write_mention as write_mention
    from kode.cli.screen.lines import cost_text as cost_text
    from kode.cli.screen.lines import money as money
    from kode.cli.screen.lines import one_line as one_line
    from kode.cli.screen.printer import print_either as print_either
    from kode.config import Config as Config
    from kode.config import Loaded as Loaded
    from kode.config import given_prices as given_prices
    from kode.config import load_config as load_config
    from kode.config import resolve_provider as resolve_provider
    from kode.config.faults import must_be as must_be
    from kode.config.plugin_pages import Page as Page
    from kode.config.plugin_pages import Place as Place
    from kode.config.plugin_pages import pages as _plugin_pages
    from kode.conversation import Conversation as Conversation
    from kode.conversation import open_conversation as open_conversation
    from kode.conversation.attachments import MAX_ATTACHED_BYTES as MAX_ATTACHED_BYTES
    from kode.conversation.attachments import file_part as file_part
    from kode.conversation.bare import BareSession as BareSession
    from kode.conversation.memory import open_configured as _open_memory
    from kode.conversation.memory import outside_context as outside_context
    from kode.conversation.plugged import Opened as Opened
    from kode.conversation.plugged import Prompt as Prompt
    from kode.engine.act import parts_of as parts_of
    from kode.engine.act import subject_of as subject_of
    from kode.extensions import familiar_calls as _calling
    from kode.extensions.mcp_config import Entry as _McpServerEntry
    from kode.extensions.mcp_values import Field as _FormField
    from kode.extensions.mcp_values import Form as Form
    from kode.function_tool import tool as tool
    from kode.installed import Command as Command
    from kode.installed import ExportFile as ExportFile
    from kode.installed import Plugin as Plugin
    from kode.interrupts import cancelled_by_signals as cancelled_by_signals
    from kode.memory import waiting as _memory_waiting
    from kode.memory.base import NullMemory as NullMemory
    from kode.memory.change import Author as _MemoryAuthor
    from kode.memory.change import Change as _MemoryChange
    from kode.memory.commands import memory_command as memory_command
    from kode.memory.foreign import Entry as _ForeignEntry
    from kode.memory.foreign import Reading as _ForeignReading
    from kode.memory.foreign import Source as _ForeignSource
    from kode.memory.frame import wrap as _frame_memory
    from kode.memory.history import History as _MemoryHistory
    from kode.memory.overview import overview as _memory_overview
    from kode.memory.review import decide as _decide_memory
    from kode.permissions.gate import Answer as Answer
    from kode.permissions.gate import Question as Question
    from kode.permissions.gate import visible as visible
    from kode.permissions.gate import ways_to_allow as ways_to_allow
    from kode.permissions.tool_names import verbs_of as verbs_of
    from kode.pictures import Picture as Picture
    from kode.pictures import fitting as _fitting_picture
    from kode.plain_text import clean as clean
    from kode.providers import models as models
    from kode.providers.listing import Listing as _ModelListing
    from kode.registry import Dialect as Dialect
    from kode.registry import ProviderRow as ProviderRow
    from kode.registry import ProviderSettings as ProviderSettings
    from kode.results import result_object as result_object
    from kode.session.checkpoints import FileChanges as FileChanges
    from kode.session.export import readable_arguments as readable_arguments
    from kode.session.git import environment as _git_environment
    from kode.session.git import run_git as run_git
    from kode.session.index import Summary as _SessionSummary
    from kode.session.index import files as _session_files
    from kode.session.index import find as _find_session
    from kode.session.index import list_sessions as list_sessions
    from kode.session.index import newest as _newest_session
    from kode.session.index import summarize as _summarize_session
    from kode.session.log import Session as Session
    from kode.session.log import writable_path as writable_path
    from kode.session.plan import read_plan as read_plan
    from kode.session.plan import steps_of as _plan_steps
    from kode.session.plan import write_plan as write_plan
    from kode.session.reading import read as _read_session
    from kode.session.reading import session_path as session_path
    from kode.session.requests import digest_of as digest_of
    from kode.session.search import search as _search_sessions
    from kode.session.spending import Spending as Spending
    from kode.session.spending import Spent as Spent
    from kode.session.spending import Step as Step
    from kode.session.spending import last_turn as last_turn
    from kode.session.spending import requests_by_folder as requests_by_folder
    from kode.session.spending import spending_of as spending_of
    from kode.session.spending import step_of as step_of
    from kode.session.spending import total as _total_spent
    from kode.session.transcript import Call as _TranscriptCall
    from kode.session.transcript import Item as _TranscriptItem
    from kode.session.transcript import Transcript as Transcript
    from kode.session.upkeep import fork as _fork_session
    from kode.shared_budget import SharedBudget as SharedBudget
    from kode.subagents.records import Record as _SubagentRecord
    from kode.subagents.records import records as _subagent_records
    from kode.tools import processes as processes
    from kode.tools.builtin import BUILTIN as _builtin_tools
    from kode.tools.program import run_program as run_program
    from kode.workplace import Workplace as Workplace

    kode_version = _kode_version
    plugin_pages = _plugin_pages
    open_memory = _open_memory
    calling = _calling
    McpServerEntry = _McpServerEntry
    FormField = _FormField
    memory_waiting = _memory_waiting
    ForeignEntry = _ForeignEntry
    ForeignReading = _ForeignReading
    ForeignSource = _ForeignSource
    frame_memory = _frame_memory
    MemoryAuthor = _MemoryAuthor
    MemoryChange = _MemoryChange
    MemoryHistory = _MemoryHistory
    memory_overview = _memory_overview
    decide_memory = _decide_memory
    ModelListing = _ModelListing
    fitting_picture = _fitting_picture
    git_environment = _git_environment
    SessionSummary = _SessionSummary
    run_setup = _run_setup
    session_files = _session_files
    find_session = _find_session
    newest_session = _newest_session
    summarize_session = _summarize_session
    plan_steps = _plan_steps
    read_session = _read_session
    search_sessions = _search_sessions
    total_spent = _total_spent
    TranscriptCall = _TranscriptCall
    TranscriptItem = _TranscriptItem
    fork_session = _fork_session
    SubagentRecord = _SubagentRecord
    subagent_records = _subagent_records
    builtin_tools = _builtin_tools

HOMES = {
    "add_setting_flags": "kode.cli.flags:add_setting_flags",
    "Answer": "kode.permissions.gate:Answer",
    "BareSession": "kode.conversation.bare:BareSession",
    "beneath": "kode.beneath",
    "builtin_tools": "kode.tools.builtin:BUILTIN",
    "calling": "kode.extensions.familiar_calls",
    "cancelled_by_signals": "kode.interrupts:cancelled_by_signals",
    "clean": "kode.plain_text:clean",
    "Command": "kode.installed:Command",
    "command_of": "kode.cli.parser:command_of",
    "Config": "kode.config:Config",
    "config_flags": "kode.cli.flags:config_flags",
    "Conversation": "kode.conversation:Conversation",
    "cost_text": "kode.cli.screen.lines:cost_text",
    "credentials": "kode.credentials",
    "decide_memory": "kode.memory.review:decide",
    "Dialect": "kode.registry:Dialect",
    "digest_of": "kode.session.requests:digest_of",
    "directory": "kode.cli.flags:directory",
    "durable": "kode.durable",
    "ExportFile": "kode.installed:ExportFile",
    "extras": "kode.extras",
    "fault_reports": "kode.fault_reports",
    "file_part": "kode.conversation.attachments:file_part",
    "FileChanges": "kode.session.checkpoints:FileChanges",
    "find_session": "kode.session.index:find",
    "Finding": "kode.cli.commands.diagnosis:Finding",
    "finish_startup": "kode.cli.flags:finish_startup",
    "fitting_picture": "kode.pictures:fitting",
    "ForeignEntry": "kode.memory.foreign:Entry",
    "ForeignReading": "kode.memory.foreign:Reading",
    "ForeignSource": "kode.memory.foreign:Source",
    "fork_session": "kode.session.upkeep:fork",
    "Form": "kode.extensions.mcp_values:Form",
    "FormField": "kode.extensions.mcp_values:Field",
    "frame_memory": "kode.memory.frame:wrap",
    "git_environment": "kode.session.git:environment",
    "given_prices": "kode.config:given_prices",
    "kode_version": "kode:__version__",
    "last_turn": "kode.session.spending:last_turn",
    "list_sessions": "kode.session.index:list_sessions",
    "load_config": "kode.config:load_config",
    "Loaded": "kode.config:Loaded",
    "MAX_ATTACHED_BYTES": "kode.conversation.attachments:MAX_ATTACHED_BYTES",
    "McpServerEntry": "kode.extensions.mcp_config:Entry",
    "memory_command": "kode.memory.commands:memory_command",
    "memory_overview": "kode.memory.overview:overview",
    "memory_waiting": "kode.memory.waiting",
    "MemoryAuthor": "kode.memory.change:Author",
    "MemoryChange": "kode.memory.change:Change",
    "MemoryHistory": "kode.memory.history:History",
    "ModelListing": "kode.providers.listing:Listing",
    "models": "kode.providers.models",
    "money": "kode.cli.screen.lines:money",
    "must_be": "kode.config.faults:must_be",
    "newest_session": "kode.session.index:newest",
    "NullMemory": "kode.memory.base:NullMemory",
    "object_of": "kode.broken_json:object_of",
    "one_line": "kode.cli.screen.lines:one_line",
    "open_conversation": "kode.conversation:open_conversation",
    "open_memory": "kode.conversation.memory:open_configured",
    "Opened": "kode.conversation.plugged:Opened",
    "outside_context": "kode.conversation.memory:outside_context",
    "Page": "kode.config.plugin_pages:Page",
    "Parser": "kode.cli.parser:Parser",
    "parts_of": "kode.engine.act:parts_of",
    "paths": "kode.paths",
    "Picture": "kode.pictures:Picture",
    "Place": "kode.config.plugin_pages:Place",
    "plan_steps": "kode.session.plan:steps_of",
    "Plugin": "kode.installed:Plugin",
    "plugin_pages": "kode.config.plugin_pages:pages",
    "print_either": "kode.cli.screen.printer:print_either",
    "processes": "kode.tools.processes",
    "programs": "kode.programs",
    "Prompt": "kode.conversation.plugged:Prompt",
    "ProviderRow": "kode.registry:ProviderRow",
    "ProviderSettings": "kode.registry:ProviderSettings",
    "Question": "kode.permissions.gate:Question",
    "read_mentioned": "kode.cli.prompt.attach:read_mentioned",
    "read_plan": "kode.session.plan:read_plan",
    "read_session": "kode.session.reading:read",
    "readable_arguments": "kode.session.export:readable_arguments",
    "requests_by_folder": "kode.session.spending:requests_by_folder",
    "resolve_provider": "kode.config:resolve_provider",
    "result_object": "kode.results:result_object",
    "run_check": "kode.assembly:run_check",
    "run_setup": "kode.cli.commands.init:main",
    "run_program": "kode.tools.program:run_program",
    "run_git": "kode.session.git:run_git",
    "sealed": "kode.sealed",
    "search_sessions": "kode.session.search:search",
    "Session": "kode.session.log:Session",
    "session_files": "kode.session.index:files",
    "session_path": "kode.session.reading:session_path",
    "SessionSummary": "kode.session.index:Summary",
    "SharedBudget": "kode.shared_budget:SharedBudget",
    "Spending": "kode.session.spending:Spending",
    "spending_of": "kode.session.spending:spending_of",
    "Spent": "kode.session.spending:Spent",
    "Step": "kode.session.spending:Step",
    "step_of": "kode.session.spending:step_of",
    "subagent_records": "kode.subagents.records:records",
    "SubagentRecord": "kode.subagents.records:Record",
    "subject_of": "kode.engine.act:subject_of",
    "summarize_session": "kode.session.index:summarize",
    "tool": "kode.function_tool:tool",
    "total_spent": "kode.session.spending:total",
    "Transcript": "kode.session.transcript:Transcript",
    "TranscriptCall": "kode.session.transcript:Call",
    "TranscriptItem": "kode.session.transcript:Item",
    "verbs_of": "kode.permissions.tool_names:verbs_of",
    "visible": "kode.permissions.gate:visible",
    "ways_to_allow": "kode.permissions.gate:ways_to_allow",
    "Workplace": "kode.workplace:Workplace",
    "working_directory": "kode.cli.flags:working_directory",
    "writable_path": "kode.session.log:writable_path",
    "write_mention": "kode.cli.prompt.mentions:write_mention",
    "write_plan": "kode.session.plan:write_plan",
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

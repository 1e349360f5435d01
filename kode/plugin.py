"""What a plug-in may use of kode, and what it may add: `from kode.plugin import Plugin, Tool`.

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
    from kode.assembly import open_sandbox as open_sandbox
    from kode.assembly import run_check as run_check
    from kode.broken_json import object_of as object_of
    from kode.cli.commands.diagnosis import Finding as Finding
    from kode.cli.commands.init import main as _run_setup
    from kode.cli.commands.opening import open_prompt as open_prompt
    from kode.cli.commands.run import RunOptions as RunOptions
    from kode.cli.commands.run import parse_run_options as parse_run_options
    from kode.cli.flags import add_setting_flags as add_setting_flags
    from kode.cli.flags import config_flags as config_flags
    from kode.cli.flags import directory as directory
    from kode.cli.flags import finish_startup as finish_startup
    from kode.cli.flags import working_directory as working_directory
    from kode.cli.parser import Parser as Parser
    from kode.cli.parser import command_of as command_of
    from kode.cli.prompt.attach import read_mentioned as read_mentioned
    from kode.cli.prompt.files import list_files as list_files
    from kode.cli.prompt.mentions import write_mention as write_mention
    from kode.cli.prompt.slash import COMMANDS as _slash_commands
    from kode.cli.screen.describe import describe_event as describe_event
    from kode.cli.screen.lines import money as money
    from kode.cli.screen.lines import one_line as one_line
    from kode.cli.screen.lines import public as public
    from kode.cli.screen.notify import notify_terminal as notify_terminal
    from kode.cli.screen.printer import Answer as _PrintedAnswer
    from kode.cli.screen.printer import Answered as Answered
    from kode.cli.screen.printer import complain as complain
    from kode.cli.screen.printer import print_either as print_either
    from kode.config import Config as Config
    from kode.config import Loaded as Loaded
    from kode.config import load_config as load_config
    from kode.config import resolve_provider as resolve_provider
    from kode.config.faults import must_be as must_be
    from kode.config.plugin_pages import Page as Page
    from kode.config.plugin_pages import Place as Place
    from kode.config.plugin_pages import pages as _plugin_pages
    from kode.contracts import EFFORTS as EFFORTS
    from kode.contracts import MODE_CALLED as MODE_CALLED
    from kode.contracts import MODE_MEANS as MODE_MEANS
    from kode.contracts import Bundle as Bundle
    from kode.contracts import Drop as Drop
    from kode.contracts import Effort as Effort
    from kode.contracts import Injection as Injection
    from kode.contracts import InjectReason as InjectReason
    from kode.contracts import LedgerLine as LedgerLine
    from kode.contracts import MemorySystem as MemorySystem
    from kode.contracts import ModelInfo as ModelInfo
    from kode.contracts import Opens as Opens
    from kode.contracts import PermissionMode as PermissionMode
    from kode.contracts import Replica as Replica
    from kode.contracts import Request as Request
    from kode.contracts import Row as Row
    from kode.contracts import Subscriber as Subscriber
    from kode.contracts import Tool as Tool
    from kode.contracts import ToolContext as ToolContext
    from kode.contracts import ToolOutput as ToolOutput
    from kode.contracts import ToolSpec as ToolSpec
    from kode.contracts import Turn as Turn
    from kode.contracts import Verdict as Verdict
    from kode.conversation import Conversation as Conversation
    from kode.conversation import open_conversation as open_conversation
    from kode.conversation.attachments import MAX_ATTACHED_BYTES as MAX_ATTACHED_BYTES
    from kode.conversation.attachments import file_part as file_part
    from kode.conversation.bare import BareSession as BareSession
    from kode.conversation.hooking import together as together
    from kode.conversation.memory import open_configured as _open_memory
    from kode.conversation.memory import outside_context as outside_context
    from kode.conversation.open_session import OpenSession as OpenSession
    from kode.conversation.open_session import RunTurn as RunTurn
    from kode.conversation.plugged import Opened as Opened
    from kode.conversation.plugged import Prompt as Prompt
    from kode.conversation.plugged import ProposedCall as ProposedCall
    from kode.durable import replace_file as replace_file
    from kode.engine.act import parts_of as parts_of
    from kode.engine.act import subject_of as subject_of
    from kode.engine.fence import fence_text as fence_text
    from kode.errors import EXIT_FAILED as EXIT_FAILED
    from kode.errors import EXIT_INTERRUPTED as EXIT_INTERRUPTED
    from kode.errors import EXIT_OK as EXIT_OK
    from kode.errors import BusyError as BusyError
    from kode.errors import ConfigError as ConfigError
    from kode.errors import ContextOverflow as ContextOverflow
    from kode.errors import GitError as GitError
    from kode.errors import KodeError as KodeError
    from kode.errors import MemoryRefused as MemoryRefused
    from kode.errors import ProviderError as ProviderError
    from kode.errors import SessionError as SessionError
    from kode.errors import StorageError as StorageError
    from kode.errors import ToolError as ToolError
    from kode.errors import UserError as UserError
    from kode.events import FINISHED as FINISHED
    from kode.events import AgentFinished as AgentFinished
    from kode.events import Check as Check
    from kode.events import Checked as Checked
    from kode.events import ContextReduced as ContextReduced
    from kode.events import Emit as Emit
    from kode.events import Event as Event
    from kode.events import MemoryChanged as MemoryChanged
    from kode.events import Notice as Notice
    from kode.events import PlanKept as PlanKept
    from kode.events import Replied as Replied
    from kode.events import RetryScheduled as RetryScheduled
    from kode.events import Steered as Steered
    from kode.events import TextDelta as TextDelta
    from kode.events import ThinkingDelta as ThinkingDelta
    from kode.events import ToolFinished as ToolFinished
    from kode.events import ToolStarted as ToolStarted
    from kode.events import TurnEnded as TurnEnded
    from kode.events import TurnStarted as TurnStarted
    from kode.events import Working as Working
    from kode.events import silent as silent
    from kode.extensions import familiar_calls as _calling
    from kode.extensions.bundle_items import forget_servers as forget_servers
    from kode.extensions.bundle_items import items_in_bundle as items_in_bundle
    from kode.extensions.mcp_config import Entry as _McpServerEntry
    from kode.extensions.mcp_values import Field as _FormField
    from kode.extensions.mcp_values import Form as Form
    from kode.extensions.trust import Item as Item
    from kode.function_tool import tool as tool
    from kode.installed import Command as Command
    from kode.installed import ExportFile as ExportFile
    from kode.installed import Plugin as Plugin
    from kode.interrupts import cancelled_by_signals as cancelled_by_signals
    from kode.memory import waiting as _memory_waiting
    from kode.memory.base import NullMemory as NullMemory
    from kode.memory.change import Author as _MemoryAuthor
    from kode.memory.commands import memory_command as memory_command
    from kode.memory.foreign import Entry as _ForeignEntry
    from kode.memory.foreign import Reading as _ForeignReading
    from kode.memory.foreign import Source as _ForeignSource
    from kode.memory.frame import wrap as _frame_memory
    from kode.memory.history import History as _MemoryHistory
    from kode.memory.overview import overview as _memory_overview
    from kode.memory.review import decide as _decide_memory
    from kode.messages import Image as Image
    from kode.messages import Message as Message
    from kode.messages import Part as Part
    from kode.messages import Role as Role
    from kode.messages import ServerItem as ServerItem
    from kode.messages import StopReason as StopReason
    from kode.messages import Text as Text
    from kode.messages import Thinking as Thinking
    from kode.messages import ToolCall as ToolCall
    from kode.messages import ToolResult as ToolResult
    from kode.messages import Usage as Usage
    from kode.messages import calls_of as calls_of
    from kode.messages import columns as columns
    from kode.messages import images_of as images_of
    from kode.messages import plural as plural
    from kode.messages import results_of as results_of
    from kode.messages import section_of as section_of
    from kode.messages import shorten as shorten
    from kode.messages import text_of as text_of
    from kode.paths import home as home
    from kode.permissions.gate import Answer as Answer
    from kode.permissions.gate import Question as Question
    from kode.permissions.gate import visible as visible
    from kode.permissions.gate import ways_to_allow as ways_to_allow
    from kode.permissions.rules import Rule as Rule
    from kode.pictures import Picture as Picture
    from kode.pictures import fitting as _fitting_picture
    from kode.plain_text import clean as clean
    from kode.providers import models as models
    from kode.providers.listing import Listing as _ModelListing
    from kode.registry import Dialect as Dialect
    from kode.registry import ProviderRow as ProviderRow
    from kode.registry import ProviderSettings as ProviderSettings
    from kode.results import Result as Result
    from kode.results import ResultLine as ResultLine
    from kode.results import result_object as result_object
    from kode.session import unsent as unsent
    from kode.session.checkpoints import FileChanges as FileChanges
    from kode.session.content_store import Contents as Contents
    from kode.session.entries import AnyEntry as AnyEntry
    from kode.session.entries import CompactionEntry as CompactionEntry
    from kode.session.entries import Header as Header
    from kode.session.entries import Import as Import
    from kode.session.entries import MessageEntry as MessageEntry
    from kode.session.entries import PlanEntry as PlanEntry
    from kode.session.entries import PluginEntry as PluginEntry
    from kode.session.entries import RequestEntry as RequestEntry
    from kode.session.entries import RewindEntry as RewindEntry
    from kode.session.entries import SystemEntry as SystemEntry
    from kode.session.entries import TaintEntry as TaintEntry
    from kode.session.entries import TurnEntry as TurnEntry
    from kode.session.entries import line_of as line_of
    from kode.session.entries import new_session_id as new_session_id
    from kode.session.entries import timestamp as timestamp
    from kode.session.export import readable_arguments as readable_arguments
    from kode.session.git import run_git as run_git
    from kode.session.index import Summary as _SessionSummary
    from kode.session.index import files as _session_files
    from kode.session.index import find as _find_session
    from kode.session.index import list_sessions as list_sessions
    from kode.session.index import summarize as _summarize_session
    from kode.session.log import Session as Session
    from kode.session.plan import read_plan as read_plan
    from kode.session.plan import steps_of as _plan_steps
    from kode.session.plan import write_plan as write_plan
    from kode.session.reading import session_path as session_path
    from kode.session.search import search as _search_sessions
    from kode.session.spending import Spending as Spending
    from kode.session.spending import Spent as Spent
    from kode.session.spending import requests_by_folder as requests_by_folder
    from kode.session.spending import spending_of as spending_of
    from kode.session.spending import total as _total_spent
    from kode.session.transcript import Call as _TranscriptCall
    from kode.session.transcript import Item as _TranscriptItem
    from kode.session.transcript import Transcript as Transcript
    from kode.session.upkeep import fork as _fork_session
    from kode.shared_budget import SharedBudget as SharedBudget
    from kode.subagents.protocol import Task as Task
    from kode.subagents.records import Record as _SubagentRecord
    from kode.subagents.records import records as _subagent_records
    from kode.tools import processes as processes
    from kode.tools.builtin import BUILTIN as _builtin_tools
    from kode.tools.program import run_program as run_program
    from kode.workplace import Workplace as Workplace

    ForeignEntry = _ForeignEntry
    ForeignReading = _ForeignReading
    ForeignSource = _ForeignSource
    FormField = _FormField
    McpServerEntry = _McpServerEntry
    MemoryAuthor = _MemoryAuthor
    MemoryHistory = _MemoryHistory
    ModelListing = _ModelListing
    PrintedAnswer = _PrintedAnswer
    SessionSummary = _SessionSummary
    SubagentRecord = _SubagentRecord
    TranscriptCall = _TranscriptCall
    TranscriptItem = _TranscriptItem
    builtin_tools = _builtin_tools
    calling = _calling
    decide_memory = _decide_memory
    find_session = _find_session
    fitting_picture = _fitting_picture
    fork_session = _fork_session
    frame_memory = _frame_memory
    kode_version = _kode_version
    memory_overview = _memory_overview
    memory_waiting = _memory_waiting
    open_memory = _open_memory
    plan_steps = _plan_steps
    plugin_pages = _plugin_pages
    run_setup = _run_setup
    search_sessions = _search_sessions
    session_files = _session_files
    slash_commands = _slash_commands
    subagent_records = _subagent_records
    summarize_session = _summarize_session
    total_spent = _total_spent

HOMES = {
    "add_setting_flags": "kode.cli.flags:add_setting_flags",
    "AgentFinished": "kode.events:AgentFinished",
    "Answer": "kode.permissions.gate:Answer",
    "Answered": "kode.cli.screen.printer:Answered",
    "AnyEntry": "kode.session.entries:AnyEntry",
    "BareSession": "kode.conversation.bare:BareSession",
    "beneath": "kode.beneath",
    "builtin_tools": "kode.tools.builtin:BUILTIN",
    "Bundle": "kode.contracts:Bundle",
    "BusyError": "kode.errors:BusyError",
    "calling": "kode.extensions.familiar_calls",
    "calls_of": "kode.messages:calls_of",
    "cancelled_by_signals": "kode.interrupts:cancelled_by_signals",
    "Check": "kode.events:Check",
    "Checked": "kode.events:Checked",
    "clean": "kode.plain_text:clean",
    "columns": "kode.messages:columns",
    "Command": "kode.installed:Command",
    "command_of": "kode.cli.parser:command_of",
    "CompactionEntry": "kode.session.entries:CompactionEntry",
    "complain": "kode.cli.screen.printer:complain",
    "Config": "kode.config:Config",
    "config_flags": "kode.cli.flags:config_flags",
    "ConfigError": "kode.errors:ConfigError",
    "Contents": "kode.session.content_store:Contents",
    "ContextOverflow": "kode.errors:ContextOverflow",
    "ContextReduced": "kode.events:ContextReduced",
    "Conversation": "kode.conversation:Conversation",
    "credentials": "kode.credentials",
    "decide_memory": "kode.memory.review:decide",
    "describe_event": "kode.cli.screen.describe:describe_event",
    "Dialect": "kode.registry:Dialect",
    "directory": "kode.cli.flags:directory",
    "Drop": "kode.contracts:Drop",
    "durable": "kode.durable",
    "Effort": "kode.contracts:Effort",
    "EFFORTS": "kode.contracts:EFFORTS",
    "Emit": "kode.events:Emit",
    "Event": "kode.events:Event",
    "EXIT_FAILED": "kode.errors:EXIT_FAILED",
    "EXIT_INTERRUPTED": "kode.errors:EXIT_INTERRUPTED",
    "EXIT_OK": "kode.errors:EXIT_OK",
    "ExportFile": "kode.installed:ExportFile",
    "extras": "kode.extras",
    "fault_reports": "kode.fault_reports",
    "fence_text": "kode.engine.fence:fence_text",
    "file_part": "kode.conversation.attachments:file_part",
    "FileChanges": "kode.session.checkpoints:FileChanges",
    "find_session": "kode.session.index:find",
    "Finding": "kode.cli.commands.diagnosis:Finding",
    "finish_startup": "kode.cli.flags:finish_startup",
    "FINISHED": "kode.events:FINISHED",
    "fitting_picture": "kode.pictures:fitting",
    "ForeignEntry": "kode.memory.foreign:Entry",
    "ForeignReading": "kode.memory.foreign:Reading",
    "ForeignSource": "kode.memory.foreign:Source",
    "forget_servers": "kode.extensions.bundle_items:forget_servers",
    "fork_session": "kode.session.upkeep:fork",
    "Form": "kode.extensions.mcp_values:Form",
    "FormField": "kode.extensions.mcp_values:Field",
    "frame_memory": "kode.memory.frame:wrap",
    "GitError": "kode.errors:GitError",
    "home": "kode.paths:home",
    "Header": "kode.session.entries:Header",
    "Image": "kode.messages:Image",
    "images_of": "kode.messages:images_of",
    "Import": "kode.session.entries:Import",
    "Injection": "kode.contracts:Injection",
    "InjectReason": "kode.contracts:InjectReason",
    "Item": "kode.extensions.trust:Item",
    "items_in_bundle": "kode.extensions.bundle_items:items_in_bundle",
    "kode_version": "kode:__version__",
    "KodeError": "kode.errors:KodeError",
    "LedgerLine": "kode.contracts:LedgerLine",
    "line_of": "kode.session.entries:line_of",
    "list_files": "kode.cli.prompt.files:list_files",
    "list_sessions": "kode.session.index:list_sessions",
    "load_config": "kode.config:load_config",
    "Loaded": "kode.config:Loaded",
    "MAX_ATTACHED_BYTES": "kode.conversation.attachments:MAX_ATTACHED_BYTES",
    "McpServerEntry": "kode.extensions.mcp_config:Entry",
    "memory_command": "kode.memory.commands:memory_command",
    "memory_overview": "kode.memory.overview:overview",
    "memory_waiting": "kode.memory.waiting",
    "MemoryAuthor": "kode.memory.change:Author",
    "MemoryChanged": "kode.events:MemoryChanged",
    "MemoryHistory": "kode.memory.history:History",
    "MemoryRefused": "kode.errors:MemoryRefused",
    "MemorySystem": "kode.contracts:MemorySystem",
    "Message": "kode.messages:Message",
    "MessageEntry": "kode.session.entries:MessageEntry",
    "MODE_CALLED": "kode.contracts:MODE_CALLED",
    "MODE_MEANS": "kode.contracts:MODE_MEANS",
    "ModelInfo": "kode.contracts:ModelInfo",
    "ModelListing": "kode.providers.listing:Listing",
    "models": "kode.providers.models",
    "money": "kode.cli.screen.lines:money",
    "must_be": "kode.config.faults:must_be",
    "new_session_id": "kode.session.entries:new_session_id",
    "Notice": "kode.events:Notice",
    "NullMemory": "kode.memory.base:NullMemory",
    "object_of": "kode.broken_json:object_of",
    "one_line": "kode.cli.screen.lines:one_line",
    "open_conversation": "kode.conversation:open_conversation",
    "open_memory": "kode.conversation.memory:open_configured",
    "open_prompt": "kode.cli.commands.opening:open_prompt",
    "open_sandbox": "kode.assembly:open_sandbox",
    "Opened": "kode.conversation.plugged:Opened",
    "Opens": "kode.contracts:Opens",
    "OpenSession": "kode.conversation.open_session:OpenSession",
    "outside_context": "kode.conversation.memory:outside_context",
    "Page": "kode.config.plugin_pages:Page",
    "Parser": "kode.cli.parser:Parser",
    "Part": "kode.messages:Part",
    "parts_of": "kode.engine.act:parts_of",
    "paths": "kode.paths",
    "PermissionMode": "kode.contracts:PermissionMode",
    "Picture": "kode.pictures:Picture",
    "Place": "kode.config.plugin_pages:Place",
    "plan_steps": "kode.session.plan:steps_of",
    "PlanEntry": "kode.session.entries:PlanEntry",
    "PlanKept": "kode.events:PlanKept",
    "Plugin": "kode.installed:Plugin",
    "plugin_pages": "kode.config.plugin_pages:pages",
    "PluginEntry": "kode.session.entries:PluginEntry",
    "plural": "kode.messages:plural",
    "print_either": "kode.cli.screen.printer:print_either",
    "PrintedAnswer": "kode.cli.screen.printer:Answer",
    "processes": "kode.tools.processes",
    "programs": "kode.programs",
    "Prompt": "kode.conversation.plugged:Prompt",
    "ProposedCall": "kode.conversation.plugged:ProposedCall",
    "ProviderError": "kode.errors:ProviderError",
    "ProviderRow": "kode.registry:ProviderRow",
    "ProviderSettings": "kode.registry:ProviderSettings",
    "public": "kode.cli.screen.lines:public",
    "Question": "kode.permissions.gate:Question",
    "read_mentioned": "kode.cli.prompt.attach:read_mentioned",
    "read_plan": "kode.session.plan:read_plan",
    "readable_arguments": "kode.session.export:readable_arguments",
    "replace_file": "kode.durable:replace_file",
    "Replica": "kode.contracts:Replica",
    "Replied": "kode.events:Replied",
    "Request": "kode.contracts:Request",
    "RequestEntry": "kode.session.entries:RequestEntry",
    "requests_by_folder": "kode.session.spending:requests_by_folder",
    "resolve_provider": "kode.config:resolve_provider",
    "Result": "kode.results:Result",
    "result_object": "kode.results:result_object",
    "ResultLine": "kode.results:ResultLine",
    "results_of": "kode.messages:results_of",
    "RetryScheduled": "kode.events:RetryScheduled",
    "RewindEntry": "kode.session.entries:RewindEntry",
    "Role": "kode.messages:Role",
    "Row": "kode.contracts:Row",
    "Rule": "kode.permissions.rules:Rule",
    "run_check": "kode.assembly:run_check",
    "run_git": "kode.session.git:run_git",
    "run_program": "kode.tools.program:run_program",
    "RunOptions": "kode.cli.commands.run:RunOptions",
    "parse_run_options": "kode.cli.commands.run:parse_run_options",
    "run_setup": "kode.cli.commands.init:main",
    "RunTurn": "kode.conversation.open_session:RunTurn",
    "sealed": "kode.sealed",
    "search_sessions": "kode.session.search:search",
    "section_of": "kode.messages:section_of",
    "ServerItem": "kode.messages:ServerItem",
    "Session": "kode.session.log:Session",
    "session_files": "kode.session.index:files",
    "session_path": "kode.session.reading:session_path",
    "SessionError": "kode.errors:SessionError",
    "SessionSummary": "kode.session.index:Summary",
    "SharedBudget": "kode.shared_budget:SharedBudget",
    "shorten": "kode.messages:shorten",
    "silent": "kode.events:silent",
    "slash_commands": "kode.cli.prompt.slash:COMMANDS",
    "Spending": "kode.session.spending:Spending",
    "spending_of": "kode.session.spending:spending_of",
    "Spent": "kode.session.spending:Spent",
    "Steered": "kode.events:Steered",
    "StopReason": "kode.messages:StopReason",
    "StorageError": "kode.errors:StorageError",
    "subagent_records": "kode.subagents.records:records",
    "SubagentRecord": "kode.subagents.records:Record",
    "subject_of": "kode.engine.act:subject_of",
    "Subscriber": "kode.contracts:Subscriber",
    "summarize_session": "kode.session.index:summarize",
    "SystemEntry": "kode.session.entries:SystemEntry",
    "TaintEntry": "kode.session.entries:TaintEntry",
    "Task": "kode.subagents.protocol:Task",
    "Text": "kode.messages:Text",
    "text_of": "kode.messages:text_of",
    "TextDelta": "kode.events:TextDelta",
    "Thinking": "kode.messages:Thinking",
    "ThinkingDelta": "kode.events:ThinkingDelta",
    "timestamp": "kode.session.entries:timestamp",
    "together": "kode.conversation.hooking:together",
    "Tool": "kode.contracts:Tool",
    "tool": "kode.function_tool:tool",
    "ToolCall": "kode.messages:ToolCall",
    "ToolContext": "kode.contracts:ToolContext",
    "ToolError": "kode.errors:ToolError",
    "ToolFinished": "kode.events:ToolFinished",
    "ToolOutput": "kode.contracts:ToolOutput",
    "ToolResult": "kode.messages:ToolResult",
    "ToolSpec": "kode.contracts:ToolSpec",
    "ToolStarted": "kode.events:ToolStarted",
    "total_spent": "kode.session.spending:total",
    "Transcript": "kode.session.transcript:Transcript",
    "TranscriptCall": "kode.session.transcript:Call",
    "TranscriptItem": "kode.session.transcript:Item",
    "Turn": "kode.contracts:Turn",
    "TurnEnded": "kode.events:TurnEnded",
    "TurnEntry": "kode.session.entries:TurnEntry",
    "TurnStarted": "kode.events:TurnStarted",
    "unsent": "kode.session.unsent",
    "Usage": "kode.messages:Usage",
    "UserError": "kode.errors:UserError",
    "Verdict": "kode.contracts:Verdict",
    "visible": "kode.permissions.gate:visible",
    "notify_terminal": "kode.cli.screen.notify:notify_terminal",
    "ways_to_allow": "kode.permissions.gate:ways_to_allow",
    "Working": "kode.events:Working",
    "working_directory": "kode.cli.flags:working_directory",
    "Workplace": "kode.workplace:Workplace",
    "write_mention": "kode.cli.prompt.mentions:write_mention",
    "write_plan": "kode.session.plan:write_plan",
}
"""Public name → where it is defined: a module, or "module:name"."""

__all__ = [*HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    if name not in HOMES:
        raise AttributeError(f"module 'kode.plugin' has no attribute {name!r}")
    import pkgutil

    value: object = pkgutil.resolve_name(HOMES[name])
    return globals().setdefault(name, value)


def __dir__() -> list[str]:
    return sorted(HOMES)

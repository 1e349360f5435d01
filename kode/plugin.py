"""What a plug-in may use of kode, and what it may add: `from kode.plugin import Plugin, Tool`.

Everything here keeps its meaning within a major version. No plug-in, not even one that comes with
kode, may import anything else of it. Each name is imported on first use: a plug-in costs nothing
before it is needed. `docs/plugins.md` explains the names by examples.
"""

from typing import TYPE_CHECKING

HOMES = {
    "kode": "kode_version=__version__",
    "kode.assembly": "run_check",
    "kode.beneath": "remove_tree",
    "kode.broken_json": "object_of",
    "kode.cli.commands.doctor": "Finding",
    "kode.cli.commands.interactive": "open_prompt",
    "kode.cli.commands.run": "RunOptions",
    "kode.cli.flags": "add_setting_flags working_directory",
    "kode.cli.parser": "Parser",
    "kode.cli.prompt.attach": "list_files read_mentioned",
    "kode.cli.screen.describe": "describe_event",
    "kode.cli.screen.lines": "money",
    "kode.cli.screen.printer": "print_either",
    "kode.config.choice": "resolve_provider",
    "kode.config.load": "load_config",
    "kode.conversation": "BareSession Conversation ConversationSettings=Settings open_conversation",
    "kode.conversation.plugins": "PluginSession Prompt",
    "kode.credentials": "keep_secret redact_secrets",
    "kode.durable": "RecordLog hold_lock make_folder replace_file storage_errors set_aside",
    "kode.errors": (
        "ConfigError ContextOverflow GitError KodeError MemoryRefused ProviderError SessionError "
        "StorageError ToolError UserError"
    ),
    "kode.events": "Event TextDelta TurnEnded",
    "kode.extensions.review": "BundleItems",
    "kode.extensions.definitions": "Bundle",
    "kode.git": "run_git",
    "kode.installed": "Command ExportFile Plugin require_extra",
    "kode.memory.commands": "open_memory",
    "kode.memory.contract": "Injection NullMemory RemoteAnswer RemoteLine",
    "kode.memory.transfer": "ForeignReader",
    "kode.messages": "Image Message plural shorten Text Thinking ToolCall ToolResult",
    "kode.paths": "expand_path kode_home path_hash project_root real_path session_file",
    "kode.permissions.names": "PermissionMode",
    "kode.permissions.question": "Answer Question visible",
    "kode.process": "cancelled_by_signals describe_fault",
    "kode.provider": "Request ToolSpec",
    "kode.providers.models": "model_info_of",
    "kode.registry": "Dialect ProviderRow",
    "kode.session.entries": "AnyEntry=Entry CompactionEntry MessageEntry",
    "kode.session.index": "find_session list_sessions search_sessions summarize_session",
    "kode.session.log": "Session",
    "kode.session.spending": "Spending",
    "kode.session.transcript": "Transcript",
    "kode.shared_budget": "SharedBudget",
    "kode.subagents.records": "subagent_records",
    "kode.tool": "Tool ToolOutput",
    "kode.tools.builtin": "builtin_tools=BUILTIN",
    "kode.tools.processes": "ProcessTree",
    "kode.undo.store": "Contents",
    "kode.undo.undo": "FileChanges",
}
"""Module → the public names that it defines; "public=defined" where they differ."""

_PLACES = {
    public: f"{module}:{defined or public}"
    for module, names in HOMES.items()
    for public, _, defined in (name.partition("=") for name in names.split())
}

__all__ = [*_PLACES]  # noqa: PLE0604

if TYPE_CHECKING:
    from kode import __version__ as _kode_version
    from kode.assembly import run_check as run_check
    from kode.beneath import remove_tree as remove_tree
    from kode.broken_json import object_of as object_of
    from kode.cli.commands.doctor import Finding as Finding
    from kode.cli.commands.interactive import open_prompt as open_prompt
    from kode.cli.commands.run import RunOptions as RunOptions
    from kode.cli.flags import (
        add_setting_flags as add_setting_flags,
        working_directory as working_directory,
    )
    from kode.cli.parser import Parser as Parser
    from kode.cli.prompt.attach import list_files as list_files, read_mentioned as read_mentioned
    from kode.cli.screen.describe import describe_event as describe_event
    from kode.cli.screen.lines import money as money
    from kode.cli.screen.printer import print_either as print_either
    from kode.config.choice import resolve_provider as resolve_provider
    from kode.config.load import load_config as load_config
    from kode.conversation import (
        BareSession as BareSession,
        Conversation as Conversation,
        Settings as _ConversationSettings,
        open_conversation as open_conversation,
    )
    from kode.conversation.plugins import PluginSession as PluginSession, Prompt as Prompt
    from kode.credentials import keep_secret as keep_secret, redact_secrets as redact_secrets
    from kode.durable import (
        RecordLog as RecordLog,
        hold_lock as hold_lock,
        make_folder as make_folder,
        replace_file as replace_file,
        set_aside as set_aside,
        storage_errors as storage_errors,
    )
    from kode.errors import (
        ConfigError as ConfigError,
        ContextOverflow as ContextOverflow,
        GitError as GitError,
        KodeError as KodeError,
        MemoryRefused as MemoryRefused,
        ProviderError as ProviderError,
        SessionError as SessionError,
        StorageError as StorageError,
        ToolError as ToolError,
        UserError as UserError,
    )
    from kode.events import Event as Event, TextDelta as TextDelta, TurnEnded as TurnEnded
    from kode.extensions.definitions import Bundle as Bundle
    from kode.extensions.review import BundleItems as BundleItems
    from kode.git import run_git as run_git
    from kode.installed import (
        Command as Command,
        ExportFile as ExportFile,
        Plugin as Plugin,
        require_extra as require_extra,
    )
    from kode.memory.commands import open_memory as open_memory
    from kode.memory.contract import (
        Injection as Injection,
        NullMemory as NullMemory,
        RemoteAnswer as RemoteAnswer,
        RemoteLine as RemoteLine,
    )
    from kode.memory.transfer import ForeignReader as ForeignReader
    from kode.messages import (
        Image as Image,
        Message as Message,
        Text as Text,
        Thinking as Thinking,
        ToolCall as ToolCall,
        ToolResult as ToolResult,
        plural as plural,
        shorten as shorten,
    )
    from kode.paths import (
        expand_path as expand_path,
        kode_home as kode_home,
        path_hash as path_hash,
        project_root as project_root,
        real_path as real_path,
        session_file as session_file,
    )
    from kode.permissions.names import PermissionMode as PermissionMode
    from kode.permissions.question import Answer as Answer, Question as Question, visible as visible
    from kode.process import (
        cancelled_by_signals as cancelled_by_signals,
        describe_fault as describe_fault,
    )
    from kode.provider import Request as Request, ToolSpec as ToolSpec
    from kode.providers.models import model_info_of as model_info_of
    from kode.registry import Dialect as Dialect, ProviderRow as ProviderRow
    from kode.session.entries import (
        CompactionEntry as CompactionEntry,
        Entry as _Entry,
        MessageEntry as MessageEntry,
    )
    from kode.session.index import (
        find_session as find_session,
        list_sessions as list_sessions,
        search_sessions as search_sessions,
        summarize_session as summarize_session,
    )
    from kode.session.log import Session as Session
    from kode.session.spending import Spending as Spending
    from kode.session.transcript import Transcript as Transcript
    from kode.shared_budget import SharedBudget as SharedBudget
    from kode.subagents.records import subagent_records as subagent_records
    from kode.tool import Tool as Tool, ToolOutput as ToolOutput
    from kode.tools.builtin import BUILTIN as _builtin_tools
    from kode.tools.processes import ProcessTree as ProcessTree
    from kode.undo.store import Contents as Contents
    from kode.undo.undo import FileChanges as FileChanges

    AnyEntry = _Entry
    ConversationSettings = _ConversationSettings
    kode_version = _kode_version
    builtin_tools = _builtin_tools

else:  # not for type checkers, so that they refuse any other name

    def __getattr__(name: str) -> object:
        if name not in _PLACES:
            raise AttributeError(f"module 'kode.plugin' has no attribute {name!r}")
        import pkgutil  # takes longer than all else here

        return globals().setdefault(name, pkgutil.resolve_name(_PLACES[name]))

    def __dir__() -> list[str]:
        return sorted(_PLACES)

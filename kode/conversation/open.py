"""Opens a conversation: checks the rules, creates or loads the session, builds the agent; imports
what its first turn needs while the person still types it."""

import asyncio
import contextlib
import importlib
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from kode import durable, installed, paths
from kode.assembly import make_extensions, make_provider, open_workplace
from kode.config.choice import resolve_provider
from kode.config.load import Faults, Loaded, locate
from kode.config.model import flat
from kode.conversation.conversation import BegunBy, Conversation
from kode.conversation.plugins import open_plugins
from kode.conversation.sessions import enter_session, no_sandbox, open_session, pending_text
from kode.conversation.settings import Settings
from kode.conversation.turns import join_prompts
from kode.errors import ConfigError, Setting, StorageError, UserError
from kode.events import Notice
from kode.extensions.mcp_config import client_entries
from kode.memory.scan import scan
from kode.memory.system import guard
from kode.memory.words import stem
from kode.messages import Image, Text
from kode.permissions.rules import parse
from kode.programs import depth
from kode.provider import Provider
from kode.providers import warm_up
from kode.sandbox.sandbox import missing_protection
from kode.session import upkeep
from kode.session.entries import TaintEntry
from kode.tools.background import BackgroundCommands

FIRST_TURN = (
    "httpcore2",
    "anyio._backends._asyncio",
    "kode.providers.written_calls",
    "apsw",
    "encodings.utf_8_sig",
    "kode.conversation.hooks",
    "kode.extensions.skill_tool",
    "kode.subagents.tool",
    "kode.sandbox.trial",
    "kode.sandbox.probe",
    "kode.sandbox.seatbelt",
    "kode.tools.checkers",
)
"""Imported only where a turn needs them, or by a library only when it connects. A test lists what
is imported between Enter and the request: nothing may be."""


def import_first_turn(conversation: Conversation) -> None:
    """Imports what is needed up to the first request of a session; call it in a thread. A fault is
    left to whoever needs the module, and can say so."""
    with contextlib.suppress(Exception):
        warm_up(conversation.agent.provider)
    for name in FIRST_TURN:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    stem(["memory"])  # these two read tables when first used
    scan("memory")
    for plugin in installed.plugins():
        for where in (*plugin.session_parts, plugin.before_call):
            with contextlib.suppress(Exception):
                installed.load(plugin, where)


async def open_conversation(
    settings: Settings,
    *,
    cwd: Path,
    session_id: str | None = None,
    fork: bool = False,
    new_id: str | None = None,
    task: str = "",
    attachments: Sequence[Text | Image] = (),
    provider: Provider | None = None,
) -> Conversation:
    """Opens a new session in `cwd` (under `new_id`, if given), or the one named; with `fork` a
    copy of that one. Memory opens with the first turn. `task` is that turn's text, if it is known:
    it is on disk before anything else is done; `attachments` go with it. `provider` replaces the
    configured one.

    Raises: UserError (no key, bad rules, session open elsewhere, disk full), SessionError.
    """
    home, loaded, child = paths.home(), settings.loaded, settings.child
    for warning in loaded.warnings:
        settings.emit(Notice(text=warning))
    check_rules(loaded)
    config, origins = loaded.config, loaded.origins
    provider = provider or make_provider(config, resolve_provider(config, os.environ, origins))
    cut_short = ""
    try:
        if session_id is not None and fork:
            session_id = upkeep.fork(home, session_id)
        session = open_session(settings, home, cwd, provider, session_id, new_id=new_id, task=task)
        if session_id is not None:
            cut_short = pending_text(session)
            if task:
                session.record_prompt(join_prompts(cut_short, task))
        source = ""
        if child is not None:
            if child.start is not None and child.start.tainted:
                source = "the session that delegated this"
        elif depth(os.environ) and not session.tainted:
            # Messages here come from the agent that started this kode, whatever it has read.
            source = "the kode that started this one"
        if source:
            session.append(TaintEntry(source=source))
    except StorageError as error:
        raise error if child is not None else not_recorded(error) from error
    if child is None and (fault := paths.home_fault(home)):
        settings.emit(Notice(text=fault))
    try:
        place = open_workplace(config, home, cwd)
        plugins = open_plugins(settings, place, session)
        settings = replace(
            settings,
            emit=plugins.emit,
            tools=(*settings.tools, *plugins.tools),
            memory=None if settings.memory is None else guard(config.memory, settings.memory),
        )
        conversation = Conversation(
            settings=settings,
            commands=BackgroundCommands(settings.emit),
            plugins=plugins,
            attachments=list(attachments),
        )
        conversation.say_plugin_faults()
        begun_by: BegunBy = "startup" if session_id is None else "resume"
        enter_session(conversation, session, provider, place, begun_by, cut_short)
        if child is None:
            named = client_entries(settings.client_servers, cwd)
            settings = replace(settings, servers=(*settings.servers, *named))
            conversation.extensions = make_extensions(settings, conversation.agent)
    except BaseException as error:
        session.close()
        locate(error, origins)
        raise
    if conversation.extensions is not None:
        conversation.run_in_background(_remove_abandoned_layers(home))
        conversation.extensions.begin()
        _say_protection(conversation)
    return conversation


async def _remove_abandoned_layers(home: Path) -> None:
    """Removes the layers of killed kodes, in a thread."""
    from kode.sandbox import store

    remove = partial(store.remove_abandoned, store.places(home))
    await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, remove))


def _say_protection(conversation: Conversation) -> None:
    """Says what commands lack here: to a person once in a home, to whoever reads a log each time
    that there is no sandbox."""
    settings, sandbox = conversation.settings, conversation.agent.sandbox
    if sandbox is None:
        return
    record = paths.shown_notice(conversation.place.home, "sandbox")
    if settings.ask is not None and (text := missing_protection()):
        if not record.exists():
            settings.emit(Notice(text=text))
            with contextlib.suppress(StorageError):  # then it is said again
                durable.make_folder(record.parent)
                durable.replace(record, text.encode())
    elif why := sandbox.unavailable_reason():
        settings.emit(no_sandbox(why))


def not_recorded(error: StorageError) -> UserError:
    """The error for a session that cannot be saved, before anything was done in it."""
    return UserError(f"{error} With --no-session kode works without saving the session.")


def check_rules(loaded: Loaded) -> None:
    """Raises: ConfigError that names where an invalid rule stands."""
    values = flat(loaded.config)
    for key in ("permissions.allow", "permissions.ask", "permissions.deny"):
        for text in values[key]:
            try:
                parse(text)
            except ConfigError as error:
                where = loaded.origins.get(key, "the settings of its parent")
                raise Faults([(Setting(key, where), f"`{key}`: {error}")]) from error

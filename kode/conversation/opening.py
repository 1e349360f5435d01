"""Opens a conversation: checks the rules, creates or loads the session, builds the agent."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kode import durable, paths
from kode.assembly import (
    make_extensions,
    make_provider,
    of_session,
    open_named,
    open_workplace,
)
from kode.config import Faults, Loaded, flat, resolve_provider
from kode.config.load import locate
from kode.conversation.conversation import Conversation
from kode.conversation.open_session import Child, Terms, announce, enter, join_prompts
from kode.conversation.plugged import plug_in
from kode.conversation.sessions import (
    child_session,
    create_session,
    load_session,
    remove_abandoned_layers,
)
from kode.conversation.starting import no_sandbox
from kode.errors import ConfigError, Setting, StorageError, UserError
from kode.events import Emit, Notice
from kode.extensions.mcp_config import Entry, client_entries
from kode.extensions.mcp_values import Elicit
from kode.memory.contract import MemorySystem
from kode.memory.guarded import guard
from kode.messages import Text, text_of
from kode.permissions.gate import Ask
from kode.permissions.rules import parse
from kode.programs import depth
from kode.provider import Provider
from kode.sandbox.deferred import missing_protection
from kode.session import upkeep
from kode.session.entries import TaintEntry
from kode.tool import Tool
from kode.tools.background import BackgroundCommands

if TYPE_CHECKING:
    from kode.sandbox.sandbox import Sandbox


async def open_conversation(
    loaded: Loaded,
    *,
    cwd: Path,
    emit: Emit,
    ask: Ask | None,
    session_id: str | None = None,
    fork: bool = False,
    new_id: str | None = None,
    task: str = "",
    keep_session: bool = True,
    attachments: tuple[Text, ...] = (),
    elicit: Elicit | None = None,
    trust_project: bool = False,
    tools: tuple[Tool, ...] = (),
    memory: MemorySystem | None = None,
    servers: Sequence[Entry] = (),
    client_servers: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    provider: Provider | None = None,
    child: Child | None = None,
) -> Conversation:
    """Opens a new session in `cwd` (under `new_id`, if given), or the one named; with `fork` a
    copy of that one. Memory opens with the first turn. `task` is that turn's text, if it is known:
    it is on disk before anything else is done.

    `ask` puts a permission question to the person, `elicit` a form of an MCP server; None if nobody
    can be asked. With `trust_project`, the repository's extensions count as approved. `tools` are
    offered beside kode's own; `memory` replaces the configured system. `servers` are MCP servers
    named by the program that runs kode: trusted like the person's own, and stored nowhere.
    `client_servers` are likewise, by name: those that an editor names for the session.
    `provider` replaces the configured one. `child` makes it a subagent's: with a session among its
    parent's records, without servers and plug-ins.

    Raises: UserError (no key, bad rules, session open elsewhere, disk full), SessionError.
    """
    home = paths.home()
    for warning in loaded.warnings:
        emit(Notice(text=warning))
    check_rules(loaded)
    config, origins = loaded.config, loaded.origins
    provider = provider or make_provider(config, resolve_provider(config, os.environ, origins))
    if child is not None:
        session, cut = child_session(cwd, provider, child.folder, child.parent_session), ""
        if child.start is not None and child.start.tainted:
            session.append(TaintEntry(source="the session that delegated this"))
    else:
        try:
            if session_id is None:
                keep, cut = keep_session, ""
                session = create_session(home, cwd, provider, keep=keep, id=new_id, task=task)
            else:
                opened_id = upkeep.fork(home, session_id) if fork else session_id
                session = load_session(home, opened_id, emit)
                cut = text_of(session.pending) if session.pending else ""
                if task:
                    session.record_prompt(join_prompts(cut, task))
            if depth(os.environ) and not session.tainted:
                # Messages here come from the agent that started this kode, whatever it has read.
                session.append(TaintEntry(source="the kode that started this one"))
        except StorageError as error:
            raise not_kept(error) from error
        if fault := paths.home_fault(home):
            emit(Notice(text=fault))
    try:
        place = of_session(open_workplace(loaded.config, home, cwd), session.id)
        plugged = plug_in(loaded.config, place, emit, session, is_child=child is not None)
        emit, tools = plugged.emit, (*tools, *plugged.tools)
        terms = Terms(
            emit=emit,
            ask=ask,
            commands=BackgroundCommands(emit),
            plugged=plugged,
            tools=tools,
            memory=None if memory is None else guard(memory, loaded.config.memory),
            keep_session=keep_session,
            trust_project=trust_project,
            child=child,
        )
        terms.say_faults()
        opened = enter(
            terms,
            loaded,
            provider,
            session,
            place,
            begun_by="startup" if session_id is None else "resume",
            cut_short=cut,
            small_model=open_named(loaded.config, "small_model", origins)
            if child is None
            else None,
            outbox=attachments,
        )
        if child is None:
            extensions = make_extensions(
                loaded.config,
                place,
                emit=emit,
                ask=ask,
                elicit=elicit,
                trust_project=trust_project,
                sandbox=opened.agent.sandbox,
                servers=(*servers, *client_entries(client_servers, cwd)),
            )
            opened.terms = replace(terms, extensions=extensions)
    except BaseException as error:
        session.close()
        locate(error, origins)
        raise
    if child is None:
        announce(opened)
        opened.in_background(remove_abandoned_layers(home))
        extensions.begin()
        if opened.agent.sandbox is not None:
            _say_protection(opened.agent.sandbox, home, emit, is_attended=ask is not None)
    return Conversation(opened)


def _say_protection(sandbox: "Sandbox", home: Path, emit: Emit, *, is_attended: bool) -> None:
    """Says what commands lack here: to a person once in a home, to whoever reads a log each time
    that there is no sandbox."""
    record = paths.shown_notice(home, "sandbox")
    if is_attended and (text := missing_protection()):
        if not record.exists():
            emit(Notice(text=text))
            with contextlib.suppress(StorageError):  # then it is said again
                durable.make_folder(record.parent)
                durable.replace(record, text.encode())
    elif why := sandbox.cannot_hold():
        emit(no_sandbox(why))


def not_kept(error: StorageError) -> UserError:
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

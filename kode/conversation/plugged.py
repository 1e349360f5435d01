"""What plug-ins add to an open conversation: tools, sections of the system prompt, subscribers, and
what decides about calls.

A plug-in that fails costs a line on the screen and what it would have added, never the session.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kode import installed
from kode.config.load import settings_of
from kode.errors import ConfigError, KodeError, PluginError
from kode.events import Emit, Event, Notice, Subscriber
from kode.function_tool import plain_tool
from kode.installed import Plugin, fault_of, guard_plugin, load, try_plugin
from kode.permissions.decision import deny
from kode.session.entries import PLUGIN_TYPE, PluginEntry
from kode.session.log import Session
from kode.session.messages import effective
from kode.tool import Action, CallDecision, Decision, Effect, Interceptor, Tool
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.config import Config

CLOSE_S = 5.0
"""How long the end of a conversation waits for one subscriber."""


@dataclass
class Now:
    """The session that a conversation has open."""

    session: Session
    used: bool = False  # whether a slash command of a plug-in was


@dataclass(frozen=True, kw_only=True)
class Opened:
    """An open conversation, as a plug-in sees it."""

    plugin: str
    """The plug-in's name."""
    settings: Any
    """An instance of the plug-in's settings model; None without one."""
    config: "Config"
    place: Workplace
    emit: Emit
    now: Now

    @property
    def session(self) -> Session:
        """The session that is open now: `/new` and `/resume` open another."""
        return self.now.session

    @property
    def session_id(self) -> str | None:
        """None for a session without a file."""
        return self.session.id

    @property
    def home(self) -> Path:
        return self.place.home

    @property
    def cwd(self) -> Path:
        return self.place.cwd

    def notice(
        self, text: str, *, level: Literal["info", "warning"] = "warning", value: Any = None
    ) -> None:
        """Says something to the person; `value` is the same for programs."""
        self.emit(Notice(text=text, level=level, value=value))

    def record(self, value: Mapping[str, Any]) -> None:
        """Adds an entry to the session: JSON values. Raises: StorageError."""
        self.session.append(PluginEntry(type=f"x-{self.plugin}", value=value))

    def records(self) -> list[Mapping[str, Any]]:
        """What the plug-in has recorded in the session, without what was rewound."""
        return [
            entry.value
            for entry in effective(self.session.entries)
            if isinstance(entry, PluginEntry) and entry.type == f"x-{self.plugin}"
        ]


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """What a slash command of a plug-in sends to the model, as if the person had typed it."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ProposedCall:
    """A call that the model wants, before anything is decided about it."""

    plugin: str
    """The plug-in that is asked; its name stands before its reasons."""
    action: Action
    """The call, as kode knows it."""

    @property
    def tool(self) -> str:
        """The tool's name, as in `tools` of the system prompt."""
        return self.action.tool.name

    @property
    def effect(self) -> Effect:
        """What the tool does: "read", "edit", "run", ..."""
        return self.action.tool.effect_on(self.action.arguments)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """As the tool gets them."""
        return self.action.arguments

    @property
    def path(self) -> str:
        """The real path that a call about one path is about; "" for any other."""
        return self.action.path

    def refuse(self, reason: str) -> CallDecision:
        """The call does not run; the model and the person read why."""
        return deny(f"The plug-in {self.plugin}: {reason}", by="plugin")

    def ask(self, reason: str) -> CallDecision:
        """The person is asked, whatever rules and mode allow; without a person it does not run."""
        return Decision(outcome="ask", reason=f"The plug-in {self.plugin}: {reason}")

    def change(self, arguments: Mapping[str, Any]) -> CallDecision:
        """The call has these arguments from then on. Permissions are decided for them."""
        by = f"The plug-in {self.plugin}"
        return replace(self.action, arguments=arguments, changed_by=by)


@dataclass(frozen=True, kw_only=True)
class Plugged:
    """The plug-ins of one conversation."""

    now: Now
    opened: tuple[tuple[Plugin, Opened], ...] = ()
    emit: Emit
    """Emits to the conversation and to every subscriber."""
    heard: "tuple[_Guarded, ...]" = ()
    tools: tuple[Tool, ...] = ()
    interceptors: tuple[Interceptor, ...] = ()
    """What plug-ins decide about calls."""

    def sections(self) -> dict[str, str]:
        """The sections of the system prompt, by name: `x-` and the names that a plug-in gives."""
        found: dict[str, str] = {}
        for plugin, opened in self.opened:
            if plugin.sections:
                found |= try_plugin(plugin, partial(_sections, plugin, opened), {})
        return found

    def without_clashes(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """The tools of a session but for those of plug-ins whose name another one has, too."""
        times, own = Counter(tool.name for tool in tools), set(map(id, self.tools))
        for name in {tool.name for tool in self.tools if times[tool.name] > 1}:
            self.emit(Notice(text=f"A plug-in's tool {name} is left out: its name is taken."))
        return tuple(tool for tool in tools if times[tool.name] == 1 or id(tool) not in own)

    async def answer(self, message: str) -> str | Prompt | None:
        """What a plug-in's slash command says; None where none is named. Raises: KodeError."""
        name, _, argument = message[1:].partition(" ")
        for plugin, opened in self.opened:
            if command := plugin.slash.get(name):
                self.now.used = True
                return await installed.call(plugin, command.run, opened, argument.strip()) or ""
        return None

    def around(self, session: object, run: Any) -> Any:
        """The `RunTurn` of an `OpenSession` with what plug-ins do around it."""
        for plugin, opened in self.opened:
            where = plugin.around_turn
            if where and (around := try_plugin(plugin, partial(load, plugin, where), None)):
                run = partial(_around, guard_plugin(plugin, around), opened, session, run)
        return run

    async def close(self, wait_s: float = CLOSE_S) -> None:
        """Lets each subscriber finish, within `wait_s`. Never raises."""
        for subscriber in self.heard:
            try:
                async with asyncio.timeout(wait_s):
                    await subscriber.aclose()
            except Exception as error:
                self.emit(Notice(text=fault_of(subscriber.plugin, error)))


def plug_in(
    config: "Config", place: Workplace, emit: Emit, session: Session, *, is_child: bool = False
) -> Plugged:
    """Opens the plug-ins for a conversation; in a subagent, `is_child`, they only decide about
    calls. Never raises: see `installed.faults`."""
    for one in installed.installed():
        if one.fault:
            emit(Notice(text=f"The plug-in {one.name} is not used: {one.fault}."))
    now = Now(session)
    opened, heard, tools = list[tuple[Plugin, Opened]](), list[_Guarded](), list[Tool]()
    interceptors = list[Interceptor]()
    for plugin in installed.plugins():
        if plugin.name in installed.faults:
            continue
        added = (plugin.tools, plugin.sections, plugin.subscriber, plugin.slash, plugin.around_turn)
        if not plugin.before_call and (is_child or not any(added)):
            continue
        seen = try_plugin(plugin, partial(_open, plugin, config, place, emit, now), None)
        if seen is None:
            continue
        if plugin.before_call:
            judge = try_plugin(plugin, partial(load, plugin, plugin.before_call), None)
            interceptors += [] if judge is None else [partial(_decide, plugin, judge, seen)]
        if is_child:
            continue
        opened.append((plugin, seen))
        ear = try_plugin(plugin, partial(_subscriber, plugin, seen), None)
        heard += [] if ear is None else [ear]
        if plugin.tools:
            tools += try_plugin(plugin, partial(_tools, plugin, seen), [])

    def to_all(event: Event) -> None:
        emit(event)
        for subscriber in heard:
            subscriber(event)

    out = to_all if heard else emit
    return Plugged(
        now=now,
        opened=tuple(opened),
        emit=out,
        heard=tuple(heard),
        tools=tuple(tools),
        interceptors=tuple(interceptors),
    )


def _open(plugin: Plugin, config: "Config", place: Workplace, emit: Emit, now: Now) -> Opened:
    """Raises: ConfigError for settings that are not as the plug-in's model says."""
    if not PLUGIN_TYPE.fullmatch(f"x-{plugin.name}"):
        raise ConfigError(f"{plugin.name!r} is no name: lower-case letters, digits and hyphens.")
    settings = settings_of(plugin, config)
    return Opened(
        plugin=plugin.name, settings=settings, config=config, place=place, emit=emit, now=now
    )


def _sections(plugin: Plugin, opened: Opened) -> dict[str, str]:
    given = load(plugin, plugin.sections)(opened)
    return {f"x-{plugin.name}-{name}": str(text) for name, text in given.items()}


def _subscriber(plugin: Plugin, opened: Opened) -> "_Guarded | None":
    heard = load(plugin, plugin.subscriber)(opened) if plugin.subscriber else None
    return None if heard is None else _Guarded(plugin, heard, opened.emit)


def _tools(plugin: Plugin, opened: Opened) -> list[Tool]:
    made = (
        replace(one, run=guard_plugin(plugin, one.run))
        if isinstance(one, Tool)
        else plain_tool(one)
        for one in load(plugin, plugin.tools)(opened)
    )
    return list(made)


async def _decide(
    plugin: Plugin,
    judge: Any,
    opened: Opened,
    action: Action,
) -> CallDecision | None:
    call = ProposedCall(plugin=plugin.name, action=action)
    try:
        decision = guard_plugin(plugin, judge)(opened, call)
        decision = await decision if isinstance(decision, Awaitable) else decision
        if isinstance(decision, CallDecision | None):
            return decision
        raise PluginError(fault_of(plugin, TypeError(f"before_call returned {decision!r}")))
    except KodeError as error:
        return deny(str(error), by="plugin")


async def _around(around: Any, opened: Opened, of: Any, run: Any, text: str, *more: Any) -> Any:
    if any(more):  # a command's own limits
        return await run(text, *more)
    return await around(opened, of, text, run)


@dataclass
class _Guarded:
    """A subscriber that is dropped at its first fault."""

    plugin: Plugin
    subscriber: Subscriber
    emit: Emit
    failed: bool = False

    def __call__(self, event: Event) -> None:
        if self.failed:
            return
        try:
            self.subscriber(event)
        except Exception as error:
            self.failed = True
            self.emit(Notice(text=fault_of(self.plugin, error)))

    async def aclose(self) -> None:
        """Passes the end on to a subscriber that wants to know it."""
        if not self.failed and hasattr(self.subscriber, "aclose"):
            await self.subscriber.aclose()

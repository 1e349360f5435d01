"""What plug-ins add to an open conversation: tools, sections of the system prompt, subscribers.

A plug-in that fails costs a line on the screen and what it would have added, never the session.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kode import installed
from kode.config.plugin_settings import settings_of
from kode.contracts import Tool
from kode.errors import ConfigError
from kode.events import Emit, Event, Notice
from kode.function_tool import plain_tool
from kode.installed import Plugin
from kode.session.entries import PLUGIN_TYPE, PluginEntry
from kode.session.log import Session
from kode.session.messages import effective
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.config import Config

CLOSE_S = 5.0
"""How long the end of a conversation waits for one subscriber."""


@dataclass
class Now:
    """The session that a conversation has open."""

    session: Session


@dataclass(frozen=True, kw_only=True)
class Opened:
    """An open conversation, as a plug-in sees it."""

    plugin: str
    """The plug-in's name."""
    settings: Any
    """An instance of the plug-in's settings model; None without one."""
    place: Workplace
    emit: Emit
    now: "Now"

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


class Subscriber(Protocol):
    """Hears every event of a conversation as it happens, in the thread where it happens. It must
    not block; one that raises hears nothing more. If it has an `async aclose()`, that is awaited
    when the conversation ends, for `CLOSE_S` at most."""

    def __call__(self, event: Event) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Plugged:
    """The plug-ins of one conversation."""

    now: Now
    opened: tuple[tuple[Plugin, Opened], ...] = ()
    emit: Emit
    """Emits to the conversation and to every subscriber."""
    heard: tuple[Subscriber, ...] = ()
    tools: tuple[Tool, ...] = ()

    def of(self, plugin: Plugin) -> Opened | None:
        """The conversation as this plug-in sees it; None where its settings are wrong."""
        return next((opened for one, opened in self.opened if one.name == plugin.name), None)

    def sections(self) -> dict[str, str]:
        """The sections of the system prompt, by name: `x-` and the names that a plug-in gives."""
        found: dict[str, str] = {}
        for plugin, opened in self.opened:
            if plugin.sections:
                given = _called(plugin, plugin.sections, opened) or {}
                found |= {f"x-{plugin.name}-{name}": text for name, text in given.items()}
        return found

    async def close(self) -> None:
        """Lets each subscriber finish. Never raises."""
        for subscriber in self.heard:
            closing = getattr(subscriber, "aclose", None)
            if closing is None:
                continue
            try:
                async with asyncio.timeout(CLOSE_S):
                    await closing()
            except Exception as error:
                self.emit(Notice(text=f"A plug-in did not end well: {error!r}"))


def plug_in(config: "Config", place: Workplace, emit: Emit, session: Session) -> Plugged:
    """Opens the plug-ins for a conversation. Never raises: a fault is a notice."""
    for one in installed.installed():
        if one.fault:
            emit(Notice(text=f"The plug-in {one.name} is not used: {one.fault}."))
    now = Now(session)
    opened = []
    for plugin in installed.plugins():
        if plugin.tools or plugin.sections or plugin.subscriber or plugin.slash:
            try:
                opened.append((plugin, _open(plugin, config, place, emit, now)))
            except ConfigError as error:
                emit(Notice(text=f"The plug-in {plugin.name} is not used: {error}"))
    heard = [
        _Guarded(plugin.name, subscriber, emit)
        for plugin, one in opened
        if plugin.subscriber and (subscriber := _called(plugin, plugin.subscriber, one))
    ]
    tools = [
        tool
        for plugin, one in opened
        if plugin.tools
        for tool in _tools(plugin, _called(plugin, plugin.tools, one) or (), emit)
    ]

    def to_all(event: Event) -> None:
        emit(event)
        for subscriber in heard:
            subscriber(event)

    return Plugged(
        now=now,
        opened=tuple(opened),
        emit=to_all if heard else emit,
        heard=tuple(heard),
        tools=tuple(tools),
    )


def _open(plugin: Plugin, config: "Config", place: Workplace, emit: Emit, now: Now) -> Opened:
    """Raises: ConfigError for settings that are not as the plug-in's model says."""
    if not PLUGIN_TYPE.fullmatch(f"x-{plugin.name}"):
        raise ConfigError(f"{plugin.name!r} is no name: lower-case letters, digits and hyphens.")
    settings = settings_of(plugin, config.plugins.get(plugin.name, {}))
    return Opened(plugin=plugin.name, settings=settings, place=place, emit=emit, now=now)


def _tools(plugin: Plugin, given: Iterable[Any], emit: Emit) -> list[Tool]:
    try:
        return [one if isinstance(one, Tool) else plain_tool(one) for one in given]
    except Exception as error:
        emit(Notice(text=_fault(plugin, error)))
        return []


def _called(plugin: Plugin, where: str, opened: Opened) -> Any:
    """What a plug-in's function returns; None, and a notice, if it fails."""
    try:
        return installed.load(plugin, where)(opened)
    except Exception as error:
        opened.emit(Notice(text=_fault(plugin, error)))
        return None


def _fault(plugin: Plugin, error: Exception) -> str:
    what = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
    return (
        f"The plug-in {plugin.name} failed: {what} "
        f"(`kode plugin disable {plugin.name}` turns it off)."
    )


@dataclass
class _Guarded:
    """A subscriber that is dropped at its first fault."""

    name: str
    subscriber: Subscriber
    emit: Emit
    failed: bool = field(default=False)

    def __call__(self, event: Event) -> None:
        if self.failed:
            return
        try:
            self.subscriber(event)
        except Exception as error:
            self.failed = True
            self.emit(
                Notice(
                    text=f"The plug-in {self.name} failed and hears nothing more: "
                    f"{type(error).__name__}: {error} (`kode plugin disable {self.name}` turns it "
                    "off)."
                )
            )

    async def aclose(self) -> None:
        """Passes the end on to a subscriber that wants to know it."""
        closing = getattr(self.subscriber, "aclose", None)
        if closing is not None and not self.failed:
            await closing()

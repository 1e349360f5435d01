"""What plug-ins add to a conversation. A plug-in's fault is a notice and ends no session."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kode import installed
from kode.config.load import plugin_settings
from kode.errors import ConfigError, KodeError
from kode.events import Emit, Event, Level, Notice, Subscriber, TurnEnded
from kode.installed import Plugin, describe_plugin_fault, guard_plugin, load_part, try_plugin
from kode.permissions.decide import deny
from kode.session.entries import PLUGIN_TYPE, NoteEntry, PluginEntry
from kode.session.log import Session
from kode.session.messages import effective
from kode.tool import Action, CallDecision, Decision, Interceptor, Tool, plain_tool
from kode.values import Value, dataclass, field, replace
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.config.model import Config
    from kode.conversation.conversation import Conversation, RunTurn, Settings


@dataclass(frozen=True)
class PluginSession:
    """An open conversation, as a plug-in sees it."""

    plugin: Plugin
    settings: Any
    """An instance of the plug-in's settings model; None without one."""
    config: "Config"
    place: Workplace
    emit: Emit
    host: "PluginHost"

    @property
    def session(self) -> Session:
        """The session that is open now: `/new` and `/resume` open another."""
        return self.host.session

    @property
    def entry_type(self) -> str:
        """The type of the plug-in's entries in a session, and the prefix of its sections' names."""
        return f"x-{self.plugin.name}"

    def notice(self, text: str, *, level: Level = "warning", value: Any = None) -> None:
        """Says something to the person; `value` is the same for programs."""
        self.emit(Notice(text=text, level=level, value=value))

    def tell_model(self, text: str) -> None:
        """Adds a text for the model to the next message. Raises: StorageError."""
        self.session.append(NoteEntry(text=text))

    def record(self, value: Mapping[str, Any]) -> None:
        """Adds an entry to the session: JSON values. Raises: StorageError."""
        self.session.append(PluginEntry(type=self.entry_type, value=value))

    def records(self) -> list[Mapping[str, Any]]:
        """The values that the plug-in has recorded in the session, without rewound ones."""
        entries = (e for e in effective(self.session.entries) if isinstance(e, PluginEntry))
        return [entry.value for entry in entries if entry.type == self.entry_type]

    def refuse(self, reason: str) -> CallDecision:
        """For `before_call`: the call does not run; the model and the person read why."""
        return deny(f"The plug-in {self.plugin.name}: {reason}", by="plugin")

    def ask(self, reason: str) -> CallDecision:
        """For `before_call`: asks the person in every mode; if there is none, the call fails."""
        return Decision(outcome="ask", reason=f"The plug-in {self.plugin.name}: {reason}")

    def change(self, call: Action, arguments: Mapping[str, Any]) -> CallDecision:
        """For `before_call`: the call has these arguments. Permissions are decided for them."""
        return replace(call, arguments=arguments, changed_by=f"The plug-in {self.plugin.name}")


class Prompt(Value):
    """What a slash command of a plug-in sends to the model, as if the person had typed it."""

    text: str
    typed: str | None = None
    """Shown as the person's own words, as in a list of sessions; None: the command."""


@dataclass(kw_only=True)
class PluginHost:
    """The plug-ins of one conversation."""

    session: Session
    """The session that is open now."""
    screen: Emit
    """Shows an event to the person."""
    is_used: bool = False
    """Whether a slash command of a plug-in was used."""
    opened: list[PluginSession] = field(default_factory=list)
    subscribers: list[tuple[Plugin, Subscriber]] = field(default_factory=list)
    """The subscribers of plug-ins that have not failed."""
    tools: list[Tool] = field(default_factory=list)
    interceptors: list[Interceptor] = field(default_factory=list)
    """What plug-ins decide about calls."""

    def open(self, plugin: Plugin, settings: "Settings", place: Workplace) -> None:
        """Takes what a plug-in adds; in a subagent, only what decides about calls. Raises:
        ConfigError for settings that do not fit the plug-in's model; what its code raises."""
        is_whole = settings.child is None and any((*plugin.session_parts, plugin.slash))
        if not (is_whole or plugin.before_call):
            return
        config, emit = settings.config, settings.emit
        opened = PluginSession(plugin, plugin_settings(plugin, config), config, place, emit, self)
        if not PLUGIN_TYPE.fullmatch(opened.entry_type):
            raise ConfigError(f"{plugin.name!r} is no name: lower-case letters, digits, hyphens.")
        if code := plugin.before_call:
            self.interceptors.append(partial(_judge_call, opened, load_part(plugin, code)))
        if not is_whole:
            return
        self.opened.append(opened)
        if plugin.subscriber and (subscriber := load_part(plugin, plugin.subscriber)(opened)):
            self.subscribers.append((plugin, subscriber))
        for part in load_part(plugin, plugin.tools)(opened) if plugin.tools else ():
            tool = part if isinstance(part, Tool) else plain_tool(part)
            self.tools.append(replace(tool, run=guard_plugin(plugin, tool.run)))

    def emit(self, event: Event) -> None:
        """Emits to the screen and to every subscriber; one that fails gets no more events."""
        self.screen(event)
        for plugin, subscriber in list(self.subscribers):
            try:
                subscriber(event)
            except Exception as error:
                self.subscribers.remove((plugin, subscriber))
                self.screen(Notice(text=describe_plugin_fault(plugin, error)))

    def sections(self) -> dict[str, str]:
        """The sections of the system prompt, by name: `x-PLUGIN-` and the plug-in's own name."""
        sections: dict[str, str] = {}
        for opened in self.opened:
            sections |= try_plugin(opened.plugin, partial(_render_sections, opened), {})
        return sections

    def drop_clashes(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """The tools of a session without plug-in tools whose name another tool has, too."""
        counts = Counter(tool.name for tool in tools)
        clashing = [tool for tool in self.tools if counts[tool.name] > 1]
        for name in {tool.name for tool in clashing}:
            self.screen(Notice(text=f"A plug-in's tool {name} is left out: its name is taken."))
        return tuple(tool for tool in tools if tool not in clashing)

    async def run_slash_command(self, message: str) -> str | Prompt | None:
        """What the named slash command returns; None if no plug-in has it. Raises: KodeError."""
        name, _, argument = message[1:].partition(" ")
        for opened in self.opened:
            if command := opened.plugin.slash.get(name):
                self.is_used = True
                answer = installed.call_part(opened.plugin, command.run, opened, argument.strip())
                return await answer or ""
        return None

    def wrap_run(self, conversation: "Conversation", run: "RunTurn") -> "RunTurn":
        """Wraps `run` in what plug-ins do around a turn."""
        for opened in self.opened:
            if around := opened.plugin.around_turn:
                call = partial(installed.call_part, opened.plugin, around, opened, conversation)
                run = partial(_run_around, call, run)
        return run

    async def close(self, wait_s: float) -> None:
        """Lets each subscriber with an `aclose` finish, each within `wait_s`. Never raises."""
        for plugin, subscriber in self.subscribers:
            try:
                if hasattr(subscriber, "aclose"):
                    async with asyncio.timeout(wait_s):
                        await subscriber.aclose()
            except Exception as error:
                self.screen(Notice(text=describe_plugin_fault(plugin, error)))


def open_plugins(settings: "Settings", place: Workplace, session: Session) -> PluginHost:
    """Opens the plug-ins for a conversation. Raises: ConfigError; see also `installed.faults`."""
    for entry in installed.find_plugins():
        if entry.fault:
            settings.emit(Notice(text=f"The plug-in {entry.name} is not used: {entry.fault}."))
    host = PluginHost(session=session, screen=settings.emit)
    for plugin in installed.enabled_plugins():
        if plugin.name not in installed.faults:
            try_plugin(plugin, partial(host.open, plugin, settings, place), None)
    return host


def _render_sections(opened: PluginSession) -> dict[str, str]:
    plugin = opened.plugin
    texts = load_part(plugin, plugin.sections)(opened) if plugin.sections else {}
    return {f"{opened.entry_type}-{name}": str(text) for name, text in texts.items()}


async def _judge_call(opened: PluginSession, judge: Any, call: Action) -> CallDecision | None:
    """What a plug-in decides about a call; one that fails refuses it."""
    try:
        answer = guard_plugin(opened.plugin, judge)(opened, call)
        decision: object = await answer if isinstance(answer, Awaitable) else answer
    except KodeError as error:
        return deny(str(error), by="plugin")
    if isinstance(decision, CallDecision | None):
        return decision
    return opened.refuse(f"its `before_call` returned {decision!r}, which is no decision.")


async def _run_around(around: "RunTurn", run: "RunTurn", text: str, *limits: Any) -> TurnEnded:
    """Runs a turn with what a plug-in does around it, unless it has the limits of a command."""
    return await (run(text, *limits) if any(limits) else around(text, run))

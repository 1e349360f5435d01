"""A conversation: one process's agent and the session that is open now.

`sessions.py` opens and leaves its sessions, `turns.py` runs its turns, `rewind.py` goes back in it.
The functions of these modules are the methods of `Conversation`."""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kode import assembly, images, installed, paths
from kode.assembly import make_agent, open_workplace, use_small_profile
from kode.config.choice import resolve_model, resolve_provider, row_of, switch_provider
from kode.config.load import Loaded, add_setting_source
from kode.config.model import Config
from kode.conversation import rewind, sessions, turns
from kode.conversation.extensions import find_extensions
from kode.conversation.plugins import PluginHost, open_plugins
from kode.conversation.turns import file_part, outside_part, read_text
from kode.engine.agent import Agent
from kode.engine.call import preview_call
from kode.engine.context import (
    Context,
    answer_question,
    compact,
    context_tokens,
    is_compactable,
    open_context,
    window_parts,
)
from kode.engine.run import Run
from kode.engine.turn import run_turn
from kode.errors import StorageError, UserError
from kode.events import ContextReduced, Emit, Level, Notice, TurnEnded, Working, no_emit
from kode.extensions.mcp_config import Elicit, ServerEntry
from kode.extensions.review import FoundExtensions, in_use
from kode.extensions.session import Extensions
from kode.memory.contract import InjectReason, MemorySystem
from kode.messages import Image, Text, ToolCall, text_of
from kode.permissions.decide import find_outside_source, judge_command
from kode.permissions.gate import Gate
from kode.permissions.names import MODE_CALLED, MODE_MEANS
from kode.permissions.places import path_rules
from kode.permissions.question import Ask
from kode.permissions.rules import Rule
from kode.provider import EFFORTS, Provider
from kode.providers.provider import HttpProvider
from kode.session import log
from kode.session.entries import Header, MessageEntry, NoteEntry, TaintEntry, is_turn
from kode.session.index import writable_path
from kode.session.log import Session
from kode.session.messages import effective
from kode.session.plan import Plan
from kode.tool import ALLOWED, Action, Around, Decision, Tool, ToolContext
from kode.tools.background import BackgroundCommands
from kode.tools.builtin import BUILTIN, SMALL
from kode.values import KW_ONLY, Value, dataclass, field, replace
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.events import ToolStarted
    from kode.extensions.definitions import AgentDefinition
    from kode.extensions.hook_runs import Hooks
    from kode.memory.statement import Outcome
    from kode.sandbox.reach import Opens
    from kode.session.spending import Spending
    from kode.subagents.parent import Delegation
    from kode.subagents.task import Start
    from kode.tools.processes import ProgramRun


class Child(Value):
    """Makes a conversation a subagent's: its session is among its parent's records, it has no MCP
    servers of its own, and of plug-ins only those that decide about calls."""

    agent_type: str
    """The name of the definition that the subagent uses, for hooks."""
    definition: "AgentDefinition | None" = None
    """None: nothing limits its tools and skills."""
    folder: Path | None = None
    """The folder of its transcript and outputs among its parent's records; None: no parent."""
    parent_session: str | None = None
    start: "Start | None" = None
    """What its parent passed."""


@dataclass(frozen=True)
class Settings:
    """What a conversation is opened with; all its sessions share it."""

    loaded: Loaded
    """The configuration; `/model` and `/effort` replace it together with the agent."""
    _: KW_ONLY
    emit: Emit = no_emit
    ask: Ask | None = None
    """Puts a permission question to the person; None if nobody can be asked."""
    elicit: Elicit | None = None
    """Puts a form of an MCP server to the person."""
    tools: tuple[Tool, ...] = ()
    """Offered in addition to kode's own."""
    sections: Callable[[], Mapping[str, str]] = dict
    """What plug-ins add to the system prompt, by name."""
    memory: MemorySystem | None = None
    """Replaces the configured memory system."""
    keep_session: bool = True
    trust_project: bool = False
    """Whether the repository's extensions count as approved (`--trust-project`)."""
    servers: Sequence[ServerEntry] = ()
    """MCP servers named by the program that runs kode: trusted, and stored nowhere."""
    client_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """MCP servers, by name, that an editor names for the session: trusted, stored nowhere."""
    child: Child | None = None
    """None for the main agent."""

    @property
    def config(self) -> Config:
        return self.loaded.config

    def with_config(self, config: Config) -> "Settings":
        """A copy of these settings with another configuration."""
        return replace(self, loaded=replace(self.loaded, config=config))


BegunBy = Literal["startup", "clear", "resume"]  # how a session began, in the words of hooks
Steering = Callable[[], Sequence[Text]]  # what the person typed while a turn runs, each text once
RunTurn = Callable[..., Awaitable[TurnEnded]]
"""(text, interceptors for its calls = (), limits of the config for this turn alone) → how a
turn with that message ended. Raises: StorageError."""


@dataclass(kw_only=True)
class Conversation:
    """An agent with the session that is open now: `switch_session` opens another."""

    settings: Settings
    commands: BackgroundCommands
    """Commands and subagents in the background."""
    plugins: PluginHost
    extensions: Extensions | None = None
    """MCP servers and approvals; None in a subagent."""
    to_close: list[Provider] = field(default_factory=list)
    """Providers used before the current one; they are closed at the end."""
    attachments: list[Text | Image] = field(default_factory=list)
    """Sent with the next message."""
    notices: set[str] = field(default_factory=set)
    """The texts of notices that are given only once and were given."""
    start_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    # Of the session: `enter_session` sets them.
    agent: Agent = field(init=False)
    context: Context = field(init=False)
    begun_by: BegunBy = field(init=False)
    upkeep: "asyncio.Future[Any] | None" = field(init=False)
    """Background work that goes on until the session ends."""
    catalog: FoundExtensions | None = field(init=False)
    """The skills, commands and agents of the workplace; None before the first turn."""
    hooks: "Hooks | None" = field(init=False)
    """None if there are none."""
    delegation: "Delegation | None" = field(init=False)
    """What all subagents of the session share; None if it may have none."""
    last: TurnEnded | None = field(init=False)
    """How the last turn of this process ended."""
    fresh_plan: bool = field(init=False)
    """Whether that turn ended with a new plan."""
    waited_s: float = field(init=False)
    """How long the next turn has waited for the server, which may be loading its model."""
    closing: str = field(init=False)
    """What the end of the session waits for, in words for a person."""
    end_by: float | None = field(init=False)
    """When the session's last hooks must have ended, by `time.monotonic`; None until its end."""

    start = sessions.start_session
    switch_session = sessions.switch_session
    end_jobs = sessions.end_jobs
    close = sessions.close_session
    turn = turns.run_conversation_turn
    approve_plan = turns.approve_plan
    undo = rewind.undo
    redo = rewind.redo
    diffs = rewind.list_diffs
    prompts = rewind.list_prompts
    would_undo = rewind.files_to_undo
    is_cut_short = rewind.is_cut_short
    undo_rewind = rewind.undo_rewind
    undo_compaction = rewind.undo_compaction
    rewind = rewind.rewind

    @property
    def config(self) -> Config:
        return self.settings.loaded.config

    @property
    def session(self) -> Session:
        return self.context.session

    @property
    def gate(self) -> Gate:
        return self.agent.gate

    @property
    def place(self) -> Workplace:
        return self.agent.place

    @property
    def plan(self) -> Plan:
        """The plan on disk."""
        return Plan(self.place.plan)

    @property
    def folder(self) -> Path:
        """The folder beside the session; a temporary one for a session without a file."""
        if self.session.id is None:
            return self.agent.undo.folder
        return paths.session_folder(self.place.home, self.session.id)

    @property
    def context_tokens(self) -> int:
        """How full the model's window is."""
        return context_tokens(self.context)

    @property
    def cost_usd(self) -> float | None:
        """The cost of the session's requests of known price; None if no price is known."""
        spent, is_priced = self.session.spent, self.agent.provider.info.is_priced
        return spent.cost_usd if spent.cost_usd or (is_priced and not spent.unpriced) else None

    @property
    def agents_folder(self) -> Path:
        """The folder with the records of subagents."""
        child = self.settings.child
        return paths.agents_folder((child and child.folder) or self.folder)

    def say_once(self, text: str, level: Level = "warning") -> None:
        """Emits a notice, unless this text was given before."""
        if text not in self.notices:
            self.notices.add(text)
            self.settings.emit(Notice(text=text, level=level))

    def report(self, error: StorageError) -> None:
        """Reports a fault once, unless it is the one that the last turn ended with or raised."""
        if self.last is None or str(error) != self.last.error:
            self.say_once(str(error), "error")

    def note_work(self, what: str) -> None:
        """Shows the person what kode itself is busy with; "" ends that."""
        self.settings.emit(Working(what=what))

    def note(self, text: str) -> None:
        """Tells the model something with the next message. Raises: StorageError."""
        self.session.append(NoteEntry(text=text))

    def note_outside(self, text: str, source: str) -> None:
        """Attaches text from outside to the next message, fenced as such."""
        self.attachments.append(outside_part(text, source))

    def mark_outside(self, source: str) -> None:
        """Marks the session once as having read outside text. Raises: StorageError."""
        if not self.session.tainted_by:
            self.session.append(TaintEntry(source=source))

    def keep_picture(self, name: str, data: bytes) -> Image:
        """Saves a copy of an image or a PDF file beside the session, in a size that servers accept,
        and returns the part to attach. Shrinking takes a second. Raises: UserError if it is
        neither, cannot be shrunk, or the model cannot see it; StorageError."""
        picture, provider = images.fit_picture(images.Picture(name, data)), self.agent.provider
        looks = images.read_header(picture.data)
        is_pdf = looks is not None and looks.media_type == images.PDF
        if (provider.info.sees_pdf if is_pdf else provider.info.sees_images) is False:
            kind = "PDF files" if is_pdf else "images"
            raise UserError(
                f"{provider.model} cannot see {kind}, so {name} is not sent. Use another model, or "
                "set `context.sees_images` where kode is wrong about it."
            )
        return images.save_picture(paths.images_folder(self.folder), name, picture.data)

    def quote_file(self, name: str, text: str, path: Path | None) -> Text:
        """A file's text, to attach; see `turns.file_part`."""
        return file_part(name, text, path, self.place.roots, self.agent.marks)

    def attach_files(self, names: Iterable[str]) -> None:
        """Attaches text files, images and PDFs to the next turn, under these names: all or none.
        Raises: UserError for one that cannot be read or sent, or is too large; StorageError."""
        parts: list[Text | Image] = []
        for name in names:
            path = self.place.cwd / paths.expand_path(name)
            try:
                if picture := images.read_picture(path):
                    parts.append(self.keep_picture(picture.name, picture.data))
                else:
                    parts.append(self.quote_file(name, read_text(path), path))
            except UserError as error:
                raise UserError(f"{name}: {error}") from error
        self.attachments += parts

    def attach_command(self, command: str, text: str) -> None:
        """Attaches a command that the person ran, with its output, to the next turn; outside text
        under the same rules as for a command of the model."""
        where = path_rules(self.place)
        line = judge_command(command, where)
        source = find_outside_source(line, where) or self.agent.marks.find_source(line.reads)
        part = outside_part(text, source) if source else Text(text=text, source="attachment")
        self.attachments.append(part)

    async def run_program(
        self, argv: Sequence[str], timeout_s: float
    ) -> "tuple[ProgramRun, Opens]":
        """Runs a program beside the session; see `assembly.run_recording_opens`."""
        return await assembly.run_recording_opens(self.config, self.place, argv, timeout_s)

    def deny_edits(self, patterns: Mapping[str, str]) -> None:
        """Has the gate, and those of subagents that start later, deny edits of files that match
        these patterns (pattern → reason). They replace the patterns of an earlier call."""
        rules = (Rule("edit", pattern, why) for pattern, why in patterns.items())
        self.gate.state.denied = tuple(rules)

    async def learn_model(self) -> None:
        """Lets the provider ask its server about the model, at most for a turn's time limit. Warns
        once if `web_search` is on and the provider cannot search the web."""
        provider, began = self.agent.provider, time.monotonic()
        if isinstance(provider, HttpProvider):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(provider.learn(self.settings.emit), self.config.timeout_s)
        self.waited_s, provider = time.monotonic() - began, self.agent.provider
        if self.config.web_search:
            self.agent = replace(self.agent, search=assembly.can_search_web(self.config, provider))
            if not self.agent.search:
                self.say_once(
                    f"`web_search` is on, but {provider.name} does not search the web for "
                    f"{provider.model}. `kode mcp add` adds an MCP server that searches; "
                    "docs/models.md names the models that do."
                )

    def use_model(self, model: str, provider: str | None = None) -> None:
        """`/model`: sends the next request to this model of the named provider, or of the provider
        that the model's name belongs to. Raises: UserError."""
        current, small, config = self.agent.provider, self.agent.small_model, self.config
        if provider is None:
            provider, model = resolve_model(config, os.environ, row_of(config, current.name), model)
        settings = self.settings.with_config(switch_provider(config, os.environ, provider, model))
        choice = resolve_provider(settings.config, os.environ, settings.loaded.origins)
        chosen = assembly.make_provider(settings.config, choice)
        parts = assembly.model_parts(settings, choice, chosen)
        if config.memory.model or config.small_model:  # the model named for small work stays
            parts["small_model"], small = small, None
        self.to_close += filter(None, (current, small))
        self.settings, self.agent = settings, replace(self.agent, **parts)
        self.context.known_messages = 0

    def use_effort(self, level: str | None) -> None:
        """`/effort`: how much the model thinks from the next request on; None or "default": as kode
        and the model decide. Raises: UserError for a word that is no level."""
        if level not in (None, "default", *EFFORTS):
            levels = ", ".join(("default", *EFFORTS))
            raise UserError(f"There is no effort {str(level)[:40]!r}. The levels are: {levels}.")
        effort: Any = None if level == "default" else level
        self.settings = self.settings.with_config(replace(self.config, effort=effort))
        self.agent = replace(self.agent, effort=resolve_provider(self.config, os.environ).effort)

    def list_models(self, *, ask: bool = False) -> tuple[str, ...]:
        """The models that the provider offers; see `server.list_models`. Call it in a thread."""
        from kode.providers.server import list_models

        choice = resolve_provider(self.config, os.environ, self.settings.loaded.origins)
        return list_models(choice, (self.agent.provider.model, *self.config.prices), ask=ask)

    @property
    def modes(self) -> dict[str, str]:
        """The permission modes to choose from → what each means; `full` only if a person set it."""
        set_by_person = (self.gate.state.mode, self.config.permissions.mode)
        return {m: what for m, what in MODE_MEANS.items() if m != "full" or m in set_by_person}

    def set_permission_mode(self, mode: str) -> None:
        """Sets the mode for further calls. `mode` may be the name that another agent gives it."""
        self.gate.state.mode = MODE_CALLED[mode]

    async def compact(self, wish: str = "") -> ContextReduced | None:
        """`/compact`: compacts now; sends nothing and returns None if that would free nothing.
        `wish` says what the person wants in the note. Raises: KodeError."""
        await self.start()
        if not is_compactable(self.agent, self.context):
            return None
        return await compact(self.agent, self.context, self.settings.emit, wish=wish)

    async def answer_question(self, question: str) -> str:
        """`/btw`, see `engine.context.answer_question`. Raises: KodeError."""
        await self.start()
        return await answer_question(self.agent, self.context, question)

    async def window(self) -> dict[str, int]:
        """What fills the model's window, or will at the start: kind → tokens."""
        await self.start()
        return window_parts(self.context)

    async def spending(self) -> "dict[str, Spending]":
        """Spending by model in the last `turn`, the `session`, the `day`. Raises: StorageError."""
        from kode.session.spending import Spending

        entries, begins = self.session.entries, self.session.turn_id
        # Made local after the fact: on a day that changes the clocks midnight has another offset.
        midnight = datetime.combine(date.today(), datetime.min.time()).astimezone()
        requests = Spending.requests_by_folder(self.place.home, midnight)
        day = await asyncio.to_thread(lambda: Spending.of(entry for *_, entry in requests))
        turn = Spending.of(dropwhile(lambda entry: entry.id != begins, entries))
        return {"turn": turn, "session": Spending.of(entries), "day": day}

    def last_answer(self) -> str:
        """What the model said last since the person's last message; "" for nothing."""
        past = takewhile(lambda it: not is_turn(it), reversed(effective(self.session.entries)))
        answers = (it for it in past if isinstance(it, MessageEntry) and it.role == "assistant")
        return next(filter(None, map(text_of, answers)), "")

    def list_offered(self) -> dict[str, str]:
        """The commands and skills that a message may begin with → what each does. Reads files."""
        offered = {
            name: added.summary for name, (_, added) in installed.find_additions("slash").items()
        }
        catalog = self.catalog or find_extensions(self.place.cwd, self.settings.trust_project)
        offered |= {skill.item.name: skill.description for skill in in_use(catalog.skills)}
        for command in in_use(catalog.commands):
            offered[command.item.name] = f"{command.argument_hint} {command.description}".strip()
        return offered

    async def memory_command(self, argv: Sequence[str]) -> "Outcome":
        """`/memory ...`: as `kode memory ...`, on the open memory. Raises: KodeError."""
        from kode.memory.commands import run_line

        await self.start()
        return await run_line(self.agent.memory, argv)

    def preview_call(self, call: ToolCall) -> "tuple[ToolStarted, Action | None]":
        """A call for display, before its outcome is known: see `engine.call.preview_call`."""
        return preview_call(self.agent, call)

    def result_object(self, ended: TurnEnded, warnings: Sequence[str] = ()) -> dict[str, Any]:
        """A turn's result as `kode run --output-format json` prints it."""
        from kode.events import result_object

        untrusted, cwd = self.extensions.untrusted if self.extensions else (), self.place.cwd
        return result_object(ended, self.session.id, cwd, untrusted=untrusted, warnings=warnings)


async def open_conversation(
    settings: Settings,
    *,
    cwd: Path,
    session_id: str | None = None,
    new_id: str | None = None,
    task: str = "",
    attachments: Sequence[Text | Image] = (),
    provider: Provider | None = None,
) -> Conversation:
    """Opens a new session in `cwd` (under `new_id`, if given), or the one with `session_id`. `task`
    is the first turn's text, if known: it is on disk before anything else is done; `attachments`
    go with it. `provider` replaces the configured one. Raises: UserError (no key, bad rules,
    session open elsewhere, disk full), SessionError."""
    home, config, origins = paths.kode_home(), settings.config, settings.loaded.origins
    for warning in settings.loaded.warnings:
        settings.emit(Notice(text=warning))
    provider = provider or assembly.make_provider(
        config, resolve_provider(config, os.environ, origins)
    )
    try:
        opened = settings, home, cwd, provider, session_id
        session = sessions.open_session(*opened, new_id=new_id, task=task)
    except StorageError as error:
        raise error if settings.child is not None else sessions.not_recorded_error(error) from error
    if settings.child is None and (fault := paths.find_home_fault(home)):
        settings.emit(Notice(text=fault))
    try:
        place = open_workplace(config, home, cwd)
        plugins = open_plugins(settings, place, session)
        tools = (*settings.tools, *plugins.tools)
        emit = plugins.emit if plugins.subscribers else settings.emit
        settings = replace(settings, emit=emit, tools=tools, sections=plugins.sections)
        commands = BackgroundCommands(settings.emit)
        conversation = Conversation(
            settings=settings, commands=commands, plugins=plugins, attachments=[*attachments]
        )
        begun_by: BegunBy = "startup" if session_id is None else "resume"
        sessions.enter_session(conversation, session, provider, place, begun_by)
        if settings.child is None:
            conversation.extensions = assembly.make_extensions(settings, conversation.agent)
            conversation.extensions.begin()
    except BaseException as error:
        session.close()
        add_setting_source(error, origins)
        raise
    return conversation


class _OpenGate(Gate):
    """Allows every call: no tool runs, because `BareSession.staff` is told the results."""

    async def judge(self, action: Action, context: ToolContext) -> Decision:
        return ALLOWED


@dataclass(kw_only=True)
class BareSession:
    """A new session with an agent for it: `create` it, `staff` it, `open` it, then run turns."""

    settings: Settings
    place: Workplace
    context: Context
    agent: Agent = field(init=False)
    """Made by `staff`; may be replaced before `open`."""

    @classmethod
    def create(cls, config: Config, *, home: Path, cwd: Path, provider: Provider) -> "BareSession":
        """A session in a home of its own. Raises: ConfigError, StorageError."""
        settings = Settings(Loaded(config=config, origins={}))
        place = open_workplace(config, home, cwd)
        header = Header(cwd=writable_path(cwd), model=provider.model, provider=provider.name)
        return cls(settings=settings, place=place, context=Context(log.create(home, header)))

    def staff(
        self, provider: Provider, tools: Sequence[Tool], *, memory: MemorySystem, answer: Around
    ) -> None:
        """Gives the session an agent with these tools only. Every call is allowed, and `answer`
        gives its result in place of the tool. Raises: ConfigError for bad rules."""
        settings = replace(self.settings, memory=memory)
        agent = make_agent(settings, provider, self.context.session, self.place)
        if {tool.name for tool in BUILTIN} & {tool.name for tool in tools} <= {*SMALL}:
            agent = use_small_profile(agent, settings)
        gate = _OpenGate(rules=agent.gate.rules, state=agent.gate.state, place=agent.place)
        self.agent = replace(agent, tools=tuple(tools), gate=gate, around=answer)

    async def open(self, reason: InjectReason) -> None:
        """Renders the system prompt or, in a later process, what has changed in it."""
        await open_context(self.agent, self.context, reason)

    async def turn(
        self, text: str, attachments: Sequence[Text | Image], steering: Callable[[], Sequence[Text]]
    ) -> TurnEnded:
        """Runs one turn as `engine.turn.run_turn` does, and raises what it raises."""
        run = Run(agent=self.agent, context=self.context, emit=no_emit, steering=steering)
        return await run_turn(run, text, attachments)

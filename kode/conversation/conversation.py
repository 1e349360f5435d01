"""The conversation: an agent with an open session, and what a face may ask of it.

`opening` opens one; `sessions` handles its files.
"""

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import images, paths
from kode.assembly import (
    can_search,
    cost_function,
    face_of,
    is_small,
    learn,
    make_agent,
    make_delegation,
    make_memory_context,
    make_provider,
    of_session,
    secrets_of,
    simplify,
)
from kode.config import Config, Loaded, provider_for, resolve_provider, switched
from kode.contracts import (
    CALLS_ANY,
    Effort,
    InjectReason,
    MemorySystem,
    PermissionMode,
    Provider,
    Tool,
)
from kode.conversation import hooking
from kode.conversation.extensions import find_brought, open_extensions
from kode.conversation.memory import finish_approvals
from kode.conversation.past import Past
from kode.conversation.planning import keep_plan, notes_before_turn
from kode.conversation.plugged import Plugged
from kode.conversation.prepared import named_in, names_offered, turn_of
from kode.conversation.sessions import (
    create_session,
    finish_imports,
    load_session,
    remove_stale_temporaries,
)
from kode.engine.agent import Agent
from kode.engine.context import (
    Context,
    compact,
    context_tokens,
    is_worth_compacting,
    open_context,
)
from kode.engine.fence import fence_text
from kode.engine.trial import settle_ended
from kode.engine.turn import run_turn, save_memory_state
from kode.engine.window import Window, window_of
from kode.errors import StorageError, UserError
from kode.events import ContextReduced, Emit, Notice, SessionStarted, TurnEnded
from kode.extensions.brought import Brought, in_use
from kode.extensions.hook_moments import Hooks
from kode.extensions.session import Extensions, Outside
from kode.messages import Image, Text, Usage, first_of, plural, shorten, text_of
from kode.permissions.gate import Ask, PersonGate
from kode.permissions.rules import FAMILIES, parse
from kode.providers.models import retirement_note
from kode.session import unsent
from kode.session.checkpoints import Checkpoints
from kode.session.entries import (
    TaintEntry,
)
from kode.session.log import Session, was_trimmed
from kode.tools.background import BackgroundCommands

if TYPE_CHECKING:
    from kode.session.spending import Spending
    from kode.subagents.channel import Delegation


def no_sandbox(why: str) -> Notice:
    """The notice that commands cannot be tried, so kode asks more questions."""
    return Notice(
        text=f"No sandbox here ({why.rstrip('.')}): only plain reading commands run without "
        "asking. `kode doctor` says what to do."
    )


def no_search(provider: Provider) -> str:
    """What to do where `web_search` is wanted and the vendor has none."""
    return (
        f"`web_search` is on, but {provider.name} does not search the web for {provider.model}. "
        "`kode mcp add` adds an MCP server that searches; docs/models.md names the models that do."
    )


CLOSE_GRACE_S = 15.0
INTERRUPTED_GRACE_S = 2.0
MAINTAIN_EVERY_S = 6 * 3600.0


@dataclass(frozen=True, kw_only=True)
class StatusLine:
    """What a status line shows."""

    provider: str
    model: str
    mode: PermissionMode
    session_id: str | None
    turns: int
    context_tokens: int
    context_window: int
    usage: Usage
    cost_usd: float | None
    """Total of the requests with a known price; None without any, if the model's price is unknown
    too."""
    cost_is_partial: bool = False
    """Whether some requests had an unknown price."""
    jobs: int = 0
    """Running commands in the background."""


def _check_names(tools: Sequence[Tool]) -> None:
    """Raises: UserError for two tools with the same name, which would make calls ambiguous."""
    for name, count in Counter(tool.name for tool in tools).items():
        if count > 1:
            raise UserError(f"There are {count} tools called {name}. Give yours another name.")


@dataclass
class Conversation:
    """An agent with an open session; see `open_conversation`."""

    loaded: Loaded
    emit: Emit
    ask: Ask | None
    agent: Agent
    gate: PersonGate
    """The agent's, which shares its state: there, hooks answer questions before the person."""
    checkpoints: Checkpoints
    context: Context
    hooks: Hooks = field(init=False)
    """Made when the conversation opens."""
    brought: Brought = field(default_factory=Brought)
    """The skills, commands and agents available in the workplace."""
    keep_session: bool = True
    attachments: tuple[Text | Image, ...] = ()
    """Sent with the next turn."""
    steering: Callable[[], Sequence[str]] = tuple
    """Returns what the person has typed while a turn runs, each text once."""
    typed: str | None = None
    """What the person typed of the message of the next turn, without pasted blocks; None: all."""
    resumed: bool = False
    opened: bool = False
    interrupted: bool = False
    reported: str = ""
    """The last fault that was reported: of the last turn, or of the disk."""
    unsent: str = ""
    """What the person asked in a turn that was cut short before it began: goes with the next."""
    fresh_plan: bool = False
    """Whether the last turn ended with a plan."""
    unread_results: bool = False
    """Whether subagents may have left results that the model has not seen."""
    only_tools: frozenset[str] | None = None
    """The names of the only available tools; None: all."""
    begun_by: str = "startup"
    """For hooks: how a new session began, `startup` or `clear`."""
    trust_project: bool = False
    """Whether the repository's extensions count as approved (`--trust-project`)."""
    agent_type: str | None = None
    """For hooks: the definition that a subagent uses; None for the main agent."""
    own_agents_folder: Path | None = None
    """Where records of subagents are written; None: beside the session."""
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    retirement_said: str = ""
    """The last sentence about a model that its vendor no longer serves."""
    waited_s: float = 0.0
    """How long the next turn has waited for the server, which may be loading its model."""
    to_close: list[Provider] = field(default_factory=list)
    """Providers that were asked, besides the current one: closed at the end."""
    without_search: str = ""
    """The model of which was said that it cannot search the web, although that is wanted."""
    delegation: "Delegation | None" = None
    """What all subagents of this session share; None before they can start."""
    background: set["asyncio.Task[None]"] = field(default_factory=set)
    commands: BackgroundCommands = field(default_factory=BackgroundCommands)
    """Commands that the person moved to the background; they belong to the process, not to one
    session."""
    extensions: Extensions | None = None
    """Extensions from outside kode; they belong to the process, not to one session. None in a
    subagent."""
    plugged: Plugged | None = None
    """The plug-ins; they belong to the process. None in a subagent."""
    own_tools: tuple[Tool, ...] = ()
    own_memory: MemorySystem | None = None
    """The memory of an embedding program; it belongs to the process, not to one session."""

    @property
    def config(self) -> Config:
        return self.loaded.config

    @property
    def session(self) -> Session:
        return self.context.session

    @property
    def cwd(self) -> Path:
        return self.agent.place.cwd

    @property
    def home(self) -> Path:
        return self.agent.place.home

    @property
    def past(self) -> Past:
        """The prompts so far, and ways back."""
        return Past(self)

    async def open(self) -> None:
        """Opens memory and renders the system prompt, once; the first turn calls it."""
        async with self.opening:
            if self.opened:
                return
            await self._learn()
            small = is_small(self.config, self.agent.provider)
            if small:
                self.agent = simplify(self.agent, self.config)
            self._add_sections()
            memory = self.agent.memory
            context = make_memory_context(
                self.agent,
                self.config,
                self.session,
                emit=self.emit,
                current=lambda: (self.agent, self.config),
                opens=self.to_close.append,
                typed=lambda sentence: (
                    self.typed is None or sentence in " ".join(self.typed.split())
                ),
            )
            await memory.open(context, self.session.state(memory.name))
            await finish_approvals(memory, context)
            of_servers = await open_extensions(self)
            delegation = () if small else self._delegation_tools()
            offered = {tool.name for tool in of_servers}
            begun = self.session.beginning if self.session.messages else None
            declared = {tool["name"] for tool in begun.tools} if begun else offered
            own = [
                tool
                for tool in (*self.agent.tools, *delegation, *memory.tools())
                if tool.name in declared or self.hooks.judge_calls or self.gate.could_run(tool)
            ]
            reachable = self.extensions.reachable if self.extensions is not None else ()
            tools = tuple(
                tool
                for tool in (*own, *(one for one in reachable if one.name in declared | offered))
                if self.only_tools is None or tool.name in self.only_tools
            )
            if self.plugged is not None:
                tools = self.plugged.without_clashes(tools)
            _check_names(tools)
            self.agent = replace(self.agent, tools=tools, servers=self._servers())
            self._name_idle_rules()
            await open_context(self.agent, self.context, self._inject_reason())
            self._name_unreachable(offered - declared)
            await self.past.finish_undos()
            self.opened = True
            if small and self.config.profile == "auto":
                self._say_small()
            checkpoints = self.checkpoints if self.resumed else None
            self.in_background(remove_stale_temporaries(self.home, checkpoints, self.config))
            self.in_background(finish_imports(self.home, self.emit))
            self.in_background(self._maintain())
            self.in_background(self._try_sandbox())
            await hooking.begin_session(self, "resume" if self.resumed else self.begun_by)

    def _add_sections(self) -> None:
        """Puts plug-ins' sections of the system prompt before memory's, which changes more."""
        if self.plugged is not None and (added := self.plugged.sections()):
            render = self.agent.render_system
            self.agent = replace(self.agent, render_system=lambda late: render({**added, **late}))

    async def _learn(self) -> None:
        """Lets the provider ask its server about the model, at most for a turn's time limit. Says
        if the model is retired, once for each."""
        began = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.agent.limits.timeout_s):
                await learn(self.agent.provider, self.emit)
        self.waited_s = time.monotonic() - began
        provider = self.agent.provider
        note = retirement_note(provider.info, provider.model, date.today()) or ""
        if note and note != self.retirement_said:
            self.emit(Notice(text=note))
        self.retirement_said = note
        self._settle_search()

    def _settle_search(self) -> None:
        """Decides whether the vendor's server may search the web, now that it has said what it can;
        says once what to do if it cannot."""
        provider = self.agent.provider
        search = can_search(self.config, provider)
        if search != self.agent.search:
            self.agent = replace(self.agent, search=search)
        if self.config.web_search and not search and self.without_search != provider.model:
            self.without_search = provider.model
            self.emit(Notice(text=no_search(provider)))

    def _say_small(self) -> None:
        provider = self.agent.provider
        self.emit(
            Notice(
                text=f"The window of {provider.model} is {provider.info.context_window:,} tokens, "
                f"so it gets {len(self.agent.tools)} tools and a short prompt "
                '(`"profile": "full"` in the config for all).',
                level="info",
            )
        )

    def _name_idle_rules(self) -> None:
        """Warns about rules in the settings that match no tool: a mistyped one would do nothing."""
        names = {*FAMILIES, *(tool.name for tool in self.agent.tools)}
        given = self.config.permissions
        rules = dict.fromkeys((*given.deny, *given.ask, *given.allow))
        if idle := [text for text in rules if parse(text).name not in names]:
            self.emit(
                Notice(text=f"No tool of this session has the name of the rule {', '.join(idle)}.")
            )

    def offered(self) -> dict[str, str]:
        """The commands and skills that a message may begin with → what each does. Reads files
        before the first turn."""
        return names_offered(self.brought if self.opened else find_brought(self))

    async def _try_sandbox(self) -> None:
        """Probes the sandbox while the model works on its first reply."""
        sandbox = self.agent.sandbox
        if sandbox is not None and not sandbox.cannot_hold():
            await asyncio.to_thread(sandbox.holds)
            if why := sandbox.why_missing():
                self.emit(no_sandbox(why))

    async def turn(self, text: str) -> TurnEnded:
        """Runs one turn to its end. Cancelling the calling task interrupts the turn.

        Raises: StorageError if the text could not be recorded; ToolError if the named command or
        skill has changed since it was approved; UserError if a hook refuses the message, or a
        server's prompt needs more arguments; ServerError.
        """
        text, self.unsent = unsent.joined(self.unsent, text), ""
        unsent.keep(self.home, self.session, text)
        try:
            return await self._turn(text)
        finally:
            with contextlib.suppress(StorageError):  # it is known to be in the session
                unsent.drop(self.home, self.session)

    async def _turn(self, text: str) -> TurnEnded:
        if self.opened:  # else `open` does it
            await self._learn()
        await self.open()
        if self.unread_results:
            await self._read_late_results()
        if news := self.commands.news(self.session.id):
            self.attachments += (Text(text=news, source="note"),)
        await hooking.submit(self, text)
        thing = named_in(self.brought, text)
        if thing is not None:
            ended = await turn_of(self, thing, text)
        else:
            ended = await self.plain_turn(await self._expand(text))
        return await hooking.end_turn(self, ended)

    async def _expand(self, text: str) -> str:
        """Expands the prompt of a server, `/mcp__server__prompt words`: attaches its text and
        returns a message that points to it. Returns other messages unchanged. Raises: UserError,
        ServerError."""
        name, _, argument = text.partition(" ")
        if self.extensions is None:
            return text
        found = await self.extensions.expand(name, argument.strip())
        if found is None:
            return text
        self.attach_outside(found)
        return f"Follow the prompt I chose with {name}."

    async def plain_turn(self, text: str) -> TurnEnded:
        """Runs a turn whose message is not a command. Raises: StorageError."""
        notes = notes_before_turn(self)
        if self.extensions is not None:
            self.attach_outside(*await self.extensions.mentioned(text))
        attachments, self.attachments = (*self.attachments, *notes), ()
        planned = self.mode == "plan"
        ended = await run_turn(
            self.agent, self.context, text, self.emit, attachments, self.steering, self.waited_s
        )
        self.waited_s = 0.0
        self.interrupted = ended.status == "interrupted"
        self.reported = ended.error or ""
        self.unread_results = ended.status != "success"
        try:
            self.fresh_plan = planned and keep_plan(self, ended)
            self.checkpoints.end_turn()
        except StorageError as error:
            self._report(error)
        return ended

    def attach_picture(self, name: str, data: bytes) -> Image:
        """Attaches an image to the next turn; kode keeps a copy with the session.

        Raises: UserError if it is not an image, is too large, or this model cannot see;
        StorageError.
        """
        provider = self.agent.provider
        looks = images.looks_of(data)
        is_pdf = looks is not None and looks.media_type == images.PDF
        if (provider.info.sees_pdf if is_pdf else provider.info.sees_images) is False:
            raise UserError(
                f"{provider.model} cannot see {'PDF files' if is_pdf else 'images'}, so {name} is "
                "not sent. Use another model, or set `context.sees_images` where kode is wrong "
                "about it."
            )
        image = images.keep(paths.images_folder(self._side_folder), name, data)
        self.attachments += (image,)
        return image

    def attach_command(self, command: str, text: str) -> None:
        """Attaches a command that the person ran, with its output, to the next turn."""
        from kode.conversation.attachments import command_part

        agent = self.agent
        self.attachments += (command_part(command, text, agent.place, agent.marks),)

    def attach_outside(self, *texts: Outside) -> None:
        """Attaches texts of extensions to the next turn, as outside text."""
        self.attachments += tuple(
            Text(text=fence_text(one.text, one.source), source="outside") for one in texts
        )

    async def compact(self, wish: str = "") -> ContextReduced | None:
        """`/compact`: compacts now; None if there is nothing to compact. `wish` says what the
        person wants in the note. Raises: KodeError."""
        await self.open()
        if not is_worth_compacting(self.session):
            return None
        return await compact(self.agent, self.context, self.emit, wish=wish, by_person=True)

    async def new_session(self) -> None:
        """`/new`: lets memory process the session, then starts an empty one.

        If cancelled while memory works, the old session stays open and nothing is lost.
        """
        if self.session.messages:
            await self.open()
            await self.agent.memory.before_drop(list(self.session.messages), "reset")
        await self._leave("clear")
        self.begun_by = "clear"
        self._enter(self._create_session(), resumed=False)

    async def resume(self, session_id: str) -> None:
        """`/resume`: closes this session as at exit and opens another.

        Raises: SessionError, BusyError; then this session stays open.
        """
        session = load_session(self.home, session_id, self.emit)
        if self.opened and self.session.messages:
            await self.agent.memory.before_drop(list(self.session.messages), "exit")
        await self._leave("resume")
        self._enter(session, resumed=True)

    def use_model(self, model: str, provider: str | None = None) -> None:
        """`/model`: sends the next request to this model, of the named provider, or of the one that
        its name belongs to. Raises: UserError."""
        current = self.agent.provider.name
        name = provider or provider_for(self.config, os.environ, current, model)
        config = switched(self.config, os.environ, name, model)
        choice = resolve_provider(config, os.environ)
        opened = make_provider(config, choice)
        self.to_close.append(self.agent.provider)
        self.loaded = replace(self.loaded, config=config)
        self.agent = replace(
            self.agent,
            provider=opened,
            effort=choice.effort,
            face=face_of(config, opened),
            search=can_search(config, opened),
            cost_usd=cost_function(opened),
            secrets=secrets_of(choice),
        )
        self.context.known_messages = 0

    def use_effort(self, effort: Effort | None) -> None:
        """`/effort`: how much the model thinks from the next request on; None: its default."""
        config = self.config.model_copy(update={"effort": effort})
        self.loaded = replace(self.loaded, config=config)
        self.agent = replace(self.agent, effort=resolve_provider(config, os.environ).effort)

    def _inject_reason(self) -> InjectReason:
        if not self.resumed:
            return "start"
        return "trimmed" if was_trimmed(self.session) else "resume"

    def _servers(self) -> tuple[str, ...]:
        return tuple(self.extensions.servers) if self.extensions is not None else ()

    def _name_unreachable(self, names: set[str]) -> None:
        """Says that a continued session does not have the tools of a server that is new to it."""
        declared = {spec.name for spec in self.context.specs}
        if names and CALLS_ANY not in declared:
            self.emit(
                Notice(
                    text="This session began without the tools "
                    f"{', '.join(first_of(sorted(names), 3))}. `/compact` or a new session offers "
                    "them to the model."
                )
            )

    @property
    def mode(self) -> PermissionMode:
        return self.gate.mode

    def set_permission_mode(self, mode: PermissionMode) -> None:
        """Applies from the next call on."""
        self.gate.mode = mode

    def status(self) -> StatusLine:
        return StatusLine(
            provider=self.agent.provider.name,
            model=self.agent.provider.model,
            mode=self.gate.mode,
            session_id=self.session.id,
            turns=self.session.turns,
            context_tokens=self._context_tokens(),
            context_window=self.agent.provider.info.context_window,
            usage=self.session.usage,
            cost_usd=self._known_cost(),
            cost_is_partial=self.session.unpriced,
            jobs=len(self.commands.running()),
        )

    def _context_tokens(self) -> int:
        """Before a resumed session's first turn: the size of its last request."""
        if self.opened:
            return context_tokens(self.context)
        used = next((one.usage for one in reversed(self.session.messages) if one.usage), Usage())
        return used.input_tokens + used.output_tokens

    def _known_cost(self) -> float | None:
        known = self.session.cost_usd > 0 or self.agent.cost_usd(Usage()) is not None
        return self.session.cost_usd if known else None

    async def window(self) -> Window:
        """What fills the model's window; before the first turn, what it starts with."""
        await self.open()
        return window_of(self.agent, self.context)

    async def spending(self) -> "dict[str, Spending]":
        """Spending by model, for the last `turn`, the `session`, and the `day`.

        Raises: StorageError.
        """
        from kode.session.spending import last_turn, spending_of, spending_since

        entries = self.session.entries
        # Made local after the fact: on a day that changes the clocks midnight has another offset.
        midnight = datetime.combine(date.today(), datetime.min.time()).astimezone()
        day = await asyncio.to_thread(spending_since, self.home, midnight)
        turn, session = spending_of(last_turn(entries)), spending_of(entries)
        return {"turn": turn, "session": session, "day": day}

    def last_answer(self) -> str:
        """The latest text of the model; "" if there is none."""
        for message in reversed(self.session.messages):
            if message.role == "assistant" and text_of(message):
                return text_of(message)
        return ""

    async def memory_command(self, argv: Sequence[str], *, undo: str = "kode memory undo") -> str:
        """`/memory ...`: as `kode memory ...`, on the open memory. Also `/memory reload`, which
        renders the system prompt again. `undo` is the command that the text names for undoing a
        change. Raises: KodeError."""
        from kode.memory.commands import memory_command

        await self.open()
        if list(argv) == ["reload"]:
            await open_context(self.agent, self.context, "resume")
            return "The next message tells the model what has changed in memory."
        return await memory_command(self.agent.memory, list(argv), undo=undo)

    async def opened_memory(self) -> MemorySystem:
        """The open memory, to review entries that wait for approval. Raises: KodeError."""
        await self.open()
        return self.agent.memory

    async def close(self) -> None:
        """Ends the session: memory processes it within its deadline and leaves the rest pending for
        the next start. An unused session leaves no file."""
        try:
            if self.opened and self.session.messages and not self.interrupted:
                await self.agent.memory.before_drop(list(self.session.messages), "exit")
        finally:
            await self.commands.close()
            await settle_ended()
            if self.extensions is not None:
                await self.extensions.close()
            await self._leave("exit")
            await self._close_providers()
            if self.plugged is not None:
                await self.plugged.close()

    async def _close_providers(self) -> None:
        small = self.agent.small_model
        for provider in (self.agent.provider, *([small] if small else ()), *self.to_close):
            await provider.aclose()

    def _report(self, error: StorageError) -> None:
        """Reports a fault, unless it is the one that the last turn ended with."""
        if str(error) != self.reported:
            self.reported = str(error)
            self.emit(Notice(text=self.reported, level="error"))

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work that may be cancelled when the session ends."""
        task = asyncio.ensure_future(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    async def _leave(self, reason: str) -> None:
        await self.commands.leave(self.session.id)
        await settle_ended()
        if self.agent.sandbox is not None:
            await asyncio.to_thread(self.agent.sandbox.close)
        for task in list(self.background):
            task.cancel()
        await asyncio.gather(*self.background, return_exceptions=True)
        if self.opened:
            try:
                await hooking.end_session(self, reason)
            except StorageError as error:
                self._report(error)
            grace_s = INTERRUPTED_GRACE_S if self.interrupted else CLOSE_GRACE_S
            await self.agent.memory.close(grace_s)
            try:
                save_memory_state(self.agent, self.session)
            except StorageError as error:
                self._report(error)
        if not self.unsent:  # a first turn that was never run, after an error
            with contextlib.suppress(StorageError):
                unsent.drop(self.home, self.session)
        self.session.close()
        self.checkpoints.close()

    def _enter(self, session: Session, *, resumed: bool) -> None:
        self.resumed, self.opened, self.interrupted = resumed, False, False
        self.fresh_plan = False
        self.unread_results = resumed
        self.unsent = unsent.left(self.home, session) if resumed else ""
        self.context = Context(session)
        if self.plugged is not None:
            self.plugged.now.session = session
        self.agent, self.gate, self.checkpoints = make_agent(
            self.config,
            self.agent.provider,
            session,
            of_session(self.agent.place, session.id),
            emit=self.emit,
            ask=self.ask,
            background=self.commands,
            tools=self.own_tools,
            memory=self.own_memory,
            small_model=self.agent.small_model,
        )
        self.emit(self.started())
        self.say_unsent()

    def say_unsent(self) -> None:
        """Says what a crash kept from being begun, if anything."""
        if self.unsent:
            self.emit(
                Notice(
                    text="kode was stopped before it began with what you asked last. It is sent "
                    f"with your next message: {shorten(self.unsent, 200)}"
                )
            )

    def _create_session(self) -> Session:
        provider = self.agent.provider
        return create_session(self.home, self.cwd, provider, keep=self.keep_session)

    def started(self) -> SessionStarted:
        return SessionStarted(
            session_id=self.session.id,
            cwd=str(self.cwd),
            provider=self.agent.provider.name,
            model=self.agent.provider.model,
            resumed=self.resumed,
        )

    @property
    def agents_folder(self) -> Path:
        """Where records of subagents are."""
        return self.own_agents_folder or paths.agents_folder(self._side_folder)

    @property
    def _side_folder(self) -> Path:
        """The folder beside the session; a temporary one for a session without a file."""
        if self.session.id is None:
            return self.checkpoints.folder
        return paths.session_folder(self.home, self.session.id)

    def _delegation_tools(self) -> tuple[Tool, ...]:
        if self.config.subagent.max_depth == 0:
            return ()
        from kode.subagents.delegate import delegate_tool

        self.delegation = make_delegation(
            lambda: self.config,
            lambda: self.agent,
            self.session,
            folder=self.agents_folder,
            ask=self.ask,
            emit=self.emit,
            trust_project=self.trust_project,
        )
        return (delegate_tool(self.delegation, in_use(self.brought.agents)),)

    async def _read_late_results(self) -> None:
        """Attaches results that subagents left when kode was stopped to the next message, once.
        Ends subagents that nobody waits for. Untrusted text in a result marks the session as
        tainted.

        Raises: StorageError.
        """
        self.unread_results = False
        folder = self.agents_folder
        if not folder.is_dir():
            return
        from kode.subagents import records

        await records.settle(folder)
        late = records.unseen(folder, self.session.entries)
        if not late:
            return
        if any(map(records.is_tainted, late)):
            self.session.append(TaintEntry(source="a subagent"))
        note = records.note(late, self.agent.place.outputs)
        self.attachments += (Text(text=note, source="note"),)
        unread = f"Sent with your message: {plural(len(late), 'unread subagent result')}."
        self.emit(Notice(text=unread, level="info"))

    async def _maintain(self) -> None:
        while True:
            await self.agent.memory.maintain()
            await asyncio.sleep(MAINTAIN_EVERY_S)

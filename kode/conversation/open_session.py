"""The open session: what the functions of this package work on, and how one is built.

`OpenSession` holds the state; which of its parts a function needs, its parameters say.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kode import installed, paths
from kode.assembly import make_agent, of_session, run_beside
from kode.config import Config, Loaded
from kode.engine.agent import Agent
from kode.engine.context import Context
from kode.errors import StorageError
from kode.events import Emit, Notice, SessionStarted, TurnEnded, Working
from kode.extensions.found_extensions import FoundExtensions
from kode.extensions.session import Extensions
from kode.memory.contract import MemorySystem
from kode.messages import Image, Text, shorten
from kode.permissions.gate import Ask, Gate
from kode.permissions.modes import PermissionMode
from kode.permissions.rules import Rule
from kode.plain_text import fence_text
from kode.provider import ModelInfo, Provider
from kode.session.log import Session
from kode.tool import Interceptor, Tool
from kode.tools.background import BackgroundCommands
from kode.undo.undo import Undo
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.conversation.plugged import Plugged
    from kode.extensions.agents import AgentDefinition
    from kode.extensions.hook_moments import Hooks
    from kode.sandbox.values import Opens
    from kode.subagents.parent import Delegation
    from kode.subagents.task import Start
    from kode.tools.program import Ran

BegunBy = Literal["startup", "clear", "resume"]
"""How a session began, in the words of hooks."""

ClosingStep = Literal["memory", "hooks", "servers", "plug-ins"]
"""What the end of a session waits for."""

Steering = Callable[[], Sequence[Text]]
"""Returns what the person has typed while a turn runs, each text once."""


class RunTurn(Protocol):
    """Runs a turn within these limits; `within` are fields of the agent's `Limits` for this turn
    alone. Raises: StorageError."""

    async def __call__(
        self, text: str, limits: tuple[Interceptor, ...] = (), **within: Any
    ) -> TurnEnded: ...


@dataclass(frozen=True, kw_only=True)
class Child:
    """What makes a conversation that of a subagent."""

    agent_type: str
    """The definition that it uses, for hooks."""
    definition: "AgentDefinition | None" = None
    """None: nothing limits its tools and skills."""
    folder: Path | None = None
    """Among its parent's records: of its transcript and outputs; None: it has no parent."""
    parent_session: str | None = None
    start: "Start | None" = None
    """What its parent passed."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a conversation was opened with, which all its sessions share."""

    emit: Emit
    ask: Ask | None
    commands: BackgroundCommands
    """Commands that the person moved to the background."""
    extensions: Extensions | None = None
    """Extensions from outside kode; None in a subagent."""
    plugged: "Plugged"
    """The plug-ins; in a subagent they only decide about calls."""
    tools: tuple[Tool, ...] = ()
    """Offered beside kode's own."""
    memory: MemorySystem | None = None
    """Replaces the configured system."""
    keep_session: bool = True
    trust_project: bool = False
    """Whether the repository's extensions count as approved (`--trust-project`)."""
    child: Child | None = None
    """None for the main agent."""
    to_close: list[Provider] = field(default_factory=list)
    """Providers that were asked, besides the current one: closed at the end."""
    said: set[str] = field(default_factory=set)
    """Notices that are given once."""

    def say_faults(self) -> None:
        """Names the plug-ins that kode continues without, each once."""
        for text in installed.faults.values():
            self.say_once(text)

    def say_once(self, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            self.emit(Notice(text=text))


@dataclass(frozen=True, kw_only=True)
class Started:
    """What the first turn of a session has found."""

    found_extensions: FoundExtensions
    """The skills, commands and agents available in the workplace."""
    hooks: "Hooks | None"
    """None if there are none."""
    delegation: "Delegation | None"
    """What all subagents of this session share; None if it may have none."""


@dataclass(kw_only=True)
class OpenSession:
    """An agent with an open session."""

    terms: Terms
    loaded: Loaded
    """The settings; `/model` and `/effort` change them, and the agent."""
    agent: Agent
    gate: Gate
    """The agent's, which shares its state: there, hooks answer questions before the person."""
    undo: Undo
    context: Context
    begun_by: BegunBy
    outbox: list[Text | Image] = field(default_factory=list)
    """Sent with the next turn."""
    status_line: str = ""
    """What the program of `statusLine` printed last; "" without one."""
    cut_short: str = ""
    """What the person asked in a turn that was cut short before it began: goes with the next."""
    started: Started | None = None
    """None before the first turn."""
    typed: str | None = None
    """What the person typed of the turn's message, without pasted blocks; None: all."""
    learned: ModelInfo | None = None
    """What is known of the model once its server has said all it will."""
    waited_s: float = 0.0
    """How long the next turn has waited for the server, which may be loading its model."""
    interrupted: bool = False
    """Whether the last turn was, so that nobody waits for the end of the session."""
    reported: str = ""
    """The last fault that was reported: of the last turn, or of the disk."""
    waits_for: ClosingStep | None = None
    """While the session ends."""
    end_by: float | None = None
    """When its last hooks must have ended, by `time.monotonic`; None before its end."""
    fresh_plan: bool = False
    """Whether the last turn ended with a plan."""
    unread_results: bool = False
    """Whether subagents may have left results that the model has not seen."""
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    background: set["asyncio.Task[None]"] = field(default_factory=set)

    @property
    def config(self) -> Config:
        return self.loaded.config

    @property
    def session(self) -> Session:
        return self.context.session

    @property
    def emit(self) -> Emit:
        return self.terms.emit

    @property
    def place(self) -> Workplace:
        return self.agent.place

    @property
    def mode(self) -> PermissionMode:
        return self.gate.mode

    @property
    def resumed(self) -> bool:
        return self.begun_by == "resume"

    @property
    def side_folder(self) -> Path:
        """The folder beside the session; a temporary one for a session without a file."""
        if self.session.id is None:
            return self.undo.folder
        return paths.session_folder(self.place.home, self.session.id)

    @property
    def agents_folder(self) -> Path:
        """Where records of subagents are."""
        child = self.terms.child
        own = child.folder if child is not None else None
        return paths.agents_folder(own or self.side_folder)

    def note(self, text: str) -> None:
        """Attaches a note of kode's to the next message."""
        self.outbox.append(Text(text=text, source="note"))

    def note_outside(self, text: str, source: str) -> None:
        """Attaches text from outside to the next message, fenced as such."""
        self.outbox.append(Text(text=fence_text(text, source), source="outside"))

    def note_work(self, what: str) -> None:
        """Says to the person what kode does beside the model; "" once it is over."""
        self.emit(Working(what=what))

    def deny_edits(self, patterns: Mapping[str, str]) -> None:
        """Has the gate, and those of subagents, deny edits of what these patterns of rules name,
        each for the reason beside it, instead of what was denied so before."""
        state = self.gate.state
        denials = tuple(Rule("edit", pattern, why) for pattern, why in patterns.items())
        if not denials and not state.denied:
            return
        old = set(map(str, state.denied))
        state.denied = denials
        permissions = self.loaded.config.permissions
        deny = (*(rule for rule in permissions.deny if rule not in old), *map(str, denials))
        permissions = permissions.model_copy(update={"deny": deny})
        config = self.loaded.config.model_copy(update={"permissions": permissions})
        self.loaded = replace(self.loaded, config=config)

    async def run_program(self, argv: Sequence[str], timeout_s: float) -> "tuple[Ran, Opens]":
        """Runs a program beside the session; see `assembly.run_beside`."""
        return await run_beside(self.config, self.place, argv, timeout_s)

    def report(self, error: StorageError) -> None:
        """Reports a fault, unless it is the one that the last turn ended with."""
        if str(error) != self.reported:
            self.reported = str(error)
            self.emit(Notice(text=self.reported, level="error"))

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work that may be cancelled when the session ends."""
        task = asyncio.ensure_future(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    async def end_background(self) -> None:
        for task in list(self.background):
            task.cancel()
        await asyncio.gather(*self.background, return_exceptions=True)


def enter(
    terms: Terms,
    loaded: Loaded,
    provider: Provider,
    session: Session,
    place: Workplace,
    *,
    begun_by: BegunBy,
    cut_short: str = "",
    small_model: Provider | None = None,
    outbox: Sequence[Text | Image] = (),
) -> OpenSession:
    """Builds the agent of a session. Raises: as `make_agent`."""
    child = terms.child
    terms.commands.enter(session)
    place = of_session(place, None if child is not None else session.id)
    if child is not None and child.folder is not None:
        place = replace(place, outputs=child.folder / "outputs")
    made = make_agent(
        loaded.config,
        provider,
        session,
        place,
        emit=terms.emit,
        ask=terms.ask,
        background=terms.commands,
        tools=terms.tools,
        memory=terms.memory,
        start=child.start if child is not None else None,
        small_model=small_model,
    )
    return OpenSession(
        terms=terms,
        loaded=loaded,
        agent=made.agent,
        gate=made.gate,
        undo=made.undo,
        context=Context(session),
        begun_by=begun_by,
        cut_short=cut_short,
        unread_results=begun_by == "resume",
        outbox=list(outbox),
    )


def announce(opened: OpenSession) -> None:
    """Says that the session is open, and what a crash kept from being begun, if anything."""
    provider = opened.agent.provider
    opened.emit(
        SessionStarted(
            session_id=opened.session.id,
            cwd=str(opened.place.cwd),
            provider=provider.name,
            model=provider.model,
            resumed=opened.resumed,
        )
    )
    if opened.cut_short:
        opened.emit(
            Notice(
                text="kode was stopped before it began on your last message. It is sent "
                f"with your next message: {shorten(opened.cut_short, 200)}"
            )
        )


def join_prompts(cut_short: str, text: str) -> str:
    """One message of one that was cut short and the next, unless the person has asked the same or
    given the same command again; a command stays at the beginning."""
    is_same_command = text.startswith("/") and cut_short.split()[:1] == text.split()[:1]
    if cut_short == text or is_same_command:
        return text
    parts = (text, cut_short) if text.startswith("/") else (cut_short, text)
    return "\n\n".join(filter(None, parts))

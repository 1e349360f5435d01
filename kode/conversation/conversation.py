"""The conversation: what a face may ask of one process's agent, whose sessions follow each other.

A facade: the functions of this package do the work, on the `OpenSession` that is open now.
`opening` opens one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import paths
from kode.config import Config, Loaded
from kode.conversation import models
from kode.conversation.attachments import command_part, file_part, keep_picture, read_text
from kode.conversation.extensions import find_extensions_here
from kode.conversation.figures import StatusLine, spending, status_of
from kode.conversation.leaving import close, end_jobs, leave, let_memory_process
from kode.conversation.open_session import (
    BegunBy,
    ClosingStep,
    OpenSession,
    Steering,
    announce,
    enter,
)
from kode.conversation.past import Past
from kode.conversation.planning import approve_plan
from kode.conversation.plugged import Plugged
from kode.conversation.prepared import names_offered
from kode.conversation.sessions import create_session, load_session
from kode.conversation.starting import start
from kode.conversation.turns import turn
from kode.conversation.warming import import_first_turn
from kode.engine.agent import Agent
from kode.engine.call import PreviewedCall, preview_call
from kode.engine.context import Context, compact, compactable_tokens
from kode.engine.window import Window, window_of
from kode.errors import UserError
from kode.events import ContextReduced, Emit, TurnEnded
from kode.extensions.found_extensions import FoundExtensions
from kode.extensions.session import Extensions
from kode.memory.contract import MemorySystem
from kode.messages import Image, Text, ToolCall, text_of
from kode.permissions.gate import Ask
from kode.permissions.modes import MODE_CALLED, MODE_MEANS, PermissionMode
from kode.provider import EFFORTS
from kode.session.entries import TaintEntry
from kode.session.log import Session
from kode.session.plan import Plan
from kode.tools.background import BackgroundCommands

if TYPE_CHECKING:
    from kode.conversation.structured import Form
    from kode.memory.statement import Outcome
    from kode.session.spending import Spending


@dataclass
class Conversation:
    """An agent with an open session; see `open_conversation`."""

    now: OpenSession
    """The session that is open now: `new_session` and `resume` open another."""

    @property
    def config(self) -> Config:
        return self.now.loaded.config

    @property
    def loaded(self) -> Loaded:
        return self.now.loaded

    @property
    def session(self) -> Session:
        return self.now.context.session

    @property
    def context(self) -> Context:
        return self.now.context

    @property
    def agent(self) -> Agent:
        return self.now.agent

    @property
    def cwd(self) -> Path:
        return self.now.agent.place.cwd

    @property
    def home(self) -> Path:
        return self.now.agent.place.home

    @property
    def emit(self) -> Emit:
        return self.now.terms.emit

    @property
    def ask(self) -> Ask | None:
        """None if nobody can be asked."""
        return self.now.terms.ask

    @property
    def commands(self) -> BackgroundCommands:
        return self.now.terms.commands

    @property
    def extensions(self) -> Extensions | None:
        return self.now.terms.extensions

    @property
    def plugged(self) -> Plugged:
        return self.now.terms.plugged

    @property
    def mode(self) -> PermissionMode:
        return self.now.gate.mode

    @property
    def opened(self) -> bool:
        """Whether the session has begun with a first turn."""
        return self.now.started is not None

    @property
    def fresh_plan(self) -> bool:
        """Whether the last turn ended with a plan."""
        return self.now.fresh_plan

    @property
    def found_extensions(self) -> FoundExtensions:
        """The skills, commands and agents available in the workplace; none before the first
        turn."""
        started = self.now.started
        return FoundExtensions() if started is None else started.found_extensions

    @property
    def past(self) -> Past:
        """The prompts so far, and ways back."""
        return Past(self.now)

    async def open(self) -> None:
        """Opens memory and renders the system prompt, once; the first turn calls it."""
        await start(self.now)

    def offered(self) -> dict[str, str]:
        """The commands and skills that a message may begin with → what each does. Reads files
        before the first turn."""
        started = self.now.started
        return names_offered(
            find_extensions_here(self.now) if started is None else started.found_extensions
        )

    async def turn(
        self,
        text: str,
        *,
        attachments: Sequence[Text | Image] = (),
        steering: Steering = tuple,
        typed: str | None = None,
        form: "Form | None" = None,
    ) -> TurnEnded:
        """Runs one turn to its end, see `turns.turn`; with a `form`, its answer is a value in
        `structured`. Cancelling the calling task interrupts the turn.

        Raises: StorageError if the text could not be recorded; ToolError, UserError, ServerError.
        """
        if form is not None:
            from kode.conversation.structured import structured_turn

            return await structured_turn(
                self.now, text, form, attachments=attachments, steering=steering, typed=typed
            )
        return await turn(self.now, text, attachments=attachments, steering=steering, typed=typed)

    def attach(self, *parts: Text | Image) -> None:
        """Attaches parts to the next turn."""
        self.now.outbox += parts

    def keep_picture(self, name: str, data: bytes) -> Image:
        """Keeps a copy of an image with the session, to attach, in a size that servers take:
        shrinking a large one takes a second.

        Raises: UserError if it is not an image, cannot be shrunk, or this model cannot see;
        StorageError.
        """
        from kode.images import Picture, fitting

        small = fitting(Picture(name, data))
        return keep_picture(self.now.side_folder, name, small.data, self.agent.provider)

    def quote_file(self, name: str, text: str, path: Path | None) -> Text:
        """A file's text, to attach; see `attachments.file_part`."""
        return file_part(name, text, path, self.agent.place.roots, self.agent.marks)

    def attach_picture(self, name: str, data: bytes) -> Image:
        """Attaches an image to the next turn. Raises: as `keep_picture`."""
        image = self.keep_picture(name, data)
        self.attach(image)
        return image

    def attach_files(self, names: Iterable[str]) -> None:
        """Attaches text files, images and PDFs to the next turn, under these names: all or none.

        Raises: UserError if one cannot be read, is too large, or is nothing that this model can be
        sent; StorageError.
        """
        self.attach(*[self._file(name) for name in names])

    def _file(self, name: str) -> Text | Image:
        from kode.images import read_picture

        path, agent = self.cwd / paths.expand(name), self.agent
        picture = read_picture(path)
        if picture is not None:
            return self.keep_picture(picture.name, picture.data)
        try:
            return file_part(name, read_text(path), path, agent.place.roots, agent.marks)
        except UserError as error:
            raise UserError(f"{name}: {error}") from error

    def attach_command(self, command: str, text: str) -> None:
        """Attaches a command that the person ran, with its output, to the next turn."""
        self.attach(command_part(command, text, self.agent.place, self.agent.marks))

    async def compact(self, wish: str = "") -> ContextReduced | None:
        """`/compact`: compacts now; None, without a request, if that would free nothing. `wish`
        says what the person wants in the note. Raises: KodeError."""
        await self.open()
        if not compactable_tokens(self.agent, self.context):
            return None
        return await compact(self.agent, self.context, self.emit, wish=wish, by_person=True)

    async def new_session(self) -> None:
        """`/new`: lets memory process the session, then starts an empty one.

        If cancelled while memory works, the old session stays open and nothing is lost.
        """
        if self.session.messages:
            await self.open()
            await let_memory_process(self.now, "reset")
        await leave(self.now, "clear")
        keep, provider = self.now.terms.keep_session, self.agent.provider
        self._enter(create_session(self.home, self.cwd, provider, keep=keep), "clear")

    async def resume(self, session_id: str) -> None:
        """`/resume`: closes this session as at exit and opens another.

        Raises: SessionError, BusyError; then this session stays open.
        """
        session = load_session(self.home, session_id, self.emit)
        if self.opened:
            await let_memory_process(self.now, "exit")
        await leave(self.now, "resume")
        self._enter(session, "resume")

    def _enter(self, session: Session, begun_by: BegunBy) -> None:
        old = self.now
        self.plugged.now.session = session
        self.now = enter(
            old.terms,
            old.loaded,
            old.agent.provider,
            session,
            old.place,
            begun_by=begun_by,
            cut_short=text_of(session.pending) if session.pending else "",
            small_model=old.agent.small_model,
            outbox=old.outbox,
        )
        announce(self.now)

    @property
    def plan(self) -> Plan:
        """The plan on disk."""
        return Plan(self.agent.place.plan)

    async def approve_plan(self, mode: PermissionMode) -> str:
        """Switches to `mode`; returns the prompt that starts the work, with the plan from disk.
        Raises: UserError if there is no plan; StorageError."""
        return await approve_plan(self.now, mode)

    def use_model(self, model: str, provider: str | None = None) -> None:
        """`/model`: sends the next request to this model, of the named provider, or of the one that
        its name belongs to. Raises: UserError."""
        models.use_model(self.now, model, provider)

    def offered_models(self) -> tuple[str, ...]:
        """The models that the provider offers; asks a server on this machine. Call it in a
        thread."""
        from kode.providers.listing import Listing

        own, *_ = Listing().offers(self.config, self.agent.provider, ask=False)
        return own.models

    def use_effort(self, level: str | None) -> None:
        """`/effort`: how much the model thinks from the next request on; None or "default": as kode
        and the model decide. Raises: UserError for a word that is no level."""
        effort = next((known for known in EFFORTS if known == level), None)
        if effort is None and level not in (None, "default"):
            levels = ", ".join(("default", *EFFORTS))
            raise UserError(f"There is no effort {str(level)[:40]!r}. The levels are: {levels}.")
        models.use_effort(self.now, effort)

    @property
    def modes(self) -> dict[str, str]:
        """The permission modes to choose from → what each means. `full`, which asks nothing, is
        among them only where the person has set it."""
        set_by_person = (self.mode, self.config.permissions.mode)
        return {m: what for m, what in MODE_MEANS.items() if m != "full" or m in set_by_person}

    def set_permission_mode(self, mode: str) -> None:
        """Applies from the next call on. `mode` may have the name that another agent gives it."""
        self.now.gate.mode = MODE_CALLED[mode]

    def preview_call(self, call: ToolCall) -> PreviewedCall:
        """A call for display, before its outcome is known."""
        return preview_call(self.agent, call)

    @property
    def status_line(self) -> str:
        """What the program of `statusLine` printed last."""
        return self.now.status_line

    def status(self) -> StatusLine:
        return status_of(self.now)

    async def window(self) -> Window:
        """What fills the model's window; before the first turn, what it starts with."""
        await self.open()
        return window_of(self.agent, self.context)

    async def spending(self) -> "dict[str, Spending]":
        """Spending by model, for the last `turn`, the `session`, and the `day`. Raises:
        StorageError."""
        return await spending(self.now)

    def last_answer(self) -> str:
        """The latest text of the model; "" if there is none."""
        said = (one for one in reversed(self.session.messages) if one.role == "assistant")
        return next(filter(None, map(text_of, said)), "")

    async def memory_command(self, argv: Sequence[str]) -> "Outcome":
        """`/memory ...`: as `kode memory ...`, on the open memory. Raises: KodeError."""
        from kode.memory.commands import run_line

        await self.open()
        return await run_line(self.agent.memory, argv)

    async def opened_memory(self) -> MemorySystem:
        """The open memory, to review entries that wait for approval. Raises: KodeError."""
        await self.open()
        return self.agent.memory

    def mark_outside(self, source: str) -> None:
        """Marks what is said in the session as coming from outside, unless it is marked already.
        Raises: StorageError."""
        if not self.session.tainted:
            self.session.append(TaintEntry(source=source))

    def result_object(self, ended: TurnEnded, warnings: Sequence[str] = ()) -> dict[str, Any]:
        """A turn's result as `kode run --output-format json` prints it."""
        from kode.results import result_object

        untrusted = self.extensions.untrusted if self.extensions else ()
        return result_object(
            ended, self.session.id, self.cwd, untrusted=untrusted, warnings=warnings
        )

    async def end_jobs(self, ended: TurnEnded) -> TurnEnded:
        """Ends what runs in the background, before a program reads how the last turn ended; returns
        that with what became of its changes."""
        return await end_jobs(self.now, ended)

    def import_first_turn(self) -> None:
        """Imports what the first turn needs; call it in a thread while the person types."""
        import_first_turn(self.now)

    @property
    def waits_for(self) -> ClosingStep | None:
        """What `close` waits for now."""
        return self.now.waits_for

    async def close(self, *, interrupted: bool = False, wait_s: float | None = None) -> None:
        """Ends the session: memory processes it within its deadline, and leaves the rest pending
        for the next start; all of it if the last turn was `interrupted`, as nobody waits then.
        Hooks, servers and memory together get `wait_s`, if given. An unused session leaves no
        file."""
        self.now.interrupted |= interrupted
        await close(self.now, wait_s)

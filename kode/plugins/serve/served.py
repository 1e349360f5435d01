"""One conversation driven by a client: its progress, its questions, its turns.

Nothing here knows the protocol: `server` turns it into tools.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kode.plugin import (
    FINISHED,
    AgentFinished,
    Answer,
    ContextReduced,
    Conversation,
    Event,
    KodeError,
    MemoryChanged,
    Notice,
    PlanKept,
    Question,
    Replied,
    RetryScheduled,
    Steered,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserError,
    calls_of,
    fault_reports,
    result_object,
    shorten,
    text_of,
    visible,
)

KEPT_LINES = 500  # a client that waits gets them sooner
LINE_CHARS = 300  # a call with its subject
BEGIN_WAIT_S = 10.0  # most hooks have run by then

Status = Literal["idle", "working", "asks", "done"]
"""`idle`: nothing was requested since it was opened."""

Report = Callable[[int, str], Awaitable[None]]
"""Gets each line of progress as it comes, with its number."""


@dataclass
class Asked:
    """A question that waits for an answer."""

    id: str
    question: Question
    answer: "asyncio.Future[Answer]"
    with_person: bool = False
    """Whether the client's person is being shown a form of it."""
    left_to_client: bool = False
    """Whether they closed it: the question waits for `kode_answer`."""


@dataclass
class ServedSession:
    """Created before its conversation opens, because that may already emit events."""

    opened: Conversation | None = None
    lines: list[str] = field(default_factory=list)
    """The last `KEPT_LINES` lines of progress."""
    dropped: int = 0
    """How many lines preceded them."""
    now: str = ""
    """The running call."""
    asked: Asked | None = None
    ended: TurnEnded | None = None
    """How its last turn ended."""
    turn: "asyncio.Task[None] | None" = None
    said: list[str] = field(default_factory=list)
    """What the client has said while a turn runs."""
    used_at: float = field(default_factory=time.monotonic)
    _questions: int = 0
    _one_question: asyncio.Lock = field(default_factory=asyncio.Lock)
    _begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the text of the last turn is on disk, or will never be."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def conversation(self) -> Conversation:
        assert self.opened is not None
        return self.opened

    @property
    def status(self) -> Status:
        if self.asked is not None:
            return "asks"
        if self.turn is not None and not self.turn.done():
            return "working"
        return "done" if self.ended is not None else "idle"

    @property
    def cursor(self) -> int:
        """The number of the next line of progress."""
        return self.dropped + len(self.lines)

    # ── what its conversation calls ──────────────────────────────────────────────────────────

    def take(self, event: Event) -> None:
        """An `Emit`."""
        if isinstance(event, ToolStarted):
            self.now = shorten(visible(f"{event.name} {event.subject}"), LINE_CHARS)
        elif isinstance(event, ToolFinished):
            self.now = ""
        elif isinstance(event, TurnStarted):
            self._begun.set()
        if line := line_of(event):
            self.lines.append(shorten(visible(line), LINE_CHARS))
            excess = len(self.lines) - KEPT_LINES
            if excess > 0:
                del self.lines[:excess]
                self.dropped += excess
        self._wake()

    async def ask(self, question: Question) -> Answer:
        """An `Ask`. What would outlast the session in memory, or be trusted permanently, is for the
        person alone, and no client is asked."""
        if question.until_changed or question.kind.startswith("memory"):
            return Answer(choice="no", message=FOR_THE_PERSON)
        async with self._one_question:
            self._questions += 1
            answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            self.asked = Asked(f"q{self._questions}", question, answer)
            self._wake()
            try:
                return await answer
            finally:
                self.asked = None
                self._wake()

    def steering(self) -> Sequence[str]:
        """Returns what the client has said meanwhile, once."""
        said, self.said = self.said, []
        return said

    # ── what a client calls ──────────────────────────────────────────────────────────────────

    async def say(self, text: str) -> None:
        """Starts a turn; returns when the text is on disk, the turn has failed, or opening the
        session (a hook, say) takes very long. While a turn runs, the model gets the text with its
        next step."""
        self.used_at = time.monotonic()
        if self.turn is not None and not self.turn.done():
            self.said.append(text)
            return
        self.ended, self._begun = None, asyncio.Event()
        self.turn = asyncio.create_task(self._run(text))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._begun.wait(), BEGIN_WAIT_S)

    def answer(self, question_id: str, answer: Answer) -> None:
        """Answers a question. Raises: UserError for an answer that is not offered, or an unknown
        question."""
        asked = self.asked
        if asked is None or asked.id != question_id:
            raise UserError(f"{question_id} is not an open question: `kode_wait` lists those.")
        if answer.choice == "session" and not asked.question.may_always:
            raise UserError("This question takes `once` or `no`: it is asked each time.")
        asked.answer.set_result(answer)
        self.asked = None
        self._wake()

    async def settled(self, until: float, report: Report, since: int) -> int:
        """Returns when the turn ends, asks something that is not being shown to a person, or at
        time `until` (of the loop's clock). Reports the progress from `since` on, and returns the
        number of the next line."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while True:
                    while since < self.cursor:
                        since = max(since, self.dropped) + 1
                        await report(since, self.lines[since - 1 - self.dropped])
                    waits = self.asked is not None and self.asked.with_person
                    if not (self.status == "working" or waits):
                        break
                    await self._changed.wait()
        return since

    def note_form(self, asked: Asked, *, shown: bool, left: bool = False) -> None:
        """Records whether the person is being shown a form of a question, or has closed it."""
        asked.with_person, asked.left_to_client = shown, left
        self._wake()

    async def stop(self) -> None:
        """Interrupts the running turn and waits for its end; it is on disk then."""
        self.said.clear()
        while self.turn is not None and not self.turn.done():
            self.turn.cancel()
            await asyncio.wait([self.turn])

    async def close(self) -> None:
        """Ends turn and conversation; memory gets time to finish."""
        await self.stop()
        await self.conversation.close()

    def state(self, cursor: int) -> dict[str, Any]:
        """Everything a client may know, with the progress from `cursor` on."""
        begin = min(max(cursor, self.dropped), self.cursor)
        known: dict[str, Any] = {
            "session": self.conversation.session.id,
            "status": self.status,
            "cursor": self.cursor,
            "progress": self.lines[begin - self.dropped :],
        }
        if cursor < begin and self.dropped:
            known["earlier"] = f"{begin - max(cursor, 0)} older lines were dropped"
        if self.now and self.status == "working":
            known["now"] = self.now
        if self.status == "done" and self.ended is not None:
            known["result"] = result_of(self.ended, self.conversation)
        return known

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    async def _run(self, text: str) -> None:
        """Runs turns until nothing the client said is left."""
        while text:
            try:
                self.ended = await self.conversation.turn(text, steering=self.steering)
            except asyncio.CancelledError:
                self.ended = TurnEnded(status="interrupted", error="Stopped.")
            except KodeError as error:
                self.ended = TurnEnded(status="error", error=str(error), setting=error.setting)
            except Exception as error:
                self.ended = TurnEnded(status="error", error=fault_reports.describe(error))
            self.now = ""
            text = "\n\n".join(self.steering()) if self.ended.status in FINISHED else ""
        self._begun.set()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


FOR_THE_PERSON = (
    "Memory and what is trusted of a repository are for the person to change, at their own terminal"
)


def line_of(event: Event) -> str:
    """One line for a client about an event; "" if it is not worth one."""
    match event:
        case ToolFinished(refused=True):
            return f"refused: {event.name} {event.subject}: {event.text}"
        case ToolFinished():
            failed = "failed: " if event.is_error else ""
            return f"{failed}{event.name} {event.subject}: {event.summary}"
        case Replied() if calls_of(event.message):
            return text_of(event.message)
        case Steered():
            return f"heard: {event.text}"
        case RetryScheduled():
            return f"retries in {event.delay_s:.0f} s: {event.reason}"
        case ContextReduced():
            return f"context shortened to {event.tokens_after:,} tokens"
        case PlanKept():
            return f"plan of {event.steps} steps in {event.path}"
        case MemoryChanged(of_session=False):
            return f"memory: {event.text}"
        case AgentFinished():
            return f"subagent {event.index + 1} ({event.status}): {event.goal}: {event.summary}"
        case Notice():
            return event.text
    return ""


KEYS = "status result error steps cost_usd files_changed denials refused checks untrusted".split()
"""The non-empty fields of a result that a client gets."""


def result_of(ended: TurnEnded, conversation: Conversation) -> dict[str, Any]:
    """How a turn ended, with the names of `kode run --output-format json`."""
    found = conversation.extensions
    whole = result_object(ended, None, conversation.cwd, found.untrusted if found else ())
    return {key: whole[key] for key in KEYS if whole[key] not in (None, [], "")}

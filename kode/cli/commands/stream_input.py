"""`kode run --input-format stream-json`: messages on stdin, one JSON object per line, become turns
of one conversation. docs/scripts.md shows the lines.

A message during a turn goes to the model before its next step; one that is too late becomes the
next turn. When stdin ends, kode ends after the last turn.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Base64Bytes, BaseModel, BeforeValidator, ValidationError, model_validator

from kode.cli.screen.screen import read_line
from kode.errors import EXIT_INTERRUPTED, EXIT_NOT_STARTED, KodeError
from kode.events import EXIT_CODES, UNBEGUN, Notice, TurnEnded
from kode.messages import Text
from kode.process import cancelled_by_signals
from kode.values import dataclass, field

if TYPE_CHECKING:
    from kode.conversation import Conversation

NO_MESSAGE = (
    "There was no message on standard input that could be used. Send lines such as "
    '{"type": "user", "text": "Hello"}.'
)


class BlockSource(BaseModel):
    type: Literal["base64"]
    data: Base64Bytes


class StreamBlock(BaseModel):
    """A text, an image, or a PDF as a `document`."""

    type: Literal["text", "image", "document"]
    text: str = ""
    source: BlockSource | None = None
    title: str = ""


def _as_blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


class StreamMessage(BaseModel):
    """A message in the form that other agents accept."""

    content: Annotated[list[StreamBlock], BeforeValidator(_as_blocks)]


class StreamLine(BaseModel):
    """A line of input: `user`, with a `text` or a `message`, or `interrupt`, which ends the running
    turn and keeps what it has done."""

    type: Literal["user", "interrupt"]
    text: str = ""
    message: StreamMessage | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> "StreamLine":
        if self.type == "user" and not self.joined_text.strip():
            raise ValueError("there is neither `text` nor a `message` with text")
        if not all(block.source for block in self.pictures):
            raise ValueError("an image or a document needs a `source`")
        return self

    @property
    def joined_text(self) -> str:
        """The text, whichever form the line has."""
        blocks = (
            self.message.content if self.message else [StreamBlock(type="text", text=self.text)]
        )
        return "\n\n".join(block.text for block in blocks if block.type == "text")

    @property
    def pictures(self) -> list[StreamBlock]:
        return [it for it in self.message.content if it.type != "text"] if self.message else []


Turn = Callable[..., Coroutine[Any, Any, TurnEnded]]
"""Runs a turn; takes what `Conversation.turn` takes."""
Conclude = Callable[[TurnEnded], None]


async def run_stream(
    conversation: "Conversation", first: str, turn: Turn, conclude: Conclude
) -> int:
    """Runs `first` as a turn unless it is blank, then the turns that arrive on stdin; passes how
    each ended to `conclude`. Returns the exit code of the last. Without any turn, an error is
    concluded: a result is always the last line."""
    intake = _Intake(conversation, turn)
    if first.strip():
        intake.start([StreamLine(type="user", text=first)])
    reading = asyncio.ensure_future(intake.read())
    running = asyncio.ensure_future(_run_turns(intake, conclude))
    with cancelled_by_signals(running):
        try:
            code = await running
        except asyncio.CancelledError:
            code = EXIT_INTERRUPTED
        finally:
            reading.cancel()
    if code is None:
        conclude(TurnEnded(status="error", error=NO_MESSAGE))
        return EXIT_NOT_STARTED
    if not intake.turns:
        conclude(TurnEnded(status="interrupted", error="Interrupted before the first message."))
    return code


async def _run_turns(intake: "_Intake", conclude: Conclude) -> int | None:
    """Runs turns until stdin ends or a signal comes. Returns the exit code of the last one; None if
    there was none. A turn that cannot start counts as failed; the next may succeed."""
    code, this = None, asyncio.current_task()
    while (running := await intake.next_turn()) is not None:
        try:
            ended = await running
        except KodeError as error:
            ended = TurnEnded(status="error", error=str(error), setting=error.setting)
        except asyncio.CancelledError:
            ended = UNBEGUN
        intake.running = None
        conclude(ended)
        code = EXIT_CODES[ended.status]
        if this is not None and this.cancelling():  # a signal, which has ended the turn too
            break
    return code


@dataclass
class _Intake:
    """Starts a turn with the first message, and queues messages while it runs."""

    conversation: "Conversation"
    turn: Turn
    running: "asyncio.Future[TurnEnded] | None" = None
    turns: int = 0
    """How many turns have begun."""
    waiting: list[StreamLine] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False

    def start(self, lines: Sequence[StreamLine]) -> None:
        """Starts a turn with these messages."""
        self.turns += 1
        for number, block in enumerate((each for line in lines for each in line.pictures), 1):
            try:
                name, data = block.title or f"{block.type} {number}", block.source
                image = self.conversation.keep_picture(name, data.data if data else b"")
                self.conversation.attachments.append(image)
            except KodeError as error:
                self._report(str(error))
        text = "\n\n".join(line.joined_text for line in lines)
        self.running = asyncio.ensure_future(self.turn(text, steering=self.take_steering))

    def take_steering(self) -> list[Text]:
        """Takes the messages that arrived during a turn. The first with pictures, and any after it,
        are left for the next turn."""
        waiting = self.waiting
        until = next((n for n, line in enumerate(waiting) if line.pictures), len(waiting))
        taken, self.waiting = waiting[:until], waiting[until:]
        return [Text(text=line.joined_text) for line in taken]

    async def next_turn(self) -> "asyncio.Future[TurnEnded] | None":
        """Waits for the next turn to start; None at the end of stdin."""
        if self.waiting and self.running is None:  # too late for the one that has ended
            waiting, self.waiting = self.waiting, []
            self.start(waiting)
        while self.running is None and not self.is_over:
            self.news.clear()
            await self.news.wait()
        return self.running

    async def read(self) -> None:
        """Reads stdin to its end. An unusable line is reported and skipped."""
        number = 0
        while sys.stdin is not None and (text := await read_line(sys.stdin)) is not None:
            number += 1
            # Some shells put a byte order mark in front of what they pipe.
            if text := text.removeprefix("\ufeff").strip():
                try:
                    self._take_line(StreamLine.model_validate_json(text))
                except ValidationError as error:
                    self._report(f"Line {number} of the input: {_describe_fault(error)}.")
        self.is_over = True
        self.news.set()

    def _take_line(self, line: StreamLine) -> None:
        self.news.set()
        if line.type == "user" and self.running is None:
            self.start([line])
        elif line.type == "user":
            self.waiting.append(line)
        elif self.running is not None:
            self.running.cancel()

    def _report(self, fault: str) -> None:
        self.conversation.settings.emit(Notice(text=fault, level="error"))


def _describe_fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    if fault["type"] == "json_invalid":
        return 'it is not JSON. One looks like {"type": "user", "text": "..."}'
    place = ".".join(map(str, fault["loc"]))
    return f"{place}: {fault['msg']}" if place else fault["msg"]

"""What a memory system is: its hooks, and the values that cross them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from kode.events import Emit, Status
from kode.messages import Message
from kode.provider import AskReply
from kode.session.record import SessionRecord
from kode.tool import Tool
from kode.values import Value

InjectReason = Literal["start", "resume", "compacted", "trimmed"]
"""`trimmed`: the session resumes, and messages were dropped since memory last injected."""
DropReason = Literal["window", "reset", "exit"]


class MemoryContext(Value):
    """What a memory system may know about the process and session that opened it."""

    root: Path
    """`$KODE_HOME/memory`; each system uses only its own subfolder."""
    cwd: Path
    project_root: Path | None
    """The repository root, symlinks resolved; None outside a repository."""
    session_id: str | None
    emit: Emit
    ask_reply: AskReply | None
    """None if no model is available (`kode memory` commands without a key)."""
    now: Callable[[], datetime]
    """The clock, aware and in local time."""
    read_only: bool = False
    expected_s: Callable[[int, int], float] = lambda input_tokens, output_tokens: 0.0
    """The measured duration of a reply with this many tokens, in seconds; 0.0 before any."""
    tainted: Callable[[], bool] = lambda: False
    """Whether the session has read untrusted content by now: what memory keeps then needs a
    person's approval."""
    outside: Callable[[], str] = lambda: ""
    """Where the first untrusted content came from; "" if there is none, or this is unknown."""
    typed_messages: Callable[[], Sequence[str]] = lambda: ()
    """What the person typed in this session, message by message; not what they pasted or piped."""
    session: Callable[[str], SessionRecord | None] = lambda id: None
    """The record of a session, also of this one; None if its file is gone or cannot be read."""
    confirm: "Callable[[str, str], Awaitable[bool]] | None" = None
    """`await confirm(title, preview)`: whether the person says yes; None if nobody can be asked."""


class Injection(Value):
    system: str = ""
    """A section for the system prompt, sent until a compaction; "" for none. It depends only on
    what memory holds, not on the session's turns or the time: a new fact changes no other lines."""
    first_user: str = ""
    """Text to send once, in a message of its own; "" for none."""


class Turn(Value):
    """A turn, for memory. In `recall` only `number`, `text` and `tainted` are set."""

    number: int
    """From 1 within the session."""
    text: str
    """What the person asked."""
    answer: str = ""
    status: Status = "success"
    messages: tuple[Message, ...] = ()
    """Everything said in this turn, the person's message first."""
    tainted: bool = False
    """Whether the session has read untrusted content so far."""


class Drop(Value):
    """What memory wants done when the context loses messages."""

    keep: int | None = None
    """How many of the latest messages to keep; None leaves it to the context."""
    recap: str | None = None
    """Text to replace the dropped messages; None leaves it to the context, "" wants none."""
    done: bool = True
    """False when memory could not process the messages in time (it kept the raw material)."""


class Hit(Value):
    text: str
    where: str
    """The file or note it comes from."""
    match: Literal["exact", "near"] = "near"
    """`exact`: it contains every word of the query as it is spelled."""


class SnapshotSection(Value):
    title: str
    content: str


class MemorySystem:
    """A memory system, whose hooks the engine calls behind a guard, `kode.memory.system`. Here each
    hook gives the neutral answer and changes nothing: a system overrides those it needs."""

    name: str = "none"

    @property
    def message_window(self) -> int | None:
        """How many user and final assistant messages a session may hold before the engine calls
        `before_drop("window")` by itself; None: only when the model's window is full."""
        return None

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        """Called first when a process opens a session. `state` is the last value of `state()` for
        this session and system, or empty."""

    async def inject(self, reason: InjectReason) -> Injection:
        """Called after `open` and each compaction. Text that repeats the session's own messages
        goes into `first_user`, and only after some were dropped (`compacted`, `trimmed`)."""
        return Injection()

    async def recall(self, turn: Turn) -> str:
        """Text that goes into this turn's user message and stays there; "" for none."""
        return ""

    def tools(self) -> tuple[Tool, ...]:
        """Called once, after `open`. The names and their order never change."""
        return ()

    async def after_turn(self, turn: Turn) -> None:
        """Called after the final text of a turn."""

    async def before_drop(self, messages: Sequence[Message], reason: DropReason) -> Drop:
        """Called before the context loses messages; `messages` is all that it holds."""
        return Drop()

    async def maintain(self) -> None:
        """Runs in the background after opening, then every six hours."""

    async def search(self, query: str, k: int) -> list[Hit]:
        """Best match first; empty if nothing matches."""
        return []

    async def snapshot(self) -> tuple[SnapshotSection, ...]:
        """What a subagent may read."""
        return ()

    def state(self) -> Mapping[str, Any]:
        """JSON to store in the session; called after each turn and at the end."""
        return {}

    async def close(self, grace_s: float) -> None:
        """Called when the process ends: finishes background work within `grace_s`, leaves the rest
        pending."""


NullMemory = MemorySystem
"""The name for a plug-in that derives from it, or for no memory."""


class RemoteLine(Value):
    """One change of memory as a server keeps it for several people."""

    id: str
    scope: str
    """`*` for all of the team, else the name of a project, such as `github.com/org/repo`."""
    text: str
    """The change, as JSON."""
    number: int = 0
    """Its place in the order of the server, from 1; the server sets this field and those below."""
    person: str = ""
    host: str = ""
    """The machine of the person."""
    at: str = ""
    """When it arrived, in UTC."""


class RemoteAnswer(Value):
    """What a server answers to a member of a team."""

    person: str
    """The member's name on the server."""
    scopes: tuple[str, ...]
    """The scopes that the member sees; empty for somebody who is not a member."""
    lines: Sequence[RemoteLine]
    """The next lines, oldest first; an empty sequence if there are no more."""
    refused: Mapping[str, str]
    """The id of each line that was not accepted → the reason."""


class RemoteLog(Protocol):
    """A server that keeps the changes of several people's memory."""

    @property
    def key(self) -> str:
        """Differs for each server, person and team; letters and digits."""

    @property
    def label(self) -> str:
        """What a person calls it: `platform on db.example/kode`."""

    async def exchange(self, after: int, lines: Sequence[RemoteLine]) -> RemoteAnswer:
        """Sends lines (one sent twice counts once) and returns those with a number above `after`.
        Raises: MemoryRefused: what is wrong, and what becomes of the lines that were not sent."""

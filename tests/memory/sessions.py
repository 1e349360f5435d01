"""Sessions over a memory system, for tests of what all systems promise."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kode import paths
from kode.config.model import MemoryConfig
from kode.events import Event
from kode.memory.contract import MemoryContext, Turn
from kode.memory.system import Memory, make_system
from kode.messages import Message, Text, ToolCall, ToolResult, text_of, user_message
from kode.session.record import Project, SessionRecord
from kode.tool import ToolContext
from kode.values import validator
from kode.workplace import NOWHERE

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Sessions:
    """A home in which sessions of one system follow each other."""

    root: Path
    system: str = "tiered"
    settings: dict[str, Any] = field(default_factory=dict)
    reply: Callable[[str], str] | None = None
    """What the model answers to a prompt; None for no model."""
    prompts: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    now: datetime = START
    typed: list[str] = field(default_factory=list)
    outside: str = ""
    records: dict[str, SessionRecord] = field(default_factory=dict)
    project: Path | None = None

    async def _ask(self, request: Any) -> Message:
        self.prompts.append("\n".join(map(text_of, request.messages)))
        text = self.reply(self.prompts[-1]) if self.reply else ""
        return Message(role="assistant", parts=(Text(text=text),), stop="end")

    def tick(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def context(self, session: str | None, **changes: Any) -> MemoryContext:
        values: dict[str, Any] = {
            "root": self.root / "memory",
            "cwd": self.project or self.root,
            "project_root": self.project,
            "session_id": session,
            "emit": self.events.append,
            "ask_reply": self._ask if self.reply else None,
            "now": self.tick,
            "typed_messages": lambda: tuple(self.typed),
            "session": self.records.get,
            "tainted": lambda: bool(self.outside),
            "outside": lambda: self.outside,
        }
        return MemoryContext(**{**values, **changes})

    async def open(
        self, session: str | None = "s1", state: dict[str, Any] | None = None, **changes: Any
    ) -> Memory:
        settings = {"system": self.system, **self.settings}
        memory = make_system(validator(MemoryConfig).validate_python(settings))
        assert isinstance(memory, Memory)
        await memory.open(self.context(session, **changes), state or {})
        return memory

    def record(self, id: str, *texts: str, tool: str = "shell") -> SessionRecord:
        """A session in which the person typed these texts, each answered after a command."""
        messages = list[Message]()
        for number, text in enumerate(texts):
            call = ToolCall(id=f"c{number}", name=tool, arguments='{"command": "make test"}')
            messages += [
                user_message(text),
                Message(role="assistant", parts=(call,), stop="tool"),
                Message(role="user", parts=(ToolResult(call_id=call.id, name=tool, text="ok"),)),
                Message(role="assistant", parts=(Text(text="done"),), stop="end"),
            ]
        root = self.project or self.root
        self.records[id] = SessionRecord(
            id=id,
            project=Project(root, paths.path_hash(root), self.project is not None),
            messages=messages,
            typed=texts,
            turns=len(texts),
            started_at=self.tick(),
            ended_at=self.tick(),
            tainted_by=self.outside,
        )
        return self.records[id]

    async def run(self, id: str, *texts: str) -> None:
        """A whole session, from its beginning to its end."""
        memory = await self.open(id)
        await memory.inject("start")
        record = self.record(id, *texts)
        self.typed += texts
        for number, text in enumerate(texts, 1):
            turn = Turn(number=number, text=text, messages=tuple(record.messages))
            await memory.recall(turn)
            await memory.after_turn(turn)
        await memory.before_drop(record.messages, "exit")
        await memory.close(1.0)

    def texts(self, memory: Memory) -> list[str]:
        return [fact.text for fact in memory.store.statements()]


async def call(memory: Memory, tool: str, **arguments: Any) -> str:
    """The text that a tool gives the model."""
    [named] = [listed for listed in memory.tools() if listed.name == tool]
    where = ToolContext(
        place=NOWHERE,
        call_id="c",
        session_id=None,
        emit=memory.context.emit,
        seen_files={},
    )
    output = await named.run(where, named.check(arguments))
    return output if isinstance(output, str) else output.text

"""What the tests of memory have in common: an open system, its tool, a model that answers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kode.config import MemoryConfig
from kode.contracts import AskReply, MemoryContext, Request, Tool, ToolContext, ToolOutput, Turn
from kode.events import Event, silent
from kode.memory.tiered.system import Tiered
from kode.messages import Message, Text, text_of, user_message
from kode.workplace import NOWHERE

NOON = datetime(2026, 3, 1, 12, 34, tzinfo=UTC)
SESSION = "20260301-123400-abcdef"
OTHER_SESSION = "20260302-123400-abcdef"
Answers = Callable[[str, str, int], Awaitable[str]]
"""(system, prompt, limit in tokens) → the text of the answer."""


@dataclass
class Model:
    """Answers in order, the last one over and over; raises an exception. Notes what was asked."""

    answers: Sequence[str | BaseException] = ("add",)
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def __call__(self, system: str, prompt: str, max_output_tokens: int) -> str:
        answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
        self.asked.append((system, prompt))
        if isinstance(answer, BaseException):
            raise answer
        return answer


def in_messages(model: Answers | None) -> AskReply | None:
    """A model that answers in texts, as memory is given one."""

    async def reply(request: Request) -> Message:
        prompt = "\n\n".join(map(text_of, request.messages))
        text = await model(request.system, prompt, request.max_output_tokens)
        return Message(role="assistant", parts=(Text(text=text),), stop="end")

    return None if model is None else reply


def settings(**changes: Any) -> MemoryConfig:
    """The memory section with its defaults but for `changes`."""
    return MemoryConfig(**changes)


def memory_context(root: Path, **changes: Any) -> MemoryContext:
    values: dict[str, Any] = {
        "root": root / "memory",
        "cwd": root,
        "project_root": None,
        "session_id": SESSION,
        "emit": silent,
        "ask_reply": None,
        "now": lambda: NOON,
    }
    return MemoryContext(**{**values, **changes})


async def opened(
    root: Path,
    *,
    model: Answers | None = None,
    state: Mapping[str, Any] | None = None,
    config: MemoryConfig | None = None,
    **changes: Any,
) -> Tiered:
    """A tiered memory with its files below `root`."""
    system = Tiered(config or settings())
    await system.open(memory_context(root, ask_reply=in_messages(model), **changes), state or {})
    return system


async def use(system: Tiered, emit: Any = silent, **arguments: Any) -> str:
    """A call of the memory tool as the loop makes it, by a model that has read the facts. Raises:
    ToolError."""
    (tool,) = system.tools()
    if arguments.get("action") == "replace":
        await use_tool(tool, action="read")
    return await use_tool(tool, emit, **arguments)


async def use_tool(tool: Tool, emit: Any = silent, **arguments: Any) -> str:
    context = ToolContext(
        place=NOWHERE,
        call_id="call",
        session_id=SESSION,
        emit=emit,
        seen_files={},
    )
    output = await tool.run(context, tool.check(arguments))
    return output.text if isinstance(output, ToolOutput) else output


def turn(number: int, text: str = "fix the parser", **changes: Any) -> Turn:
    """A turn with its messages."""
    answer = changes.pop("answer", "done")
    return Turn(number=number, text=text, answer=answer, messages=said(text, answer), **changes)


def said(*texts: str) -> tuple[Message, ...]:
    """Messages of the person and the agent by turns."""
    return tuple(
        user_message(text)
        if index % 2 == 0
        else Message(role="assistant", parts=(Text(text=text),), stop="end")
        for index, text in enumerate(texts)
    )


def lived(*asked: str) -> tuple[Message, ...]:
    """A session in which each of `asked` got an answer."""
    return tuple(m for text in asked for m in said(text, f"did: {text}"))


def user_file(root: Path) -> Path:
    return root / "memory" / "facts" / "user.md"


def env_file(root: Path) -> Path:
    return root / "memory" / "facts" / "env.md"


def write_facts(path: Path, *entries: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n§\n".join(entries))


def notices(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if event.type == "notice"]

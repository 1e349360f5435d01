"""What the systems' tools do alike: how one is declared, what it answers, which words it takes, and
how a text becomes an entry of its file.
"""

from collections.abc import Awaitable, Callable, Collection
from functools import wraps
from typing import Annotated, Any

from kode.credentials import redact
from kode.errors import BusyError, MemoryRefused, StorageError, ToolError
from kode.memory import frame
from kode.memory.markdown import LINES
from kode.memory.policy import OpenMemory
from kode.memory.statement import Outcome
from kode.tool import Tool, ToolContext, ToolOutput, tool

Function = Callable[..., Awaitable[ToolOutput]]
MakeTool = Callable[[OpenMemory], Tool]
Source = Annotated[str, "path:line or path:first-last of the code that shows it"]


def memory_tool(**declaration: Any) -> Callable[[Function], MakeTool]:
    """Declares a tool as `kode.tool.tool` does, of a function whose first parameter is an open
    memory. The result makes the tool over one memory; a refusal is its error."""

    def declare(function: Function) -> MakeTool:
        text = " ".join((function.__doc__ or "").split())

        def bind(memory: OpenMemory) -> Tool:
            @wraps(function)
            async def run(context: ToolContext, **arguments: Any) -> ToolOutput:
                try:
                    return await function(memory, **arguments)
                except (MemoryRefused, StorageError, BusyError) as error:
                    raise ToolError(redact(str(error))) from error

            return tool(description=text, **declaration)(run)

        return bind

    return declare


def as_sentence(text: str) -> str:
    """A clause such as `added to user: "Use tabs"` as a sentence."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def answer(memory: OpenMemory, outcome: Outcome, remark: str = "") -> ToolOutput:
    """What an operation did, for the model, with how full the place is now, or the entry's id."""
    lines = [as_sentence(outcome.text)]
    lines += [] if outcome.change else ["Nothing was changed."]
    if new := outcome.statement:
        memory.mark_shown(frame.escape(new.text), [new])
        lines.append(f"{memory.fill(new.place) or f'Its id is {new.id}'}.")
    return ToolOutput(text=" ".join(filter(None, (*lines, remark))), summary=outcome.text)


def check_word(name: str, value: str, allowed: Collection[str]) -> None:
    """Raises: MemoryRefused if a parameter is none of the words that it may be."""
    if value not in allowed:
        listed = " or ".join(filter(None, allowed))
        raise MemoryRefused(f"`{name}` is {value!r}: say {listed}. Nothing was changed.")


def describe_share(size: int, limit: int, unit: str) -> str:
    """How much of a limit is used: `37% (940/2500 characters)`; "" without one."""
    return f"{round(100 * size / limit)}% ({size}/{limit} {unit})" if limit else ""


def as_list_item(text: str) -> str:
    """A text as a line of a list; what is more than one plain line stays as it is."""
    is_plain = text[:1].isalnum() and "\n" not in text and LINES.texts(text) == [text]
    return f"- {text}" if is_plain else text

"""`todo`: the model's list of steps, echoed in readable form. The session stores it; there is no
state here. Finished steps are ticked in the session's plan, if it has one."""

from typing import Literal

from kode.session.plan import Plan
from kode.tool import ToolContext, ToolOutput, tool
from kode.values import dataclass

_MARKS = {"pending": "[ ]", "doing": "[>]", "done": "[x]"}


@dataclass(frozen=True)
class TodoItem:
    text: str
    status: Literal["pending", "doing", "done"]
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, never changed


@tool(effect="none")
async def todo(context: ToolContext, items: list[TodoItem]) -> ToolOutput:
    """Keep a plan of three or more steps. Send all of it each time, one `doing`."""
    if not items:
        return ToolOutput(text="The todo list is empty.", summary="empty")
    done = [item.text for item in items if item.status == "done"]
    ticked = Plan(context.place.plan).tick_off(done)
    lines = [f"{_MARKS[item.status]} {' '.join(item.text.split())}" for item in items]
    head = f"Todo list, {len(done)} of {len(items)} done:"
    text = "\n".join(filter(None, [head, *lines, ticked]))
    return ToolOutput(text=text, summary=f"{len(done)}/{len(items)} done")

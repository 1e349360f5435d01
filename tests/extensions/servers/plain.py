"""A server with one of each: a tool that answers, fails, reports progress, asks, shows a pixel."""

import asyncio
import base64
import os
import sys
from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, ElicitationResult, MCPServer, Resolve
from mcp.server.mcpserver.utilities.types import Image
from pydantic import BaseModel

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)

server = MCPServer("plain", instructions="Ask me to add.")


class Colour(BaseModel):
    colour: str


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    if b < 0:
        raise ValueError("it was to be expected")
    return a + b


@server.tool()
def picture() -> Image:
    """A pixel."""
    return Image(data=PIXEL, format="png")


@server.tool()
async def slow(context: Context, s: int = 0) -> str:
    """Reports progress, and answers after so many seconds."""
    await context.report_progress(1, 2, "half of it")
    await asyncio.sleep(s)
    return "done"


async def ask_colour() -> Elicit[Colour]:
    return Elicit("Which colour?", Colour)


@server.tool()
async def paint(answer: Annotated[ElicitationResult[Colour], Resolve(ask_colour)]) -> str:
    """Asks for a colour."""
    return f"{answer.action} {getattr(getattr(answer, 'data', None), 'colour', '')}".strip()


@server.resource("note://today")
def today() -> str:
    """What is on today."""
    return "a note from outside"


@server.prompt()
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Say hello to {name}."


if __name__ == "__main__":
    if sys.argv[1:] in (["http"], ["sse"]):
        kind = "sse" if sys.argv[1] == "sse" else "streamable-http"
        server.run(kind, port=int(os.environ["PORT"]))
    else:
        server.run("stdio")

"""`/skills`, `/commands`, `/agents`, `/hooks` at the prompt, and the names they bring to it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kode.cli.screen.lines import clean, clip, one_line
from kode.extensions.brought import Kind
from kode.extensions.listing import lines_of, rows_of

if TYPE_CHECKING:
    from kode.cli.prompt.state import PromptState

ABOUT_COLUMNS = 60


async def _show(kind: Kind, state: "PromptState", argument: str) -> None:
    """What there is of a kind, as this session uses it."""
    talk = state.conversation
    await talk.open()
    for line in lines_of(rows_of(talk.agent.brought, kind), kind):
        state.screen.print(clean(line))


def shows(kind: Kind) -> Callable[["PromptState", str], Awaitable[None]]:
    """The function of the command that lists a kind."""
    return partial(_show, kind)


def names(state: "PromptState") -> Mapping[str, str]:
    """The commands and skills that may be typed now, each with what it does. Reads files before the
    first turn, so call it in a thread."""
    if state.opened is None:
        return {}
    known = state.opened.offered()
    return {f"/{name}": clip(one_line(about), ABOUT_COLUMNS) for name, about in known.items()}


async def run(state: "PromptState", name: str, argument: str) -> bool:
    """Runs a turn with a command or a skill of this name; False when there is none."""
    talk = state.conversation
    if name[1:] not in await asyncio.to_thread(talk.offered):
        return False
    await state.run_turn(f"{name} {argument}".strip())
    return True

"""`/effort`: how much the model thinks."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kode.cli.parser import nearest
from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import one_line
from kode.errors import UserError
from kode.provider import EFFORTS, Effort, Provider, Request

if TYPE_CHECKING:
    from kode.conversation import Conversation

DEFAULT = "default"
"""The word for what the model does unasked."""


async def use_effort(state: PromptState, argument: str) -> None:
    """Shows how much the model thinks and what it accepts, or sets it from the next request on."""
    conversation = state.conversation
    if argument:
        conversation.use_effort(_level(argument))
    first, *more = effort_lines(conversation.agent.effort, conversation.agent.provider)
    for line in (f"Effort: {first}", *more):
        state.screen.print(one_line(line))
    if not argument:
        state.screen.print(f"/effort LEVEL switches; /effort {DEFAULT} leaves it to kode.", "dim")


def effort_lines(wanted: Effort | None, provider: Provider) -> list[str]:
    """What is sent, and what the model accepts."""
    model, levels = provider.model, provider.info.efforts
    sent = _sent(wanted, provider)
    if sent is None and wanted is not None:
        return [f"{wanted} is set, but not sent: kode knows no such setting of {model}."]
    if sent is None:
        what = f"{model} decides by itself"
    elif wanted is None:
        what = f"{sent}, kode's default for {model}"
    else:
        what = wanted if sent == wanted else f"{wanted}, sent as {sent}, the nearest of {model}"
    accepted = f"It accepts {', '.join(levels)}." if levels else ""
    return [line for line in (f"{what}.", accepted) if line]


def _sent(wanted: Effort | None, provider: Provider) -> Effort | None:
    """The level that a request carries; None for none."""
    from kode.providers.provider import HttpProvider

    if not isinstance(provider, HttpProvider):
        return None
    if provider.api == "chat" and not provider.row.dialect.switch:
        return None
    return provider.effort(Request(system="", messages=(), effort=wanted))


def effort_choices(conversation: "Conversation") -> Iterable[tuple[str, str]]:
    """The levels to complete: those that the model has, or all."""
    info = conversation.agent.provider.info
    now = conversation.agent.effort or info.default_effort
    for level in info.efforts or EFFORTS:
        yield level, "now" if level == now else ""
    yield DEFAULT, "leave it to kode"


def _level(word: str) -> Effort | None:
    """Raises: UserError for a word that is no level."""
    lower = word.lower()
    if lower in (DEFAULT, "auto"):
        return None
    if lower not in EFFORTS:
        levels = ", ".join(EFFORTS)
        raise UserError(
            f"There is no effort {one_line(word)!r}.{nearest(lower, EFFORTS)} Levels: {levels}."
        )
    return EFFORTS[EFFORTS.index(lower)]

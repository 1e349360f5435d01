"""`/effort`: how much the model thinks."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kode.cli.parser import nearest
from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import one_line
from kode.contracts import EFFORTS, Effort, ModelInfo
from kode.errors import UserError

if TYPE_CHECKING:
    from kode.conversation import Conversation

DEFAULT = "default"
"""The word for what the model does unasked."""


async def use_effort(state: PromptState, argument: str) -> None:
    """Shows how much the model thinks and what it accepts, or sets it from the next request on."""
    talk = state.conversation
    if argument:
        talk.use_effort(_level(argument))
    wanted, provider = talk.agent.effort, talk.agent.provider
    for line in effort_lines(wanted, provider.model, provider.info):
        state.screen.print(one_line(line))
    if not argument:
        state.screen.print(f"/effort LEVEL switches; /effort {DEFAULT} leaves it to kode.", "dim")


def effort_lines(wanted: Effort | None, model: str, info: ModelInfo) -> list[str]:
    """What is sent, and what the model accepts."""
    from kode.providers.exchange import nearest_effort

    if not info.efforts:
        known = "has no levels of effort that kode knows, so none is sent"
        asked = f"Effort: {wanted} is set, but " if wanted else "Effort: "
        return [f"{asked}{model} {known}."]
    sent = nearest_effort(wanted or info.default_effort, info.efforts)
    if wanted is None:
        what = f"{sent}, kode's default for {model}" if sent else f"{model} decides"
    elif sent == wanted:
        what = wanted
    else:
        what = f"{wanted}, sent as {sent}, the nearest that {model} has"
    return [f"Effort: {what}.", f"It accepts {', '.join(info.efforts)}."]


def effort_choices(talk: "Conversation") -> Iterable[tuple[str, str]]:
    """The levels to complete: those that the model has, or all."""
    info = talk.agent.provider.info
    now = talk.agent.effort or info.default_effort
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

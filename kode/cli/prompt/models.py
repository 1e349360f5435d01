"""`/model` and `/effort`: the models of all configured providers, and how much one thinks."""

import asyncio
import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kode.cli.parser import nearest
from kode.cli.prompt.pickers import choose
from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import count, one_line
from kode.cli.screen.menu import Choice
from kode.errors import UserError
from kode.provider import EFFORTS, Effort, Provider, Request

if TYPE_CHECKING:
    from kode.conversation import Conversation
    from kode.providers.listing import Offer
    from kode.registry import ProviderRow


SHOWN_MODELS = 8
"""Named of a server's models, where one that it lacks is refused."""


async def use_model(state: PromptState, argument: str) -> None:
    """Switches to a model from the next request on: to the one named, or picked from those of all
    providers. A model that a local server lacks is refused: the session would depend on a model
    that fails."""
    if not argument:
        _say_current(state)
        if not (argument := await _choose_model(state)):
            return
    offered = await asyncio.to_thread(state.offers, ask=False)
    if argument not in offered[0].models:
        offered = await asyncio.to_thread(state.offers, ask=True)
    _switch(state, offered, argument)


def _switch(state: PromptState, offered: "Sequence[Offer]", argument: str) -> None:
    from kode.providers.listing import find_model

    conversation = state.conversation
    provider, model = find_model(offered, conversation.config, _current_row(state), argument)
    offer = next((offer for offer in offered if offer.provider == provider), None)
    if offer is not None and offer.is_near and offer.lacks(model):
        raise UserError(
            f"The server has no model {one_line(model)}.{_similar(model, offer.models)} "
            f"It has: {', '.join(map(one_line, offer.models[:SHOWN_MODELS]))}."
        )
    conversation.use_model(model, provider)
    _say_current(state)
    info = conversation.agent.provider.info
    names = [name for offer in offered if offer.provider == provider for name in offer.models]
    if offer is not None and offer.lacks(model):
        state.screen.print(
            f"{one_line(provider)} does not list {one_line(model)}.{_similar(model, names)}",
            "warning",
        )
    elif not info.known:
        hint = _similar(model, [name for name in names if name != model])
        state.screen.print(
            f"kode does not know {one_line(model)}.{hint} If the name is right, set "
            "`context.window` and `prices` in the config.",
            "warning",
        )


def _current_row(state: PromptState) -> "ProviderRow":
    from kode.config.choice import row_of

    conversation = state.conversation
    return row_of(conversation.config, conversation.agent.provider.name)


def _say_current(state: PromptState) -> None:
    provider = state.conversation.agent.provider
    window = count(provider.info.context_window)
    state.screen.print(f"Model: {provider.model} ({provider.name}), a window of {window} tokens.")


async def _choose_model(state: PromptState) -> str:
    """The model that the person picks; "" for none. Says of a provider why it cannot be used."""
    offered = await asyncio.to_thread(state.offers, ask=True)
    for offer in offered:
        if offer.problem:
            state.screen.print(f"{offer.provider}: {offer.problem}", "dim")
    names = [
        f"{offer.provider}/{name}" if number else name
        for number, offer in enumerate(offered)
        for name in offer.models
        if not offer.problem
    ]
    choices = [Choice(name, name) for name in names]
    return await choose(state.screen, "Choose a model", choices) if choices else ""


def _similar(model: str, names: Sequence[str]) -> str:
    """` Did you mean X?`: model names are long, and people often type a part of one."""
    similar = difflib.get_close_matches(model, names, n=1, cutoff=0.6)
    return f" Did you mean {similar[0]}?" if similar else ""


DEFAULT = "default"
"""The word for what the model does unasked."""


async def use_effort(state: PromptState, argument: str) -> None:
    """Shows how much the model thinks and what it accepts, or sets it from the next request on."""
    conversation = state.conversation
    if not argument:
        levels = [
            Choice(level, f"{level:<8}  {what}".rstrip())
            for level, what in effort_choices(conversation)
        ]
        argument = await choose(state.screen, "How much the model thinks", levels)
    if argument:
        conversation.use_effort(_level(argument))
    first, *more = effort_lines(conversation.agent.effort, conversation.agent.provider)
    for line in (f"Effort: {first}", *more):
        state.screen.print(one_line(line))


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

"""`/model`: the models of all configured providers, and switching between them."""

import asyncio
import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import count, explain, one_line
from kode.errors import UserError

if TYPE_CHECKING:
    from kode.providers.listing import Offer
    from kode.registry import ProviderRow

SHOWN_MODELS = 8
"""Listed of each provider, where all are listed."""


async def use_model(state: PromptState, argument: str) -> None:
    """Lists the models, or switches from the next request on; a provider's name lists all of its
    models. A model that a local server lacks is refused: the session would depend on a model that
    fails."""
    if not argument:
        _say_current(state)
        await _show_all(state)
        return
    offered = await asyncio.to_thread(state.offers, ask=False)
    if argument not in offered[0].models:
        offered = await asyncio.to_thread(state.offers, ask=True)
    chosen = next((offer for offer in offered if offer.provider == argument), None)
    if chosen is not None and argument not in offered[0].models:
        _show_one(state, chosen)
        return
    _switch(state, offered, argument)


def _switch(state: PromptState, offered: "Sequence[Offer]", argument: str) -> None:
    from kode.providers.listing import find_model

    conversation = state.conversation
    provider, model = find_model(offered, conversation.config, _current_row(state), argument)
    offer = next((one for one in offered if one.provider == provider), None)
    if offer is not None and offer.is_near and offer.lacks(model):
        raise UserError(
            f"The server has no model {one_line(model)}.{_similar(model, offer.models)} "
            f"It has: {', '.join(map(one_line, offer.models[:SHOWN_MODELS]))}."
        )
    conversation.use_model(model, provider)
    _say_current(state)
    info = conversation.agent.provider.info
    names = [name for one in offered if one.provider == provider for name in one.models]
    if offer is not None and offer.lacks(model):
        state.screen.print(
            f"{one_line(provider)} does not list {one_line(model)}.{_similar(model, names)}",
            "warning",
        )
    elif not info.known:
        near = _similar(model, [name for name in names if name != model])
        state.screen.print(
            f"kode does not know {one_line(model)}.{near} If the name is right, set "
            "`context.window` and `prices` in the config.",
            "warning",
        )


def _current_row(state: PromptState) -> "ProviderRow":
    from kode.config.choice import row_of

    conversation = state.conversation
    return row_of(conversation.config, conversation.agent.provider.name)


def _say_current(state: PromptState) -> None:
    status = state.conversation.status()
    window = count(status.context_window)
    state.screen.print(f"Model: {status.model} ({status.provider}), a window of {window} tokens.")


async def _show_all(state: PromptState) -> None:
    """The providers, each with its first models."""
    offered = await asyncio.to_thread(state.offers, ask=True)
    rows = [(offer.provider, _shortened(offer)) for offer in offered]
    state.screen.print(explain(rows, state.screen.width))
    others = "/model PROVIDER/NAME switches to another provider's; " if len(offered) > 1 else ""
    state.screen.print(f"/model NAME switches; {others}/model PROVIDER lists all of its.", "dim")


def _shortened(offer: "Offer") -> str:
    if offer.problem:
        return offer.problem
    names = ", ".join(map(one_line, offer.models[:SHOWN_MODELS])) or "no models"
    more = len(offer.models) - SHOWN_MODELS
    said = f"{names} and {more} more" if more > 0 else names
    return said if offer.is_listed else f"{said} (as kode knows them)"


def _show_one(state: PromptState, offer: "Offer") -> None:
    """All models of one provider, as they are typed to switch to them."""
    if offer.problem:
        raise UserError(offer.problem)
    is_current = offer.provider == state.conversation.agent.provider.name
    before = "" if is_current else f"{offer.provider}/"
    state.screen.print(f"{offer.title}:")
    for name in offer.models:
        state.screen.print(f"  {before}{one_line(name)}")


def _similar(model: str, names: Sequence[str]) -> str:
    """` Did you mean X?`: model names are long, and people often type a part of one."""
    near = difflib.get_close_matches(model, names, n=1, cutoff=0.6)
    return f" Did you mean {near[0]}?" if near else ""

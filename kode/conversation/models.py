"""The model of an open session: what its server says of it, and another one."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date

from kode.assembly import (
    can_search,
    cost_function,
    learn,
    make_provider,
    secrets_of,
    tool_format_of,
)
from kode.config import named_model, provider_for, resolve_provider, switched
from kode.conversation.open_session import OpenSession
from kode.engine.agent import Agent
from kode.errors import Unavailable
from kode.events import Notice, RetryScheduled
from kode.provider import Effort, Provider
from kode.providers.exchange import SdkProvider
from kode.providers.models import retirement_note


def no_search(provider: Provider) -> str:
    """What to do where `web_search` is wanted and the vendor has none."""
    return (
        f"`web_search` is on, but {provider.name} does not search the web for {provider.model}. "
        "`kode mcp add` adds an MCP server that searches; docs/models.md names the models that do."
    )


async def learn_model(opened: OpenSession) -> None:
    """Lets the provider ask its server about the model, at most for a turn's time limit. Says once
    if the model is retired, or cannot search the web although that is wanted."""
    provider, began = opened.agent.provider, time.monotonic()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(opened.agent.limits.timeout_s):
            if await learn(provider, opened.emit):
                opened.learned = provider.info
    opened.waited_s = time.monotonic() - began
    provider, terms = opened.agent.provider, opened.terms
    if note := retirement_note(provider.info, provider.model, date.today()):
        terms.say_once(note)
    search = can_search(opened.config, provider)
    if search != opened.agent.search:
        opened.agent = replace(opened.agent, search=search)
    if opened.config.web_search and not search:
        terms.say_once(no_search(provider))


def use_model(opened: OpenSession, model: str, provider: str | None = None) -> None:
    """Sends the next request to this model, of the named provider, or of the one that its name
    belongs to. Raises: UserError."""
    current = opened.agent.provider.name
    name = provider or provider_for(opened.config, os.environ, current, model)
    config = switched(opened.config, os.environ, name, model)
    choice = resolve_provider(config, os.environ, opened.loaded.origins)
    chosen = make_provider(config, choice)
    opened.terms.to_close.append(opened.agent.provider)
    opened.loaded = replace(opened.loaded, config=config)
    opened.agent = replace(
        opened.agent,
        provider=chosen,
        effort=choice.effort,
        tool_format=tool_format_of(config, chosen),
        search=can_search(config, chosen),
        cost_usd=cost_function(chosen),
        secrets=secrets_of(choice),
    )
    opened.context.known_messages = 0


async def fall_back(
    opened: OpenSession,
    through: Callable[[Provider], Provider] | None,
    agent: Agent,
    fault: Unavailable,
) -> Agent | None:
    """The agent of `fallback_model`, which the session keeps, asked `through` the same as this one;
    None if no model is set or it is the one that fails, and for a recording. Raises: UserError."""
    named, before = opened.config.fallback_model, opened.agent.provider
    if named is None or not isinstance(before, SdkProvider):
        return None
    provider, model = named_model(opened.config, os.environ, before.row, named)
    if (provider, model) == (before.name, before.model):
        return None
    use_model(opened, model, None if provider == before.name else provider)
    if fault.partial:
        tries = agent.limits.max_attempts
        again = RetryScheduled(
            attempt=tries, max_attempts=tries + 1, delay_s=0, reason=fault.reason
        )
        opened.emit(replace(again, discards_text=True))
    said = f"{fault.reason} {model} answers instead (`fallback_model`), until /model changes it."
    opened.emit(Notice(text=said))
    await learn_model(opened)
    asked = opened.agent.provider if through is None else through(opened.agent.provider)
    return replace(opened.agent, provider=asked, interceptors=agent.interceptors)


def use_effort(opened: OpenSession, effort: Effort | None) -> None:
    """How much the model thinks from the next request on; None: its default."""
    config = opened.config.model_copy(update={"effort": effort})
    opened.loaded = replace(opened.loaded, config=config)
    opened.agent = replace(opened.agent, effort=resolve_provider(config, os.environ).effort)

"""The memory of a session, and the model that it asks."""

import os
import time
from dataclasses import replace
from datetime import datetime
from functools import partial

from kode import paths
from kode.assembly import cost_function, is_small, make_provider
from kode.config import ProviderChoice, small_choice
from kode.conversation.open_session import OpenSession
from kode.engine.tokens import asked_in_passing
from kode.errors import AuthenticationError, RefusedError
from kode.events import Notice, silent
from kode.memory.contract import MemoryContext
from kode.messages import Message, Usage
from kode.provider import AskReply, Provider, Request
from kode.providers.exchange import SdkProvider
from kode.session.entries import UsageEntry
from kode.session.messages import said
from kode.session.record import session_record, typed_texts


def memory_context(opened: OpenSession) -> MemoryContext:
    """What memory may know about a session."""
    session, place = opened.session, opened.place
    return MemoryContext(
        root=paths.memory_folder(place.home, opened.config.memory.data_dir),
        cwd=place.cwd,
        project_root=paths.repository_root(place.cwd),
        session_id=session.id,
        emit=opened.emit,
        ask_reply=ask_reply(opened),
        now=lambda: datetime.now().astimezone(),
        expected_s=partial(_expected_s, opened),
        tainted=lambda: session.tainted,
        outside=lambda: session.tainted_by,
        typed_messages=lambda: _typed(opened),
        session=lambda id: session_record(place.home, id),
        confirm=partial(opened.gate.confirm, "memory"),
    )


def _typed(opened: OpenSession) -> tuple[str, ...]:
    """What the person typed in the session, the message of the running turn included."""
    running = (opened.typed,) if opened.typed else ()
    return (*typed_texts(said(opened.session.entries)), *running)


def _expected_s(opened: OpenSession, input_tokens: int, output_tokens: int) -> float:
    choice = memory_choice(opened)
    model = _small_or_own(opened).model if choice is None else choice.model or ""
    return opened.agent.spend.paces[model].expected_s(input_tokens, output_tokens)


def ask_reply(opened: OpenSession) -> AskReply:
    """The function that memory asks a model with: one attempt, counted in the session. It asks
    `memory.model`, else the model for small work, else the session's. If the vendor's small model,
    which nobody named, is refused, the session's is asked from then on, and one line says so."""
    asked: dict[tuple[str, str], Provider] = {}
    refused: set[tuple[str, str]] = set()

    async def ask(request: Request) -> Message:
        choice, own = memory_choice(opened), opened.agent.provider
        if choice is None:
            return await _answer(opened, _small_or_own(opened), request)
        key = (choice.name, choice.model or choice.row.default_model)
        if key in refused:
            return await _answer(opened, own, request)
        if key not in asked:
            asked[key] = make_provider(opened.config, choice)
            opened.terms.to_close.append(asked[key])
        try:
            return await _answer(opened, asked[key], request)
        except (RefusedError, AuthenticationError) as error:
            if opened.config.memory.model is not None:
                raise
            refused.add(key)
            opened.emit(
                Notice(
                    text=f"{error} Memory asks {own.model} instead; `small_model` in the config "
                    "names another."
                )
            )
            return await _answer(opened, own, request)

    return ask


def memory_choice(opened: OpenSession) -> ProviderChoice | None:
    """A model for memory's questions that is not opened yet: `memory.model`, or the vendor's small
    one; None: the one named for small work, or the session's."""
    agent, named = opened.agent, opened.config.memory.model
    if named is None and (agent.small_model or not isinstance(agent.provider, SdkProvider)):
        return None
    choice = small_choice(opened.config, os.environ, named, opened.loaded.origins)
    is_same = choice.name == agent.provider.name and choice.model == agent.provider.model
    return None if is_same else choice


def _small_or_own(opened: OpenSession) -> Provider:
    agent, named = opened.agent, opened.config.memory.model
    return agent.provider if agent.small_model is None or named is not None else agent.small_model


async def _answer(opened: OpenSession, provider: Provider, request: Request) -> Message:
    """One attempt of a provider at an answer for memory, counted in the session."""
    small, spend = is_small(opened.config, provider), opened.agent.spend
    request = asked_in_passing(replace(request, small=small), provider.info)
    asked_at = time.monotonic()
    message = await provider.reply(request, silent)
    spend.paces[provider.model].note(message.usage, time.monotonic() - asked_at)
    usage = message.usage or Usage()
    cost = cost_function(provider)(usage)
    spend.add(usage, cost)
    opened.session.append(
        UsageEntry(purpose="memory", usage=usage, cost_usd=cost, model=provider.model)
    )
    return message

"""The memory of a session, and the model that it asks."""

import os
import time
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from kode import paths
from kode.assembly import cost_function, is_small, make_provider
from kode.config.choice import ProviderChoice, small_choice
from kode.engine.tokens import asked_in_passing
from kode.errors import AuthenticationError, RefusedError
from kode.events import Notice, silent
from kode.memory.contract import MemoryContext
from kode.messages import Message, Usage
from kode.provider import AskReply, Provider, Request
from kode.providers.exchange import SdkProvider
from kode.session.entries import UsageEntry
from kode.session.messages import visible_messages
from kode.session.record import session_record, typed_texts

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation


def memory_context(conversation: "Conversation") -> MemoryContext:
    """What memory may know about a session."""
    session, place = conversation.session, conversation.place
    return MemoryContext(
        root=paths.memory_folder(place.home, conversation.config.memory.data_dir),
        cwd=place.cwd,
        project_root=paths.repository_root(place.cwd),
        session_id=session.id,
        emit=conversation.settings.emit,
        ask_reply=ask_reply(conversation),
        now=lambda: datetime.now().astimezone(),
        expected_s=partial(_expected_s, conversation),
        tainted=lambda: session.tainted,
        outside=lambda: session.tainted_by,
        typed_messages=lambda: _typed(conversation),
        session=lambda id: session_record(place.home, id),
        confirm=partial(conversation.gate.confirm, "memory"),
    )


def _typed(conversation: "Conversation") -> tuple[str, ...]:
    """What the person typed in the session, the message of the running turn included."""
    messages, pending = visible_messages(conversation.session.entries), conversation.session.pending
    return typed_texts(messages if pending is None else [*messages, pending])


def _expected_s(conversation: "Conversation", input_tokens: int, output_tokens: int) -> float:
    choice = memory_choice(conversation)
    model = _small_or_own(conversation).model if choice is None else choice.model or ""
    return conversation.agent.spend.paces[model].expected_s(input_tokens, output_tokens)


def ask_reply(conversation: "Conversation") -> AskReply:
    """The function that memory asks a model with: one attempt, counted in the session. It asks
    `memory.model`, else the model for small work, else the session's. If the vendor's small model,
    which nobody named, is refused, the session's is asked from then on, and one line says so."""
    asked: dict[tuple[str, str], Provider] = {}
    refused: set[tuple[str, str]] = set()

    async def ask(request: Request) -> Message:
        choice, own = memory_choice(conversation), conversation.agent.provider
        if choice is None:
            return await _answer(conversation, _small_or_own(conversation), request)
        key = (choice.name, choice.model or choice.row.default_model)
        if key in refused:
            return await _answer(conversation, own, request)
        if key not in asked:
            asked[key] = make_provider(conversation.config, choice)
            conversation.to_close.append(asked[key])
        try:
            return await _answer(conversation, asked[key], request)
        except (RefusedError, AuthenticationError) as error:
            if conversation.config.memory.model is not None:
                raise
            refused.add(key)
            conversation.settings.emit(
                Notice(
                    text=f"{error} Memory asks {own.model} instead; `small_model` in the config "
                    "names another."
                )
            )
            return await _answer(conversation, own, request)

    return ask


def memory_choice(conversation: "Conversation") -> ProviderChoice | None:
    """A model for memory's questions that is not opened yet: `memory.model`, or the vendor's small
    one; None: the one named for small work, or the session's."""
    agent, named = conversation.agent, conversation.config.memory.model
    if named is None and (agent.small_model or not isinstance(agent.provider, SdkProvider)):
        return None
    choice = small_choice(
        conversation.config, os.environ, named, conversation.settings.loaded.origins
    )
    is_same = choice.name == agent.provider.name and choice.model == agent.provider.model
    return None if is_same else choice


def _small_or_own(conversation: "Conversation") -> Provider:
    agent, named = conversation.agent, conversation.config.memory.model
    return agent.provider if agent.small_model is None or named is not None else agent.small_model


async def _answer(conversation: "Conversation", provider: Provider, request: Request) -> Message:
    """One attempt of a provider at an answer for memory, counted in the session."""
    small, spend = is_small(conversation.config, provider), conversation.agent.spend
    request = asked_in_passing(replace(request, small=small), provider.info)
    asked_at = time.monotonic()
    message = await provider.reply(request, silent)
    spend.paces[provider.model].note(message.usage, time.monotonic() - asked_at)
    usage = message.usage or Usage()
    cost = cost_function(provider)(usage)
    spend.add(usage, cost)
    conversation.session.append(
        UsageEntry(purpose="memory", usage=usage, cost_usd=cost, model=provider.model)
    )
    return message

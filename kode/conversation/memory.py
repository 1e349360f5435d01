"""The memory of a session, and the model that it asks."""

import time
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from kode import paths
from kode.assembly import is_small
from kode.engine.tokens import room_to_think
from kode.errors import AuthenticationError, RefusedError
from kode.events import Notice, silent
from kode.memory.contract import MemoryContext
from kode.messages import Message, Usage
from kode.provider import Provider, Request
from kode.providers.models import cost_usd
from kode.session.entries import UsageEntry
from kode.session.messages import visible_messages
from kode.session.record import session_record, typed_texts

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation


def memory_context(conversation: "Conversation") -> MemoryContext:
    """What memory may know about a session."""
    session, place = conversation.session, conversation.place

    def expected_s(input_tokens: int, output_tokens: int) -> float:
        pace = conversation.agent.spend.paces[_provider(conversation).model]
        return pace.expected_s(input_tokens, output_tokens)

    def typed_messages() -> tuple[str, ...]:
        pending = filter(None, (session.pending,))
        return typed_texts([*visible_messages(session.entries), *pending])

    return MemoryContext(
        root=paths.memory_folder(place.home, conversation.config.memory.data_dir),
        cwd=place.cwd,
        project_root=paths.repository_root(place.cwd),
        session_id=session.id,
        emit=conversation.settings.emit,
        ask_reply=partial(ask_for_memory, conversation),
        now=lambda: datetime.now().astimezone(),
        expected_s=expected_s,
        tainted=lambda: session.tainted,
        outside=lambda: session.tainted_by,
        typed_messages=typed_messages,
        session=lambda id: session_record(place.home, id),
        confirm=partial(conversation.gate.confirm, "memory"),
    )


async def ask_for_memory(conversation: "Conversation", request: Request) -> Message:
    """One attempt at a reply of the model for small work, counted in the session. If it is refused
    and nobody named it, the session's is asked from then on, and a line says so."""
    provider, config = _provider(conversation), conversation.config
    try:
        return await _ask(conversation, provider, request)
    except (RefusedError, AuthenticationError) as error:
        if config.memory.model or config.small_model or provider is conversation.agent.provider:
            raise
        instead = conversation.agent.provider
        conversation.to_close.append(provider)
        conversation.agent = replace(conversation.agent, small_model=None)
        advice = f"Memory asks {instead.model} instead; `small_model` in the config names another."
        conversation.settings.emit(Notice(text=f"{error} {advice}"))
        return await _ask(conversation, instead, request)


def _provider(conversation: "Conversation") -> Provider:
    return conversation.agent.small_model or conversation.agent.provider


async def _ask(conversation: "Conversation", provider: Provider, request: Request) -> Message:
    small, spend = is_small(conversation.config, provider), conversation.agent.spend
    info, most = provider.info, request.max_output_tokens
    if most is not None:
        most = min(info.max_output_tokens, most + room_to_think(info))
    effort = request.effort or ("low" if info.efforts else None)  # it needs little thought
    request = replace(request, small=small, effort=effort, max_output_tokens=most)
    asked_at = time.monotonic()
    message = await provider.reply(request, silent)
    spend.paces[provider.model].note(message.usage, time.monotonic() - asked_at)
    usage = message.usage or Usage()
    cost = cost_usd(provider.info, usage)
    spend.add(usage, cost)
    conversation.session.append(
        UsageEntry(purpose="memory", usage=usage, cost_usd=cost, model=provider.model)
    )
    return message

"""The memory of a session, and the model that it asks."""

import os
import time
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from kode import paths
from kode.assembly import cost_function, is_small, make_provider
from kode.config.choice import small_choice
from kode.engine.tokens import asked_in_passing
from kode.errors import AuthenticationError, RefusedError
from kode.events import Notice, silent
from kode.memory.contract import MemoryContext
from kode.messages import Message, Usage
from kode.provider import Provider, Request
from kode.providers.provider import HttpProvider
from kode.session.entries import UsageEntry
from kode.session.messages import visible_messages
from kode.session.record import session_record, typed_texts

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation


def memory_context(conversation: "Conversation") -> MemoryContext:
    """What memory may know about a session."""
    session, place = conversation.session, conversation.place
    model = MemoryModel(conversation)

    def typed_messages() -> tuple[str, ...]:
        messages, pending = visible_messages(session.entries), session.pending
        return typed_texts(messages if pending is None else [*messages, pending])

    return MemoryContext(
        root=paths.memory_folder(place.home, conversation.config.memory.data_dir),
        cwd=place.cwd,
        project_root=paths.repository_root(place.cwd),
        session_id=session.id,
        emit=conversation.settings.emit,
        ask_reply=model.ask,
        now=lambda: datetime.now().astimezone(),
        expected_s=model.expected_s,
        tainted=lambda: session.tainted,
        outside=lambda: session.tainted_by,
        typed_messages=typed_messages,
        session=lambda id: session_record(place.home, id),
        confirm=partial(conversation.gate.confirm, "memory"),
    )


@dataclass(frozen=True)
class MemoryModel:
    """The model that memory asks: `memory.model`, else the one for small work that is named, or the
    vendor's, else the session's."""

    conversation: "Conversation"
    opened: dict[tuple[str, str], Provider | None] = field(default_factory=dict)
    """By names of provider and model; None: it was refused."""

    def provider(self) -> Provider:
        """The one that is asked now. Raises: UserError if `memory.model` cannot be."""
        conversation, agent = self.conversation, self.conversation.agent
        named = conversation.config.memory.model
        if named is None and (agent.small_model or not isinstance(agent.provider, HttpProvider)):
            return agent.small_model or agent.provider
        origins = conversation.settings.loaded.origins
        choice = small_choice(conversation.config, os.environ, named, origins)
        key = (choice.name, choice.model or choice.row.default_model)
        if key == (agent.provider.name, agent.provider.model):
            return agent.provider
        if key not in self.opened:
            self.opened[key] = provider = make_provider(conversation.config, choice)
            conversation.to_close.append(provider)
        return self.opened[key] or agent.provider

    def expected_s(self, input_tokens: int, output_tokens: int) -> float:
        """How long an answer should take."""
        pace = self.conversation.agent.spend.paces[self.provider().model]
        return pace.expected_s(input_tokens, output_tokens)

    async def ask(self, request: Request) -> Message:
        """One attempt, counted in the session. If the vendor's small model, which nobody named, is
        refused, the session's is asked from then on, and one line says so."""
        conversation, provider = self.conversation, self.provider()
        try:
            return await _answer(conversation, provider, request)
        except (RefusedError, AuthenticationError) as error:
            key = next((key for key, one in self.opened.items() if one is provider), None)
            if key is None or conversation.config.memory.model is not None:
                raise
            self.opened[key] = None
            model = conversation.agent.provider.model
            advice = f"Memory asks {model} instead; `small_model` in the config names another."
            conversation.settings.emit(Notice(text=f"{error} {advice}"))
            return await _answer(conversation, conversation.agent.provider, request)


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

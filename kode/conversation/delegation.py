"""What all subagents of a session share, and what each starts with. The requests of siblings are
the same up to the task, which comes last."""

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from kode.config.choice import choose_small_model, resolve_provider
from kode.config.model import Embedding, ProviderPart
from kode.errors import StorageError
from kode.extensions.definitions import may_use
from kode.extensions.review import FoundExtensions, in_use
from kode.messages import Usage
from kode.permissions.gate import Gate
from kode.permissions.question import Answer, Ask, Question
from kode.session import entries
from kode.tool import Tool
from kode.undo.journal import TurnId
from kode.values import asdict, replace

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation
    from kode.subagents.parent import Delegation
    from kode.subagents.task import Start, Task

RESERVED_STEPS = 3  # requests of a turn kept for the parent, to use what its subagents found


def make_delegation(conversation: "Conversation", catalog: FoundExtensions) -> "Delegation":
    """What all subagents of a session share; each gets the model and mode in use at its start."""
    from kode.subagents.parent import Delegation, child_environment

    config, ask = conversation.config, conversation.settings.ask
    # Variables that a subagent's process gets although they look secret: those that the person
    # passes on, and the credentials of a cloud, which its SDK reads.
    passed_on = (*config.shell.environment, *resolve_provider(config, os.environ).row.reads)
    return Delegation(
        folder=conversation.agents_folder,
        session=conversation.session,
        agent=lambda: conversation.agent,
        limits=config.subagent,
        environment=child_environment(os.environ, conversation.agent.secrets, passed_on),
        start=partial(make_child_start, conversation),
        ask=ask and partial(_ask_once, conversation.gate, ask),
        record=partial(_record_usage, conversation),
        share_tools=partial(_share_tools, conversation, catalog),
        free=asyncio.Semaphore(config.subagent.max_concurrency),
    )


def _record_usage(conversation: "Conversation", usage: Usage, cost_usd: float | None) -> None:
    model = conversation.agent.provider.model
    entry = entries.UsageEntry(purpose="subagent", usage=usage, cost_usd=cost_usd, model=model)
    try:
        conversation.session.append(entry)
    except StorageError as error:
        conversation.report(error)


async def _ask_once(gate: Gate, ask: Ask, question: Question) -> Answer:
    """Asks one question at a time: an approval for the session answers those that wait, too."""
    async with gate.state.turn:
        if question.rules and {*question.rules} <= {*gate.approved_in_session}:
            return Answer(choice="session")
        answer = await ask(question)
        if answer.choice == "session":
            gate.approve_in_session(question.rules)
    return answer


def _share_tools(
    conversation: "Conversation", catalog: FoundExtensions, task: "Task"
) -> Sequence[Tool]:
    """The tools of its parent's MCP servers that a subagent gets."""
    provider, extensions = conversation.agent.provider, conversation.extensions
    definition = {agent.item.name: agent for agent in in_use(catalog.agents)}.get(task.agent or "")
    if extensions is None:  # in a subagent: those that its own parent lent it
        return tuple(tool for tool in conversation.settings.tools if may_use(definition, tool))
    return extensions.shared_tools(definition, provider.info.context_window)


def make_child_start(conversation: "Conversation") -> "Start":
    """What a child that starts now is sent first, the keys in use included. Raises: ConfigError."""
    from kode.subagents.task import Start

    config, agent, session = conversation.config, conversation.agent, conversation.session
    choice, gate, spend = resolve_provider(config, os.environ), agent.gate, agent.spend
    whole = spend.max_tree_steps or config.max_steps
    mode, deny = gate.state.mode, (*config.permissions.deny, *map(str, gate.state.denied))
    part = config.part(choice.name)
    parts = {choice.name: ProviderPart(api=part.api, headers=part.headers)}
    if (fallback := config.fallback_model) is not None:
        other = choose_small_model(config, os.environ, fallback)
        fallback = f"{other.name}/{other.model}"
        part = replace(config.part(other.name), base_url=other.base_url, api_key=other.api_key)
        parts = {other.name: part, **parts}
    config = replace(
        config,
        provider=choice.name,
        model=agent.provider.model,
        effort=agent.effort,
        fallback_model=fallback,
        base_url=choice.base_url,
        api_key=choice.api_key,
        providers=parts,
        memory=replace(config.memory, enabled=False, embedding=Embedding()),
        permissions=replace(config.permissions, mode=mode, deny=deny),
    )
    return Start(
        config=asdict(config),
        may_ask=conversation.settings.ask is not None,
        trust_project=conversation.settings.trust_project,
        approved=gate.approved_in_session,
        tainted=bool(session.tainted_by),
        rest_of_tree_usd=spend.cost_usd + spend.rest_of_tree_usd,
        rest_of_tree_steps=spend.steps + spend.rest_of_tree_steps,
        max_tree_steps=max(1, whole - min(RESERVED_STEPS, whole // 4)),
        undo=str(agent.undo.folder),
        turn=TurnId(session.turn_id, session.turns),
    )

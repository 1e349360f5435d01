"""Sets up extensions when a session starts: hooks, skills in the prompt and as a tool, commands and
agents by name. `kode.extensions` finds them."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kode import paths
from kode.engine.agent import Agent
from kode.errors import UserError
from kode.events import Notice
from kode.extensions import foreign, found_extensions, trust
from kode.extensions.agents import AgentDefinition
from kode.extensions.found_extensions import FoundExtensions, in_use, reread
from kode.extensions.places import surroundings
from kode.extensions.skills import catalogue
from kode.messages import Text

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation
    from kode.extensions.hook_runs import Hooks


def find_extensions(cwd: Path, trust_project: bool = False) -> FoundExtensions:
    """The extensions for a working directory, and which of them count, as they are on disk now."""
    home = paths.home()
    around = surroundings(cwd, home, paths.user_home())
    approvals = trust.load(home, around.project, trust_project=trust_project)
    return found_extensions.find(around, approvals)


def find_agent(name: str, cwd: Path, *, trust_project: bool = False) -> AgentDefinition:
    """The definition of an agent that may be used in `cwd`. Raises: UserError."""
    agents = in_use(find_extensions(cwd, trust_project=trust_project).agents)
    usable = {agent.item.name: agent for agent in agents}
    if name not in usable:
        raise UserError(
            f"No agent {name!r} may be used here, only: {', '.join(usable) or 'none'}. `kode "
            f"extensions agents` lists them, `kode extensions approve {name}` shows it and asks."
        )
    return usable[name]


async def add_extensions(
    conversation: "Conversation", agent: Agent
) -> "tuple[Agent, FoundExtensions, Hooks | None]":
    """The agent with the extensions of its session and the approved settings of other agents, and
    these extensions; says what cannot be used. Raises: ToolError for a changed skill that a
    subagent begins with."""
    settings, place, emit = conversation.settings, agent.place, conversation.settings.emit
    catalog = await asyncio.to_thread(find_extensions, place.cwd, settings.trust_project)
    if problems := [text for texts in catalog.problems.values() for text in texts]:
        more = f" And {len(problems) - 1} more" if len(problems) > 1 else ""
        list_all = ": `kode extensions skills`, `agents` and so on list them." if more else ""
        emit(Notice(text=f"{problems[0]}{more}{list_all}"))
    if files := settings.loaded.foreign:
        approvals = trust.load(place.home, place.project, trust_project=settings.trust_project)
        rules, *variables = foreign.approved_settings(files, approvals)
        agent.gate.approve_in_session(rules)
        agent = replace(agent, place=place.with_variables(*variables))
        if lines := "; ".join(foreign.remarks(files)):
            text = f"Not used of other agents' settings (`kode doctor` says why): {lines}"
            emit(Notice(text=text, level="info"))
    if conversation.extensions is not None:
        items = [hook.item for hook in in_use(catalog.hooks) if hook.item.scope in trust.FOREIGN]
        await conversation.extensions.ask_outside(items)
    # In a thread: what it imports may wait for the imports of an SDK, and the screen does not.
    agent, hooks = await asyncio.to_thread(_extend, conversation, agent, catalog)
    return agent, catalog, hooks


def _extend(
    conversation: "Conversation", agent: Agent, catalog: FoundExtensions
) -> "tuple[Agent, Hooks | None]":
    """The agent with skills, plug-ins, hooks, and checkers of edits. Raises: ToolError."""
    child, place, gate = conversation.settings.child, agent.place, conversation.gate
    skills, opening, tools = in_use(catalog.skills), agent.opening, list(agent.tools)
    if child is not None and (definition := child.definition) is not None:
        names = definition.skills
        if names is not None:
            skills = tuple(skill for skill in skills if skill.item.name in names)
        elif not definition.has("skill"):
            skills = ()
        # Those that it names it begins with, whatever its tools are.
        for skill in skills if names and not conversation.session.messages else ():
            text = reread(skill, place.home, place.project).instructions()
            conversation.attachments.append(Text(text=text, source="instructions"))
    sections = catalogue(skills, agent.provider.info.context_window)
    if for_model := [skill for skill in skills if skill.for_model]:
        from kode.extensions.skill_tool import skill_tool

        tools.append(skill_tool(for_model, place.home, place.project))
    agent = replace(
        agent,
        tools=tuple(tools),
        opening=lambda window: {**({"skills": sections} if sections else {}), **opening(window)},
        interceptors=tuple(conversation.plugins.interceptors),
    )
    # A guard is not got rid of by changing it: it blocks until somebody looks at the change.
    guards = (
        hook.thing
        for hook in catalog.hooks
        if hook.standing == "changed" and hook.thing.event == "PreToolUse"
    )
    hooks = None
    if active := (*in_use(catalog.hooks), *guards):
        from kode.conversation.hooks import run_in_session
        from kode.extensions.hook_runs import Hooks

        hooks = Hooks(conversation=conversation, hooks=active, run=run_in_session)
        agent = replace(
            agent,
            gate=gate if gate.ask is None else replace(gate, ask=hooks.asking(gate.ask)),
            around=hooks.around,
            before_compaction=hooks.before_compaction,
            interceptors=(hooks.before_call, *agent.interceptors),
        )
    if conversation.config.diagnostics:
        from kode.tools.checkers import Checkers

        checkers = Checkers(place=place, sandbox=agent.sandbox, within=agent.around)
        agent = replace(agent, around=checkers.around)
    return agent, hooks

"""Sets up extensions when a conversation opens: skills in the prompt and as a tool, commands and
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
from kode.extensions.skills import Skill, catalogue
from kode.messages import Text

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation
    from kode.extensions.hook_moments import Hooks


async def find_extensions(conversation: "Conversation") -> FoundExtensions:
    """The extensions in the session's folders; says what is wrong with them."""
    found = await asyncio.to_thread(find_extensions_here, conversation)
    if problems := [text for texts in found.problems.values() for text in texts]:
        more = f" And {len(problems) - 1} more" if len(problems) > 1 else ""
        say_all = ": `kode extensions skills`, `agents` and so on list them." if more else ""
        conversation.settings.emit(Notice(text=f"{problems[0]}{more}{say_all}"))
    return found


async def take_foreign(conversation: "Conversation") -> None:
    """Applies what settings files of other agents allow and set, as far as a person approved it;
    says what of them is not used."""
    settings, place = conversation.settings, conversation.place
    files = settings.loaded.foreign
    if not files:
        return
    approvals = await asyncio.to_thread(
        trust.load, place.home, place.project, trust_project=settings.trust_project
    )
    rules, environment, inside = foreign.approved_settings(files, approvals)
    conversation.gate.approve_in_session(rules)
    environment = {**place.environment, **environment}
    place = replace(place, environment=environment, inside={**place.inside, **inside})
    conversation.agent = replace(conversation.agent, place=place)
    if lines := foreign.remarks(files):
        text = f"Not used of other agents' settings (`kode doctor` says why): {'; '.join(lines)}"
        settings.emit(Notice(text=text, level="info"))


async def hooks_of(conversation: "Conversation", found: FoundExtensions) -> "Hooks | None":
    """The hooks that count in a session; None if there are none. Asks whether those of the project
    may run without a sandbox."""
    hooks = in_use(found.hooks)
    if conversation.extensions is not None:
        items = [hook.item for hook in hooks if hook.item.scope in trust.FOREIGN]
        await conversation.extensions.ask_outside(items)
    # A guard is not got rid of by changing it: it blocks until somebody looks at the change.
    guards = tuple(
        replace(hook.thing, is_async=False)
        for hook in found.hooks
        if hook.standing == "changed" and hook.thing.event == "PreToolUse"
    )
    if not hooks and not guards:
        return None
    from kode.conversation.hooks import make_hooks

    return make_hooks(conversation, (*hooks, *guards))


def find_extensions_here(conversation: "Conversation") -> FoundExtensions:
    """Finds the extensions in the session's folders, and which of them count, as they are on disk
    now."""
    place, trusted = conversation.place, conversation.settings.trust_project
    approvals = trust.load(place.home, place.project, trust_project=trusted)
    return found_extensions.find(surroundings(place.cwd, place.home, place.user_home), approvals)


def extend(
    conversation: "Conversation", agent: Agent, found: FoundExtensions, hooks: "Hooks | None"
) -> Agent:
    """The agent with the extensions of its session, and with checkers of edits."""
    skills, opening = skills_of(conversation, found), agent.opening
    listed = catalogue(skills, agent.provider.info.context_window)
    sections = {"skills": listed} if listed else {}
    tools = list(agent.tools)
    if for_model := [skill for skill in skills if skill.for_model]:
        from kode.extensions.skill_tool import skill_tool

        tools.append(skill_tool(for_model, agent.place.home, agent.place.project))
    agent = replace(
        agent,
        tools=tuple(tools),
        opening=lambda window: {**sections, **opening(window)},
        interceptors=tuple(conversation.plugins.interceptors),
    )
    if hooks is not None:
        ask, gate = conversation.settings.ask, conversation.gate
        agent = replace(
            agent,
            gate=gate if ask is None else replace(gate, ask=hooks.asking(ask)),
            around=hooks.around,
            before_compaction=hooks.before_compaction,
            interceptors=(hooks.before_call, *agent.interceptors),
        )
    if conversation.config.diagnostics:
        from kode.tools.checkers import Checkers

        checkers = Checkers(place=agent.place, sandbox=agent.sandbox, within=agent.around)
        agent = replace(agent, around=checkers.around)
    return agent


def definition_of(name: str, cwd: Path, *, trust_project: bool = False) -> AgentDefinition:
    """The definition of an agent that may be used in `cwd`. Raises: UserError."""
    home = paths.home()
    where = surroundings(cwd, home, paths.user_home())
    found = found_extensions.find(
        where, trust.load(home, where.project, trust_project=trust_project)
    )
    for agent in in_use(found.agents):
        if agent.item.name == name:
            return agent
    if any(agent.thing.item.name == name for agent in found.agents):
        raise UserError(
            f"Nobody has approved the agent {name} as it is now: `kode extensions approve {name}` "
            "shows it and asks."
        )
    names = ", ".join(agent.item.name for agent in in_use(found.agents)) or "none here"
    raise UserError(f"There is no agent {name!r}. `kode extensions agents` lists them: {names}.")


def skills_of(conversation: "Conversation", found: FoundExtensions) -> tuple[Skill, ...]:
    """The skills of a session: for a subagent, those that its definition allows."""
    child, used = conversation.settings.child, in_use(found.skills)
    definition = child.definition if child is not None else None
    if definition is None:
        return used
    named = definition.skills
    # Those that it names it begins with, whatever its tools are.
    if named is None and not definition.has("skill"):
        return ()
    return tuple(extension for extension in used if named is None or extension.item.name in named)


def load_skills(conversation: "Conversation", found: FoundExtensions) -> None:
    """Has a subagent begin with the skills that its definition names. Raises: ToolError for one
    that has changed since it was approved."""
    child, place = conversation.settings.child, conversation.place
    definition = child.definition if child is not None else None
    if definition is not None and definition.skills and not conversation.session.messages:
        for skill in skills_of(conversation, found):
            text = reread(skill, place.home, place.project).instructions()
            conversation.attachments.append(Text(text=text, source="instructions"))

"""Sets up extensions when a conversation opens: skills in the prompt and as a tool, commands and
agents by name. `kode.extensions` finds them."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kode import paths
from kode.conversation.open_session import OpenSession
from kode.engine.agent import Agent
from kode.errors import UserError
from kode.events import Notice
from kode.extensions import foreign, found_extensions, trust
from kode.extensions.agents import AgentDefinition
from kode.extensions.found_extensions import FoundExtensions, in_use, reread
from kode.extensions.hooks import is_current
from kode.extensions.places import Surroundings, surroundings
from kode.extensions.skills import Skill, catalogue
from kode.messages import Text
from kode.tool import Around, Tool
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.extensions.hook_moments import Hooks


async def find_extensions(opened: OpenSession) -> FoundExtensions:
    """The extensions in the session's folders; says what is wrong with them."""
    found = await asyncio.to_thread(find_extensions_here, opened)
    if problems := [text for texts in found.problems.values() for text in texts]:
        more = f" And {len(problems) - 1} more" if len(problems) > 1 else ""
        say_all = ": `kode extensions skills`, `agents` and so on list them." if more else ""
        opened.emit(Notice(text=f"{problems[0]}{more}{say_all}"))
    return found


async def take_foreign(opened: OpenSession) -> None:
    """Applies what settings files of other agents allow and set, as far as a person approved it;
    says what of them is not used."""
    found, place = opened.loaded.foreign, opened.agent.place
    if not found:
        return
    trusted = opened.terms.trust_project
    approvals = await asyncio.to_thread(
        trust.load, place.home, place.project, trust_project=trusted
    )
    rules, own, inside = foreign.approved_settings(found, approvals)
    opened.gate.approve_in_session(rules)
    environment = {**place.environment, **own}
    place = replace(place, environment=environment, inside={**place.inside, **inside})
    opened.agent = replace(opened.agent, place=place)
    if lines := foreign.remarks(found):
        said = f"Not used of other agents' settings (`kode doctor` says why): {'; '.join(lines)}"
        opened.emit(Notice(text=said, level="info"))


async def hooks_of(opened: OpenSession, found: FoundExtensions) -> "Hooks | None":
    """The hooks that count in a session; None if there are none. Asks whether those of the project
    may run without a sandbox."""
    hooks = in_use(found.hooks)
    if opened.terms.extensions is not None:
        foreign_s = [hook.item for hook in hooks if hook.item.scope in trust.FOREIGN]
        await opened.terms.extensions.ask_outside(foreign_s)
    # A guard is not got rid of by changing it: it blocks until somebody looks at the change.
    guards = tuple(
        replace(one.thing, is_async=False)
        for one in found.hooks
        if one.standing == "changed" and one.thing.event == "PreToolUse"
    )
    if not hooks and not guards:
        return None
    from kode.conversation.hooking import granted, hook_runner
    from kode.extensions.hook_input import MODES
    from kode.extensions.hook_moments import Hooks

    session, place, around = opened.session, opened.place, _around(opened.place)

    def common() -> dict[str, str]:
        return {
            "session_id": session.id or "",
            "transcript_path": str(session.path or ""),
            "cwd": str(place.cwd),
            "permission_mode": MODES[opened.mode],
        }

    return Hooks(
        hooks=(*hooks, *guards),
        cwd=place.cwd,
        common=common,
        record=session.append,
        emit=opened.emit,
        secrets=lambda: opened.agent.secrets,
        run=hook_runner(opened, common),
        note=opened.note,
        is_free=lambda hook: hook.item.scope == "home" or granted(hook, place).outside,
        is_current=lambda hook: (
            is_current(hook, around) and not trust.is_held(hook.item, around.home, around.project)
        ),
    )


def find_extensions_here(opened: OpenSession) -> FoundExtensions:
    """Finds the extensions in the session's folders, and which of them count, as they are on disk
    now."""
    place, trusted = opened.place, opened.terms.trust_project
    approvals = trust.load(place.home, place.project, trust_project=trusted)
    return found_extensions.find(_around(place), approvals)


def _around(place: Workplace) -> Surroundings:
    return surroundings(place.cwd, place.home, place.user_home)


def extended(
    opened: OpenSession, agent: Agent, found: FoundExtensions, hooks: "Hooks | None"
) -> Agent:
    """The agent with the extensions of its session, and with checkers of edits."""
    allowed = skills_of(opened, found)
    skills = catalogue(allowed, agent.provider.info.context_window)
    opening = agent.opening
    agent = replace(
        agent,
        tools=(*agent.tools, *_skill_tools(agent, allowed)),
        opening=lambda window: {**({"skills": skills} if skills else {}), **opening(window)},
    )
    interceptors = opened.terms.plugged.interceptors
    if hooks is not None:
        ask = opened.terms.ask
        agent = replace(
            agent,
            gate=opened.gate if ask is None else replace(opened.gate, ask=hooks.asking(ask)),
            around=hooks.around,
            before_compaction=hooks.before_compaction,
        )
        interceptors = (hooks.before_call, *interceptors)
    agent = replace(agent, interceptors=interceptors)
    if opened.config.diagnostics:
        agent = replace(agent, around=with_checkers(agent, agent.around))
    return agent


def with_checkers(agent: Agent, around: Around) -> Around:
    """What is done around each call, inside the checkers of edits."""
    from kode.tools.checkers import Checkers

    return Checkers(place=agent.place, sandbox=agent.sandbox, within=around).around


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
    if any(one.thing.item.name == name for one in found.agents):
        raise UserError(
            f"Nobody has approved the agent {name} as it is now: `kode extensions approve {name}` "
            "shows it and asks."
        )
    names = ", ".join(agent.item.name for agent in in_use(found.agents)) or "none here"
    raise UserError(f"There is no agent {name!r}. `kode extensions agents` lists them: {names}.")


def skills_of(opened: OpenSession, found: FoundExtensions) -> tuple[Skill, ...]:
    """The skills of a session: for a subagent, those that its definition allows."""
    child, used = opened.terms.child, in_use(found.skills)
    definition = child.definition if child is not None else None
    if definition is None:
        return used
    named = definition.skills
    # Those that it names it begins with, whatever its tools are.
    if named is None and not definition.has("skill"):
        return ()
    return tuple(one for one in used if named is None or one.item.name in named)


def load_skills(opened: OpenSession, found: FoundExtensions) -> None:
    """Has a subagent begin with the skills that its definition names. Raises: ToolError for one
    that has changed since it was approved."""
    child, place = opened.terms.child, opened.place
    definition = child.definition if child is not None else None
    if definition is not None and definition.skills and not opened.session.messages:
        for skill in skills_of(opened, found):
            text = reread(skill, place.home, place.project).instructions()
            opened.outbox.append(Text(text=text, source="instructions"))


def _skill_tools(agent: Agent, skills: Sequence[Skill]) -> tuple[Tool, ...]:
    offered = [skill for skill in skills if skill.for_model]
    if not offered:
        return ()
    from kode.extensions.skill_tool import skill_tool

    return (skill_tool(offered, agent.place.home, agent.place.project),)

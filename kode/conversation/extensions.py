"""What others bring, put to use when a conversation opens: skills in the prompt and as a tool,
commands and agents by name. Finding it is the business of `kode.extensions`.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kode import paths
from kode.contracts import Around, Tool, ToolContext, ToolOutput
from kode.engine.agent import Agent
from kode.errors import UserError
from kode.events import Emit, Notice
from kode.extensions import brought, trust
from kode.extensions.agents import AgentDefinition
from kode.extensions.brought import Brought
from kode.extensions.hooks import is_current
from kode.extensions.places import Surroundings, surroundings
from kode.extensions.skills import catalogue
from kode.extensions.trust import Approvals
from kode.workplace import Workplace


def around(place: Workplace) -> Surroundings:
    """Where a session looks for extensions."""
    return surroundings(place.cwd, place.home, place.user_home)


async def extend_agent(
    agent: Agent, approvals: Approvals, emit: Emit, *, diagnostics: bool = True
) -> Agent:
    """The agent with what counts of what lies where it works, as it is on disk now."""
    where = around(agent.place)
    found = await asyncio.to_thread(brought.find, where, approvals)
    if problems := [text for texts in found.problems.values() for text in texts]:
        more = f" And {len(problems) - 1} more" if len(problems) > 1 else ""
        say_all = ": `kode skills`, `commands`, `agents` and `hooks` say all." if more else ""
        emit(Notice(text=f"{problems[0]}{more}{say_all}"))
    skills = catalogue(found.used_skills, agent.provider.info.context_window)
    render = agent.render_system
    if agent.hooks is not None:
        agent.hooks.hooks = found.used_hooks
        agent.hooks.is_current = lambda hook: is_current(hook, where)

    def render_system(memory: str) -> str:
        return render("\n\n".join(filter(None, (skills, memory))))

    return replace(
        agent,
        brought=found,
        tools=(*agent.tools, *_skill_tools(agent, found)),
        render_system=render_system,
        around=_around(agent, diagnostics=diagnostics),
        before_compaction=agent.hooks.before_compaction
        if agent.hooks is not None
        else agent.before_compaction,
    )


def _around(agent: Agent, *, diagnostics: bool) -> Around:
    """Checkers come first: hooks see what they found."""
    hooked = agent.hooks.around if agent.hooks is not None else agent.around
    if not diagnostics:
        return hooked
    from kode.extensions.diagnostics import Diagnostics

    checked = Diagnostics(place=agent.place, sandbox=agent.sandbox)

    async def around(
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolContext,
        run: Callable[[], Awaitable[ToolOutput]],
    ) -> ToolOutput:
        return await hooked(
            tool, arguments, context, partial(checked.around, tool, arguments, context, run)
        )

    return around


def definition_of(name: str, cwd: Path, *, trust_project: bool = False) -> AgentDefinition:
    """The definition of an agent that may be used in `cwd`. Raises: UserError."""
    home = paths.home()
    where = surroundings(cwd, home, Path(os.path.expanduser("~")))
    found = brought.find(where, trust.load(home, where.project, trust_project=trust_project))
    for agent in found.used_agents:
        if agent.item.name == name:
            return agent
    if any(one.thing.item.name == name for one in found.agents):
        raise UserError(
            f"Nobody has approved the agent {name} as it is now. `kode trust show {name}` shows "
            f"it, `kode trust approve {name}` approves it."
        )
    names = ", ".join(agent.item.name for agent in found.used_agents) or "none here"
    raise UserError(f"There is no agent {name!r}. `kode agents` lists them: {names}.")


def _skill_tools(agent: Agent, found: Brought) -> tuple[Tool, ...]:
    offered = [skill for skill in found.used_skills if skill.for_model]
    if not offered:
        return ()
    from kode.extensions.skill_tool import skill_tool

    return (skill_tool(offered, agent.place.project),)

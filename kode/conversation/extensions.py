"""Sets up extensions when a conversation opens: skills in the prompt and as a tool, commands and
agents by name. `kode.extensions` finds them."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import paths
from kode.contracts import Around, Tool, ToolContext, ToolOutput
from kode.conversation.hooking import hook_runner
from kode.engine.agent import Agent
from kode.errors import UserError
from kode.events import Notice
from kode.extensions import brought, trust
from kode.extensions.agents import AgentDefinition
from kode.extensions.brought import Brought, in_use
from kode.extensions.hook_input import MODES
from kode.extensions.hook_moments import Hooks
from kode.extensions.hooks import Hook, is_current
from kode.extensions.places import Surroundings, surroundings
from kode.extensions.skills import catalogue
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation


async def open_extensions(talk: "Conversation") -> tuple[Tool, ...]:
    """Asks about extensions that wait for approval, starts servers, and extends the agent of an
    opening conversation; returns the servers' tools."""
    agent = talk.agent
    of_servers: tuple[Tool, ...] = ()
    if talk.extensions is not None:
        of_servers = await talk.extensions.open(agent.provider.info.context_window)
    found = await asyncio.to_thread(find_brought, talk)
    if problems := [text for texts in found.problems.values() for text in texts]:
        more = f" And {len(problems) - 1} more" if len(problems) > 1 else ""
        say_all = (
            ": `kode skills`, `commands`, `agents` and `hooks` have the details." if more else ""
        )
        talk.emit(Notice(text=f"{problems[0]}{more}{say_all}"))
    talk.brought = found
    # A guard is not got rid of by changing it: it blocks until somebody looks at the change.
    guards = tuple(
        one.thing
        for one in found.hooks
        if one.standing == "changed" and one.thing.event == "PreToolUse"
    )
    if talk.extensions is not None:
        project_s = [hook.item for hook in in_use(found.hooks) if hook.item.scope == "project"]
        await talk.extensions.ask_outside(project_s)
    talk.hooks = _hooks(talk, (*in_use(found.hooks), *guards))
    talk.agent = _extend(talk, found, talk.hooks)
    return of_servers


def _hooks(talk: "Conversation", hooks: tuple[Hook, ...]) -> Hooks:
    session, place, around = talk.session, talk.agent.place, _around(talk.agent.place)
    return Hooks(
        hooks=hooks,
        cwd=place.cwd,
        common=lambda: {
            "session_id": session.id or "",
            "transcript_path": str(session.path or ""),
            "cwd": str(place.cwd),
            "permission_mode": MODES[talk.mode],
        },
        record=session.append,
        emit=talk.emit,
        secrets=lambda: talk.agent.secrets,
        run=hook_runner(talk),
        is_current=lambda hook: (
            is_current(hook, around) and not trust.is_held(hook.item, around.home, around.project)
        ),
    )


def find_brought(talk: "Conversation") -> Brought:
    """Finds the extensions in the conversation's folders, and which of them count, as they are on
    disk now."""
    place = talk.agent.place
    approvals = trust.load(place.home, place.project, trust_project=talk.trust_project)
    return brought.find(_around(place), approvals)


def _around(place: Workplace) -> Surroundings:
    return surroundings(place.cwd, place.home, place.user_home)


def _extend(talk: "Conversation", found: Brought, hooks: Hooks) -> Agent:
    agent = talk.agent
    skills = catalogue(in_use(found.skills), agent.provider.info.context_window)
    opening = agent.opening
    return replace(
        agent,
        tools=(*agent.tools, *_skill_tools(agent, found)),
        opening=lambda window: {**({"skills": skills} if skills else {}), **opening(window)},
        gate=talk.gate if talk.ask is None else replace(talk.gate, ask=hooks.asking(talk.ask)),
        interceptors=(hooks.before_call,),
        around=with_checkers(agent, hooks.around) if talk.config.diagnostics else hooks.around,
        before_compaction=hooks.before_compaction,
    )


def with_checkers(agent: Agent, hooks: Around) -> Around:
    """Runs each call with checkers after an edit. They run first, so that hooks see their
    findings."""
    from kode.extensions.diagnostics import Diagnostics

    checked = Diagnostics(place=agent.place, sandbox=agent.sandbox)

    async def around(
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolContext,
        run: Callable[[], Awaitable[ToolOutput]],
    ) -> ToolOutput:
        return await hooks(
            tool, arguments, context, partial(checked.around, tool, arguments, context, run)
        )

    return around


def definition_of(name: str, cwd: Path, *, trust_project: bool = False) -> AgentDefinition:
    """The definition of an agent that may be used in `cwd`. Raises: UserError."""
    home = paths.home()
    where = surroundings(cwd, home, Path(os.path.expanduser("~")))
    found = brought.find(where, trust.load(home, where.project, trust_project=trust_project))
    for agent in in_use(found.agents):
        if agent.item.name == name:
            return agent
    if any(one.thing.item.name == name for one in found.agents):
        raise UserError(
            f"Nobody has approved the agent {name} as it is now. `kode trust show {name}` shows "
            f"it, `kode trust approve {name}` approves it."
        )
    names = ", ".join(agent.item.name for agent in in_use(found.agents)) or "none here"
    raise UserError(f"There is no agent {name!r}. `kode agents` lists them: {names}.")


def _skill_tools(agent: Agent, found: Brought) -> tuple[Tool, ...]:
    offered = [skill for skill in in_use(found.skills) if skill.for_model]
    if not offered:
        return ()
    from kode.extensions.skill_tool import skill_tool

    return (skill_tool(offered, agent.place.home, agent.place.project),)

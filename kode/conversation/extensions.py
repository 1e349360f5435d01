"""What others bring, put to use when a conversation opens: skills in the prompt and as a tool,
commands and agents by name. Finding it is the business of `kode.extensions`.
"""

from dataclasses import replace

from kode.contracts import Tool
from kode.engine.agent import Agent
from kode.extensions import brought
from kode.extensions.brought import Brought
from kode.extensions.places import Surroundings, surroundings
from kode.extensions.skills import catalogue
from kode.extensions.trust import Approvals
from kode.workplace import Workplace


def around(place: Workplace) -> Surroundings:
    """Where a session looks for extensions."""
    return surroundings(place.cwd, place.home, place.user_home)


def extend_agent(agent: Agent, approvals: Approvals) -> Agent:
    """The agent with what counts of what lies where it works, as it is on disk now."""
    found = brought.find(around(agent.place), approvals)
    skills = catalogue(found.used_skills, agent.provider.info.context_window)
    render = agent.render_system

    def render_system(memory: str) -> str:
        return render("\n\n".join(filter(None, (skills, memory))))

    return replace(
        agent,
        brought=found,
        tools=(*agent.tools, *_skill_tools(agent, found)),
        render_system=render_system,
    )


def _skill_tools(agent: Agent, found: Brought) -> tuple[Tool, ...]:
    offered = [skill for skill in found.used_skills if skill.for_model]
    if not offered:
        return ()
    from kode.extensions.skill_tool import skill_tool

    return (skill_tool(offered, agent.place.project),)

"""Goals: work that continues, turn after turn, until a command that kode runs itself succeeds.

goal      a goal and its attempts: the request, the session's records, and their texts
check     runs the check; the files that may not change while the goal is pursued
pursue    the turns: work, check, feedback to the model, the end
"""

from kode.plugin import Command, Parser, Plugin


def add_flags(parser: Parser) -> None:
    """Adds the flags of a goal; here, because help lists them without an agent."""
    add = parser.add_argument
    add("--goal", metavar="TEXT", help="work until --verify succeeds, within the limits")
    add("--verify", metavar="CMD", help="the command that says whether the goal is reached")


PLUGIN = Plugin(
    name="goals",
    summary="works until a command succeeds",
    slash={
        "goal": Command(
            run="kode.plugins.goals.goal:run_goal_command",
            summary="work until a command succeeds: TEXT --verify CMD; stop",
        )
    },
    flags="kode.plugins.goals:add_flags",
    task="kode.plugins.goals.goal:goal_task",
    around_turn="kode.plugins.goals.pursue:around_turn",
    sections="kode.plugins.goals.goal:goal_sections",
)

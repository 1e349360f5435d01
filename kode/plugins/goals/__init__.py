"""Goals: work that continues, turn after turn, until a command that kode runs itself succeeds.

command    `/goal`, and what the flags of `kode run` begin
forms      a goal and its attempts: in the session's records, for programs, and in words
guard      the files that may not change while it is pursued
check      runs the check, and says which attempts are alike
pursue     the turns: work, check, what the model is told, when it ends
"""

from kode.plugin import Command, Parser, Plugin


def add_flags(parser: Parser) -> None:
    """Adds the flags of a goal; here, because help lists them without an agent."""
    add = parser.add_argument
    add("--goal", metavar="TEXT", help="work until --verify succeeds; limits are for all turns")
    add("--verify", metavar="CMD", help="the command that says whether the goal is reached")
    protect = "what the goal may not change (default: the tests that CMD names); none"
    add("--protect", metavar="PATTERN", action="append", help=protect)


PLUGIN = Plugin(
    name="goals",
    summary="works until a command succeeds",
    slash={
        "goal": Command(
            run="kode.plugins.goals.command:goal",
            summary="work until a command succeeds: TEXT --verify CMD; stop",
        )
    },
    flags="kode.plugins.goals:add_flags",
    task="kode.plugins.goals.command:task",
    around_turn="kode.plugins.goals.pursue:around_turn",
    sections="kode.plugins.goals.forms:sections",
)

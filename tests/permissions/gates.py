"""A gate in a project, and a person who answers its questions."""

import asyncio
from types import SimpleNamespace

import pytest

from kode.events import no_emit
from kode.permissions.gate import Gate, GateState
from kode.permissions.question import Answer
from kode.permissions.rules import Rules, parse_all
from kode.tool import Action, ToolContext
from kode.tools.builtin import BUILTIN
from tests.workplaces import workplace

TOOLS = {tool.name: tool for tool in BUILTIN}
SCRIPT = Action(call_id="1", tool=TOOLS["shell"], arguments={"command": "./x.sh"})
ONCE, NO = Answer(choice="once"), Answer(choice="no")
SESSION, PROJECT = Answer(choice="session"), Answer(choice="project")


class Person:
    """Answers questions from a list, and keeps them."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.questions = []
        self.at_once = 0
        self.most_at_once = 0

    async def __call__(self, question):
        self.questions.append(question)
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        return self.answers.pop(0)


@pytest.fixture
def gates(tmp_path):
    project, home = tmp_path / "project", tmp_path / "home" / ".kode"
    project.mkdir()
    context = ToolContext(place=workplace(project, home=home), call_id="1", emit=no_emit)

    def gate(ask=None, mode="ask", allow=(), deny=(), emit=no_emit):
        return Gate(
            rules=Rules(allow=parse_all(allow), deny=parse_all(deny)),
            state=GateState(mode=mode),
            place=context.place,
            ask=ask,
            emit=emit,
        )

    async def judge(gate, tool, arguments, **fields):
        return await gate.judge(
            Action(call_id="1", tool=tool, arguments=arguments, **fields), context
        )

    async def check(gate, command):
        return await judge(gate, TOOLS["shell"], {"command": command})

    return SimpleNamespace(
        project=project, home=home, context=context, gate=gate, check=check, judge=judge
    )

from dataclasses import replace

import pytest

from kode.tool import ALLOWED, Decision
from tests.engine.conftest import MakeBench, OpenGate, calls, says

REFUSED = Decision(outcome="deny", reason="no")
PLAN = Decision(outcome="allow", reason="limits", run_in="read_only")
ASK = Decision(outcome="ask", reason="a hook")


class Gate(OpenGate):
    """Notes the advice that it gets."""

    def __init__(self):
        self.advice = []

    async def judge(self, action, context):
        self.advice.append(action.advice)
        return ALLOWED


@pytest.mark.parametrize(
    ("chain", "asked", "advice"),
    [
        ((), 0, [None]),
        ((None, None), 2, [None]),
        ((ASK, None), 2, [ASK]),
        ((ASK, PLAN), 2, [PLAN]),
        ((REFUSED, PLAN), 1, []),
        ((ASK, ALLOWED), 2, [ASK]),
    ],
)
async def test_a_refusal_or_the_gravest_advice_counts(bench: MakeBench, chain, asked, advice):
    counted = []

    def interceptor(said):
        async def intercept(action):
            counted.append(action.tool.name)
            return said

        return intercept

    run = bench(calls(("echo", '{"text": "x"}')), says("done"))
    gate = Gate()
    run.agent = replace(run.agent, gate=gate, interceptors=tuple(map(interceptor, chain)))

    ended = await run.turn()

    assert len(counted) == asked
    assert gate.advice == advice
    assert bool(ended.denials) is (REFUSED in chain)

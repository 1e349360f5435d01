from dataclasses import replace

import pytest

from kode.tool import Opinion, Verdict
from tests.engine.conftest import MakeBench, OpenGate, calls, says

REFUSED = Verdict(allowed=False, reason="no")
PLAN = Opinion(outcome="plan", reason="limits")
ASK = Opinion(outcome="ask", reason="a hook")


class Gate(OpenGate):
    """Notes the opinions that it gets."""

    def __init__(self):
        self.opinions = []

    async def check(self, tool, arguments, context):
        self.opinions.append(context.opinion)
        return Verdict(allowed=True, reason="")


@pytest.mark.parametrize(
    ("chain", "asked", "opinions"),
    [
        ((), 0, [None]),
        ((None, None), 2, [None]),
        ((ASK, None), 2, [ASK]),
        ((ASK, PLAN), 2, [PLAN]),
        ((REFUSED, PLAN), 1, []),
        ((ASK, replace(REFUSED, allowed=True)), 2, []),
    ],
)
async def test_the_first_verdict_of_the_chain_decides(bench: MakeBench, chain, asked, opinions):
    counted = []

    def interceptor(said):
        async def intercept(tool, arguments, context):
            counted.append(tool.name)
            return said

        return intercept

    run = bench(calls(("echo", '{"text": "x"}')), says("done"))
    gate = Gate()
    run.agent = replace(run.agent, gate=gate, interceptors=tuple(map(interceptor, chain)))

    ended = await run.turn()

    assert len(counted) == asked
    assert gate.opinions == opinions
    assert bool(ended.denials) is (REFUSED in chain)

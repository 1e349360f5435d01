"""What a turn costs, early and late: `python -m bench.turns [--json]`.

per_turn_ratio      20 shell calls in one run, against the plainest loop with the same SDK
gap_ratio           likewise the median time from one request to the next, as the server sees it:
                    the answer read, the command run, its result kept and sent
responses_...       both over Responses; messages_...: over Messages, with Anthropic's SDK
late_turn_ratio     time of the 1,000th turn of a session to that of the 10th
bytes_ratio         bytes written to the session, likewise
first_shared        share of a first request that is the same in another folder, in the order of
                    many local models' templates: system prompt, tools, messages
prefix_identical    share of requests from the second on whose system prompt, tools and earlier
                    messages are byte for byte those of the request before
"""

import asyncio
import itertools
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.measure import (
    by_size,
    compare,
    loop_and_kode,
    median_baseline,
    median_ratio,
    report,
    run,
    workplace,
)
from tests.scripted_server import Recorded, ScriptedServer

CALLS = by_size(20, 2)
TURNS = by_size(1_000, 20)
AROUND = 9
"""Turns on either side of the 10th and the 1,000th whose median counts."""

RESULT = re.compile(r'"role": "tool"|"type": "(?:function_call_output|tool_result)"')
"""In a request, the result of a call."""


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    figures = {
        **twenty_calls("chat"),
        **{
            f"{api}_{name}": figure
            for api in ("responses", "messages")
            for name, figure in twenty_calls(api).items()
        },
        "first_shared": first_shared(),
        **asyncio.run(thousand_turns()),
    }
    return report(figures, as_json="--json" in argv)


def twenty_calls(api: str) -> dict[str, Any]:
    """One process, 20 replies with a shell call each, then the answer."""

    def script(request: dict[str, Any]) -> dict[str, Any]:
        done = len(RESULT.findall(json.dumps(request)))
        if done >= CALLS:
            return {"text": "Counted."}
        return {"calls": [{"name": "shell", "arguments": {"command": f"echo {done}"}}]}

    gaps: dict[str, list[float]] = {"loop": [], "kode": []}

    def timed(name: str, command: Sequence[str]) -> float:
        before = len(server.requests)
        took_ms = run(command, environ, project).wall_ms
        at = [request.at for request in itertools.islice(server.requests, before, None)]
        gaps[name].append(statistics.median(b - a for a, b in itertools.pairwise(at)) * 1000)
        return took_ms

    with ScriptedServer(script) as server, workplace(server.openai_url) as (project, environ):
        loop, kode = loop_and_kode(environ, api, "count", "--permission-mode", "full")
        pairs = compare(lambda: timed("loop", loop), lambda: timed("kode", kode), runs=5)
    ratios = [kode / loop for loop, kode in zip(gaps["loop"], gaps["kode"], strict=True)]
    return {
        "per_turn_ratio": median_ratio(pairs),
        "baseline_20_turns_ms": median_baseline(pairs),
        "gap_ratio": round(statistics.median(ratios), 3),
        "baseline_gap_ms": round(statistics.median(gaps["loop"]), 2),
    }


def first_shared() -> float:
    """One prompt in two folders, of which one has instructions for agents."""
    texts = []
    for instructions in ("", "Use tabs.\n"):
        with ScriptedServer([{"text": "Yes."}]) as server:
            with workplace(server.openai_url) as (project, environ):
                if instructions:
                    (project / "AGENTS.md").write_text(instructions)
                run(loop_and_kode(environ, "chat", "count")[1], environ, project)
            body = server.requests[0].json
            system, *messages = body["messages"]
            texts.append(json.dumps([system, body["tools"], messages]))
    pairs = zip(*texts, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return round(same / max(map(len, texts)), 4)


async def thousand_turns() -> dict[str, Any]:
    """One session, 1,000 turns without tools, through a real connection."""
    from kode.config.load import load_config
    from kode.conversation import Settings, open_conversation
    from kode.events import no_emit

    times: list[float] = []
    sizes: list[int] = []
    identical = 0
    with ScriptedServer([{"text": "Yes."}], repeat_last=True, keep=2) as server:
        with workplace(server.openai_url) as (project, environ):
            os.environ.update(environ)
            home = Path(environ["KODE_HOME"])
            loaded = load_config(
                home, project, environ=environ, flags={"provider": "openai", "model": "gpt-4.1"}
            )
            conversation = await open_conversation(Settings(loaded, emit=no_emit), cwd=project)
            path = conversation.session.path
            assert path is not None
            for number in range(TURNS + AROUND):
                before = path.stat().st_size
                started = time.perf_counter()
                await conversation.turn(f"Is {number % 10} a number?")
                times.append(time.perf_counter() - started)
                sizes.append(path.stat().st_size - before)
                if number:
                    identical += _continues(*server.requests)
            # No episode: the session's end is not measured here.
            await conversation.close(interrupted=True)
    early, late = slice(10 - AROUND, 10 + AROUND), slice(TURNS - AROUND, TURNS + AROUND)
    return {
        "late_turn_ratio": round(
            statistics.median(times[late]) / statistics.median(times[early]), 3
        ),
        "bytes_ratio": round(statistics.median(sizes[late]) / statistics.median(sizes[early]), 3),
        "prefix_identical": round(identical / (len(times) - 1), 4),
        "tenth_turn_ms": round(statistics.median(times[early]) * 1000, 2),
    }


def _continues(before: Recorded, after: Recorded) -> bool:
    """Whether `after` begins with all that `before` said, byte for byte."""
    old, new = json.loads(before.body), json.loads(after.body)
    count = len(old["messages"])
    same = all(old.get(key) == new.get(key) for key in old if key != "messages")
    return same and json.dumps(old["messages"]) == json.dumps(new["messages"][:count])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

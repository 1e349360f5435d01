"""What forked subagents cost beside fresh ones: `python -m bench.forks [--json]`.

A parent reads six files and gives four tasks on them to subagents, once as forks and once as fresh
ones, which read the files themselves; each then reads one file more, and answers. Per wire format,
in tokens of the strict server (a token is four bytes), which counts its cache as the vendor does,
for the prompts of the four subagents together:

first     share of a subagent's first request that the server had in its cache, the least of four
total     all that was sent
cached    read from the cache
new       neither read from it nor written to it
written   written to it
forks     new and written of the forks, as a share of the fresh ones'

A line tells the fresh ones which files to read, so that they need one request for it.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bench.cost_of_a_day import ROUTES, Route, WatchedCache
from bench.measure import KODE, configure, report, sized, workplace
from tests.strict_server import StrictServer
from tests.strict_server.cache import Cost

CHILDREN = sized(4, 1)
FILES = tuple(f"part{number}.py" for number in range(6))
FILE_BYTES = 6_000
GOAL = "# Goal\\n"

Reply = dict[str, Any]
Prompt = tuple[str, Cost]
"""Its text, and what it cost."""


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    figures = {}
    for name in sized([*ROUTES], ["chat"]):
        route = ROUTES[name]
        fresh, forked = (_figures(prompts(route, fork=fork)) for fork in (False, True))
        dear = (forked["new"] + forked["written"]) / (fresh["new"] + fresh["written"])
        figures[f"{name[:4]} new"] = {**fresh, "forks": 1.0}
        figures[f"{name[:4]} fork"] = {**forked, "forks": round(dear, 3)}
    return report(figures, as_json="--json" in argv)


def _figures(asked: Sequence[Prompt]) -> Mapping[str, float]:
    firsts = [cost for text, cost in asked if "read_file" not in text.rpartition(GOAL)[2]]
    names = ("total", "cached", "new", "written")
    sums = {name: sum(getattr(cost, name) for _, cost in asked) for name in names}
    return {"first": round(min(cost.cached / cost.total for cost in firsts), 3), **sums}


def prompts(route: Route, *, fork: bool) -> list[Prompt]:
    """The prompts of the four subagents. Raises: RuntimeError if kode failed."""

    def script(request: Reply) -> Reply:
        return reply_to(request, fork=fork)

    with (
        StrictServer(script, vendor=route.vendor) as server,
        workplace(server.url) as (project, environ),
    ):
        cache = WatchedCache()
        server.prompts = cache
        provider = {"base_url": server.url, "api_key": "bench"}
        configure(
            environ, providers={route.vendor: provider}, subagent={"max_concurrency": CHILDREN}
        )
        for number, name in enumerate((*FILES, "more.py")):
            line = f"value_{number} = {number}  # of {name}\n"
            (project / name).write_text(line * (FILE_BYTES // len(line)), encoding="utf-8")
        command = [KODE, "run", "Compare the parts.", "--allow", "delegate", "--memory", "off"]
        flags = ["--provider", route.vendor, "--model", route.model]
        done = subprocess.run([*command, *flags], env=environ, cwd=project, capture_output=True)
        if done.returncode or server.refusals:
            raise RuntimeError(f"{route.vendor}: {server.refusals or done.stderr.decode()}")
        every = [("".join(pieces), cost) for pieces, cost in cache.seen]
        return [(text, cost) for text, cost in every if GOAL in text]


def reply_to(request: Reply, *, fork: bool) -> Reply:
    """What the parent, or a subagent, does next."""
    text = json.dumps(request.get("messages") or request.get("input"))
    told = text.rpartition(GOAL)[2] if GOAL in text else text
    if GOAL in text and "of more.py" in told:
        return {"thinking": "Seen.", "text": "They differ in the value."}
    if GOAL in text and (fork or "of part5.py" in told):
        return {"thinking": "One more.", "calls": [_read("more.py")]}
    if "They differ" in told:
        return {"thinking": "All said.", "text": "Compared."}
    if GOAL not in text and "of part5.py" in text:
        tasks = [_task(number, fork=fork) for number in range(CHILDREN)]
        return {
            "thinking": "Four of them.",
            "calls": [{"name": "delegate_tasks", "arguments": {"tasks": tasks}}],
        }
    return {"thinking": "The files.", "calls": [_read(name) for name in FILES]}


def _task(number: int, *, fork: bool) -> Reply:
    goal = f"Say how part{number}.py differs from more.py and from the other parts."
    if fork:
        return {"goal": goal, "fork": True}
    return {"goal": goal, "context": f"The parts are {', '.join(FILES)}."}


def _read(name: str) -> Reply:
    return {"name": "read_file", "arguments": {"path": name}}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

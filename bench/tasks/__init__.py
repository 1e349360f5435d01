"""Work that ends in a test, by kode and by the plainest loop with the same model, side by side.

    python -m bench.tasks                             scripted: the harness and the agents' own cost
    python -m bench.tasks --server URL --model M      a local server
    python -m bench.tasks --provider anthropic --model M    any API, its key by environment

    --tasks defects|human-eval    defects in small packages (default), or the 164 of HumanEval
    --packages NAME==VERSION,...  other packages than the pinned ones
    --per-package N  --limit N  --times N  --seed N  --hint name|output  --agents kode,loop
    --out FILE                    results, a JSON line each; a run that was cut off continues there
    --json

solved     the project's whole test suite passes and no test was touched, with its Wilson interval
requests, tokens, seconds    medians of a task, as the agent reports them
damaged    tasks after which a file that had nothing to do with it was changed or gone
left       tasks after which there were new files
undone     of the tasks in which kode changed files, those that one undo gave back whole

    jail.py      where code of others runs
    defects.py   a source → the defects that can be made in it
    packages.py  small packages with tests, fetched
    tasks.py     what is to be done, and how it is judged
    agents.py    kode, and the loop (`bench/baseline_agent.py`)
    scripted.py  a model that knows the answer
    run.py       a task from set-up to result
    table.py     results → figures
"""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.models import Model, add_model_flags, model_of
from bench.results import append_result, read_results
from bench.tasks.agents import AGENTS, LOOP, Limits
from bench.tasks.packages import PINNED, Unfit, fetch
from bench.tasks.run import key_of, run_task
from bench.tasks.scripted import Wire, serve
from bench.tasks.table import figures, table
from bench.tasks.tasks import Task, defect_tasks, human_eval_tasks, spread

SCRIPTED_LIMIT = 4


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a table, or one JSON object with `--json`; exits 0 whatever the figures are."""
    options = _parser().parse_args(argv)
    try:
        tasks = _tasks(options)
    except Unfit as error:
        print(f"bench.tasks: {error}", file=sys.stderr)
        return 0
    model = model_of(options)
    if model is None:
        with serve() as wire:
            rows = run_all(tasks, wire.model, options, wire)
    else:
        rows = run_all(tasks, model, options)
    agents = {
        agent: figures([row for row in rows if row["agent"] == agent]) for agent in options.agents
    }
    if options.json:
        print(json.dumps(_figures(options, agents)))
    else:
        print(table(agents))
    return 0


def run_all(
    tasks: Sequence[Task], model: Model, options: argparse.Namespace, wire: Wire | None = None
) -> list[dict[str, Any]]:
    """Every task by every agent, but for those that an earlier run has done; the agents take turns,
    so that a busy hour is busy for both."""
    earlier = read_results(options.out)
    rows = []
    for task, agent, repetition in _turns(tasks, options):
        key = key_of(task, agent, model, repetition)
        if key not in earlier:
            if wire is not None:
                wire.play(task)
            limits = Limits(steps=options.max_steps, seconds=options.timeout)
            line = run_task(task, agent, model, limits, key, options.flag)
            if wire is not None:
                line = dataclasses.replace(line, wire_requests=wire.requests, wire_bytes=wire.bytes)
            earlier[key] = append_result(dataclasses.asdict(line), options.out)
            _show(earlier[key])
        rows.append(earlier[key])
    return rows


def _turns(tasks: Sequence[Task], options: argparse.Namespace) -> Iterator[tuple[Task, str, int]]:
    for repetition in range(1, options.times + 1):
        for task in tasks:
            for agent in options.agents:
                yield task, agent, repetition


def _tasks(options: argparse.Namespace) -> list[Task]:
    """Raises: Unfit when there is not one task."""
    limit = options.limit
    if limit is None and not options.server and not options.provider:
        limit = SCRIPTED_LIMIT
    if options.tasks == "human-eval":
        return human_eval_tasks(options.work)[:limit]
    groups, faults = [], []
    needed = PINNED if options.packages is None else options.packages
    if limit is not None and options.packages is None:
        needed = PINNED[: max(1, -(-limit // options.per_package))]
    for requirement in needed:
        try:
            package = fetch(requirement, options.work)
        except Unfit as error:
            faults.append(str(error))
            print(f"bench.tasks: {error}", file=sys.stderr)
            continue
        cache = options.work / "tasks"
        groups.append(
            defect_tasks(
                package, options.per_package, seed=options.seed, hint=options.hint, cache=cache
            )
        )
    if not any(groups):
        raise Unfit(f"there is no task. {' '.join(faults)}")
    return spread(groups, limit)


def _figures(options: argparse.Namespace, agents: dict[str, dict[str, Any]]) -> dict[str, Any]:
    tier = "local" if options.server else options.provider or "scripted"
    kode, loop = agents.get("kode", {}), agents.get(LOOP, {})
    tokens = (kode.get("input_tokens") or 0) + (kode.get("output_tokens") or 0)
    return {
        "tier": tier,
        "solved": kode.get("solved"),
        "solved_by_baseline": loop.get("solved"),
        "requests": kode.get("requests"),
        "tokens": tokens,
        "agents": agents,
    }


def _show(row: dict[str, Any]) -> None:
    """One line on stderr as each result comes."""
    word = "solved" if row["solved"] else "not solved"
    worked = row["worked"]
    print(
        f"{row['agent']:<5} {row['task']} ({row['kind']}): {word}, {worked['status']}, "
        f"{worked['steps']} requests, {worked['seconds']:.0f} s",
        file=sys.stderr,
        flush=True,
    )


def _parser() -> argparse.ArgumentParser:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m bench.tasks", description=__doc__, formatter_class=plain
    )
    add = parser.add_argument
    add_model_flags(parser)
    add("--tasks", choices=("defects", "human-eval"), default="defects")
    add("--packages", type=lambda text: tuple(text.split(",")))
    add("--per-package", type=int, default=4)
    add("--limit", type=int)
    add("--times", type=int, default=1)
    add("--seed", type=int, default=1)
    add("--hint", choices=("name", "output"), default="name")
    add("--agents", type=lambda text: tuple(text.split(",")), default=AGENTS)
    add("--max-steps", type=int, default=30)
    add("--timeout", type=float, default=600.0, help="seconds for a task")
    add("--flag", action="append", default=[], help="a further flag of `kode run`: --flag=--quiet")
    add("--work", type=Path, default=home / "kode-bench", help="keeps what is fetched and found")
    add("--out", type=Path)
    add("--json", action="store_true")
    return parser

"""`kode replay`: replays a session offline in a copy of its project, or continues it live from one
of its steps, several times."""

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.plugin import Parser, cancelled_by_signals, clean, paths, print_either, working_directory
from kode.plugin.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, ConfigError

if TYPE_CHECKING:
    from kode.plugin import Config
    from kode.plugins.replay.recording import Recording
    from kode.plugins.replay.trials import Trial, Variant

AS_RECORDED = "as recorded"
LIVE_FLAGS = ("model", "times", "verify", "compare", "max_budget_usd")
"""Flags that only apply to live runs: without `--from` these start at the first step."""


def main(argv: Sequence[str]) -> int:
    """Runs `kode replay` and returns its exit code: 0 if identical, 1 if different; 0 for live
    runs.

    Raises: UserError, SessionError, StorageError.
    """
    parser = Parser(
        "kode replay", "Replay a session in a copy, or continue it from one of its steps."
    )
    add = parser.add_argument
    add("session", metavar="SESSION", help="a session id, any unique prefix, or a cassette")
    add("--append-system", metavar="TEXT", default="", help="add to the system prompt")
    add("--without-memory", action="store_true", help="replay as if memory had been empty")
    add(
        "--from",
        dest="step",
        metavar="STEP",
        type="whole",
        help="from this step on, a live model answers",
    )
    add("--model", metavar="M", help="the model for live steps, instead of the recorded one")
    add("--times", metavar="N", type="whole", help="number of live runs (1)")
    add("--verify", metavar="CMD", help="command whose exit status says if a live run is good")
    add("--compare", action="store_true", help="add as many live runs without the changes")
    add(
        "--max-budget-usd",
        metavar="X",
        type="amount",
        help="spending limit for all live runs",
    )
    add("--network", action="store_true", help="let calls use the network")
    add("--cwd", metavar="DIR", help="another folder with the project's files")
    add("--json", action="store_true", help="one JSON object")
    arguments = parser.parse(argv)
    if arguments.step is None and any(getattr(arguments, name) for name in LIVE_FLAGS):
        arguments.step = 1
    return asyncio.run(_until_interrupted(_replay(arguments)))


async def _until_interrupted(work: Coroutine[Any, Any, int]) -> int:
    task = asyncio.ensure_future(work)
    try:
        with cancelled_by_signals(task):
            return await task
    except asyncio.CancelledError:
        print("kode: interrupted; nothing is left of the replay.", file=sys.stderr)
        return EXIT_INTERRUPTED


async def _replay(arguments: argparse.Namespace) -> int:
    from kode.plugin import load_config

    with _recording(arguments) as (recording, cwd):
        flags = {"max_budget_usd": arguments.max_budget_usd} if arguments.max_budget_usd else {}
        config = load_config(paths.home(), cwd, environ=os.environ, flags=flags).config
        if arguments.step is None:
            return await _play(arguments, recording, config, cwd)
        return await _continue(arguments, recording, config, cwd)


@contextlib.contextmanager
def _recording(arguments: argparse.Namespace) -> "Iterator[tuple[Recording, Path]]":
    """The named session or cassette, and the folder to replay it in."""
    from kode.plugin import find_session as find
    from kode.plugins.replay import cassette, recording

    named = Path(arguments.session)
    if named.is_file():
        with cassette.open_cassette(named) as made:
            root = paths.project_root(working_directory(arguments))
            yield made, root / made.inside_project()
        return
    made = recording.load(paths.home(), find(paths.home(), arguments.session))
    yield made, working_directory(arguments) if arguments.cwd else Path(made.header.cwd)


async def _play(
    arguments: argparse.Namespace, recording: "Recording", config: "Config", cwd: Path
) -> int:
    from kode.plugins.replay import report
    from kode.plugins.replay.agent import Changes
    from kode.plugins.replay.play import play
    from kode.plugins.replay.scratch import scratch

    changes = Changes(
        append_system=arguments.append_system,
        without_memory=arguments.without_memory,
        network=arguments.network,
    )
    with scratch(recording, cwd) as copy:
        replay = await play(recording, config, copy, changes)
    whole, lines = report.as_json(recording, replay), report.lines(recording, replay)
    print_either(whole, lines, as_json=arguments.json)
    return EXIT_OK if replay.same else EXIT_FAILED


async def _continue(
    arguments: argparse.Namespace, recording: "Recording", config: "Config", cwd: Path
) -> int:
    from kode.plugins.replay import report
    from kode.plugins.replay.trials import Plan, run_trials

    plan = Plan(
        step=arguments.step,
        times=arguments.times or 1,
        verify=arguments.verify or "",
        network=arguments.network,
    )

    def heard(variant: "Variant", trial: "Trial") -> None:
        word = "passed" if trial.passed else f"failed: {trial.why}"
        print(clean(f"{variant.name}: {word} ({trial.seconds:.1f} s)"), file=sys.stderr)

    variants = _variants(arguments)
    outcomes, stopped = await run_trials(recording, config, cwd, variants, plan, heard)
    if stopped:
        print(clean(f"kode: {stopped}"), file=sys.stderr)
    whole = report.trials_as_json(recording, outcomes, plan, stopped)
    print_either(whole, report.table(outcomes, plan), as_json=arguments.json)
    return EXIT_FAILED if stopped else EXIT_OK


def _variants(arguments: argparse.Namespace) -> "list[Variant]":
    """The requested variant, and with `--compare` the recorded one beside it. Raises:
    ConfigError."""
    from kode.plugins.replay.trials import Variant

    changed = [
        *([f"--model {arguments.model}"] if arguments.model else []),
        *(["--append-system"] if arguments.append_system else []),
        *(["--without-memory"] if arguments.without_memory else []),
    ]
    if not changed:
        if arguments.compare:
            raise ConfigError(
                "--compare needs something to compare with what was recorded: give --model, "
                "--append-system or --without-memory."
            )
        return [Variant(name=AS_RECORDED)]
    variant = Variant(
        name=" ".join(changed),
        model=arguments.model,
        append_system=arguments.append_system,
        without_memory=arguments.without_memory,
    )
    return [Variant(name=AS_RECORDED), variant] if arguments.compare else [variant]

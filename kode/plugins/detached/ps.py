"""`kode ps` and `kode stop`: what runs in the background, what it waits for, and how it ended."""

import contextlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kode.plugin import (
    EXIT_OK,
    ConfigError,
    GitError,
    Parser,
    SessionError,
    columns,
    money,
    one_line,
    paths,
    print_either,
)
from kode.plugins.detached import holder, places, talk, trees
from kode.plugins.detached.attach import ended_line
from kode.plugins.detached.places import Background

SHOWN_S = 24 * 3600.0
"""How long `kode ps` shows one that has ended; `kode ps --done` shows all."""

FORGOTTEN_S = 30 * 24 * 3600.0
"""How long one that has ended, without a worktree, is listed at all."""

STOPPED_S = holder.STOP_S + 10.0


def main(argv: Sequence[str]) -> int:
    """Lists sessions; with --merge or --drop decides about a worktree. Raises: KodeError."""
    parser = Parser("kode ps", "List the sessions in the background.")
    parser.add_argument("--done", action="store_true", help="those that ended, with their changes")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.add_argument("--merge", metavar="ID", help="with --done: merge its branch")
    parser.add_argument("--drop", metavar="ID", help="with --done: remove its worktree and branch")
    arguments = parser.parse(argv)
    home = paths.home()
    if arguments.merge and arguments.drop:
        raise ConfigError("--merge and --drop contradict each other: give one of them.")
    if arguments.merge or arguments.drop:
        one = _over(places.find(home, arguments.merge or arguments.drop))
        line = _merge(home, one) if arguments.merge else _drop(home, one)
        print_either({"id": one.id, "text": line}, [line], as_json=arguments.json)
        return EXIT_OK
    faults: list[str] = []
    every = places.known(home, faults)
    _forget(every)
    now = time.time()
    if arguments.done:
        shown = [one for one in every if one.life != "alive"]
    else:
        shown = [one for one in every if one.life != "ended" or now - one.state.since < SHOWN_S]
    rows = [_row(one, now) for one in shown]
    lines = columns([("ID", "STATE", "FOR", "TASK"), *rows]) if rows else []
    lines = [*lines, *(line for one in shown for line in _below(one, done=arguments.done))]
    values = [value_of(one, done=arguments.done) for one in shown]
    nothing = ["No session in the background. `kode start TASK` starts one."]
    print_either(values, lines or nothing, as_json=arguments.json)
    for fault in faults:
        print(f"kode: {fault}", file=sys.stderr)
    return EXIT_OK


def stop(argv: Sequence[str]) -> int:
    """`kode stop ID`: ends a session in good order; what does not end is killed. Raises:
    SessionError."""
    parser = Parser("kode stop", "End a session in the background; it can be resumed.")
    parser.add_argument("id", metavar="ID", help="its id, or the beginning or end of it")
    home = paths.home()
    one = places.find(home, parser.parse(argv).id)
    if one.life == "alive":
        # A holder that does not answer is gone, and its prompt is ending.
        with (
            contextlib.suppress(SessionError, OSError),
            contextlib.closing(talk.connect(one.folder, holder.TERMINAL)) as connection,
        ):
            connection.sendall(holder.frame(holder.STOP))
        if not places.wait_for_end(one.folder, STOPPED_S):
            raise SessionError(
                f"{one.id} does not end. Look for its processes: `fuser {one.folder}/lock`."
            )
    one = places.find(home, one.id)
    print_either(None, [ended_line(one)], as_json=False)
    return EXIT_OK


def value_of(one: Background, *, done: bool) -> dict[str, Any]:
    """A session for programs."""
    state, tree = one.state, one.spec.tree
    return {
        "id": one.id,
        "session_id": one.session_id,
        "state": state.doing if one.life == "alive" else one.life,
        "since": state.since,
        "started": one.spec.at,
        "task": one.spec.title,
        "cwd": one.spec.cwd,
        "question": state.question.model_dump() if state.question and one.life == "alive" else None,
        "turns": state.turns,
        "status": state.status,
        "result": state.result,
        "structured": state.structured,
        "error": state.error,
        "cost_usd": state.cost_usd,
        "files_changed": list(_changed(one) if done else state.files),
        "branch": tree.branch if tree else None,
        "worktree": tree.root if tree else None,
        "settled": state.settled,
    }


def _row(one: Background, now: float) -> tuple[str, str, str, str]:
    state = one.state
    if one.life == "alive":
        said = {"asks": "waits for you"}.get(state.doing, state.doing)
    elif one.life == "killed":
        said = "killed"
    else:
        cost = f" {money(state.cost_usd)}" if state.cost_usd is not None else ""
        said = f"{state.settled or state.status or 'ended'}{cost}"
    return one.id, said, _time(now - state.since), one_line(one.spec.title)[:60]


def _time(seconds: float) -> str:
    for unit, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= unit:
            return f"{int(seconds // unit)}{name}"
    return f"{max(int(seconds), 0)}s"


def _below(one: Background, *, done: bool) -> list[str]:
    """What stands below the table of a session."""
    state = one.state
    if one.life == "alive" and state.question is not None:
        asked = state.question
        what = one_line(f"{asked.title}: {asked.subject}" if asked.subject else asked.title)
        return [f"{one.id} asks: {what[:200]} · kode answer {one.id}"]
    if one.life == "killed":
        return [f"{one.id} was killed: `kode attach {one.id}` resumes it."]
    if not done:
        is_over = one.life != "alive" or state.doing != "works"
        return [f"{one.id}: {one_line(state.error)[:200]}"] if state.error and is_over else []
    files = _changed(one)
    where = f" on {one.spec.tree.branch}" if one.spec.tree and not state.settled else ""
    named = ", ".join(files[:10]) + (f" and {len(files) - 10} more" if len(files) > 10 else "")
    lines = [f"{one.id} changed{where}: {named}"] if files else []
    if where and files:
        lines.append(f"  kode ps --done --merge {one.id} · kode ps --done --drop {one.id}")
    return lines


def _changed(one: Background) -> tuple[str, ...]:
    tree = one.spec.tree
    if tree is None or one.state.settled:
        return one.state.files
    try:
        return trees.changed(tree)
    except (GitError, OSError):
        return one.state.files


def _over(one: Background) -> Background:
    """Raises: SessionError for one that runs, or whose worktree is gone."""
    if one.life == "alive":
        raise SessionError(f"{one.id} still runs. `kode stop {one.id}` ends it first.")
    if one.spec.tree is None:
        raise SessionError(f"{one.id} has no worktree: its changes are in {one.spec.cwd} already.")
    if one.state.settled:
        raise SessionError(f"{one.id} was {one.state.settled} already.")
    return one


def _merge(home: Path, one: Background) -> str:
    assert one.spec.tree is not None
    files = trees.merge(home, one, one.spec.tree)
    _settle(one, "merged")
    return f"Merged {one.spec.tree.branch}: {', '.join(files) or 'no file differs'}."


def _drop(home: Path, one: Background) -> str:
    tree = one.spec.tree
    assert tree is not None
    kept = trees.drop(home, one, tree)
    _settle(one, "dropped")
    return (
        f"Dropped. `git branch {tree.branch} {kept}` in {tree.project} brings it back, without the "
        "files that git ignores."
    )


def _settle(one: Background, how: str) -> None:
    state = one.state.model_copy(update={"settled": how, "doing": "ended"})
    places.write_state(one.folder, state)


def _forget(every: list[Background]) -> None:
    """Forgets sessions that ended long ago; each is still among the conversations."""
    for one in every:
        waits = one.spec.tree is not None and not one.state.settled
        if one.life == "ended" and not waits and time.time() - one.state.since > FORGOTTEN_S:
            with contextlib.suppress(OSError):
                places.remove(one.folder)

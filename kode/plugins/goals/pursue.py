"""Pursues a goal: a turn, the check, what the model is told of it, until the goal is reached or
ends. What the model says about it decides nothing."""

import asyncio
import math
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from kode.plugin import (
    FINISHED,
    Check,
    Checked,
    Notice,
    Opened,
    OpenSession,
    RunTurn,
    Text,
    TurnEnded,
    Working,
    fence_text,
    one_line,
    plural,
    together,
)
from kode.plugins.goals import words
from kode.plugins.goals.changes import changed_since, counted
from kode.plugins.goals.check import ALIKE, FIRST_S, LEAST_S, end_of, is_stalled, run_check
from kode.plugins.goals.command import limits_of
from kode.plugins.goals.guard import Guard, copies, differing, extend_guard, keep_copies, put_back
from kode.plugins.goals.state import (
    Goal,
    Record,
    Spent,
    as_object,
    current,
    finished_turn,
    goals_of,
    is_asked,
    shown,
    spent,
)

MAX_ATTEMPTS = 50
"""A goal ends after so many, whatever they brought."""


async def around_turn(opened: Opened, session: OpenSession, text: str, run: RunTurn) -> TurnEnded:
    """A turn of a session that may have a goal."""
    goal = current(opened.records())
    if goal is None or session.mode == "plan":
        _protect(session, None)
        return await run(text)
    try:
        return await _pursued(opened, session, text, run)
    finally:
        if current(opened.records()) is None:
            _protect(session, None)


async def _pursued(opened: Opened, session: OpenSession, text: str, run: RunTurn) -> TurnEnded:
    total: TurnEnded | None = None
    goal = _goal(opened)
    _protect(session, _guard(goal))
    if goal.reads is None and not goal.attempts:
        try:
            goal = await _watched(opened, session, goal)
        except asyncio.CancelledError:
            return _interrupted(opened, total)
    resumed = finished_turn(goal, opened.session) if text == words.RESUME else None
    if resumed is not None and resumed.status not in FINISHED:
        resumed = None
    if text == words.RESUME and resumed is None and not is_asked(goal, opened.session):
        text = words.FAILED if goal.attempts else words.goal_text(goal)
        if goal.attempts and goal.attempts[-1]["passed"]:
            return _finish(opened, session, total, "reached", "")
        if goal.attempts:
            _tell(session, goal, goal.attempts[-1])
    while True:
        began, number = time.monotonic(), goal.next_attempt
        before = spent(goal, opened.session)
        if resumed is not None:  # its turn has ended, its check has not
            turn = TurnEnded(
                status=resumed.status, steps=resumed.steps, files_changed=resumed.files_changed
            )
            resumed = None
        else:
            if over := _exhausted(opened, goal, before):
                return _finish(opened, session, total, "out_of_budget", over)
            opened.record({"began": number, "turn": opened.session.turns + 1})
            goal = _goal(opened)
            turn = await run(text, **_within(opened, session, goal, before))
        total = turn if total is None else together(total, turn)
        used = spent(goal, opened.session)
        over = _exhausted(opened, goal, used, turn)
        steps_over = turn.steps >= opened.config.max_steps
        # Each request was answered: what the turn failed of is the model, in circles for instance.
        answered = 0 < turn.steps == used.requests - before.requests
        if turn.status == "interrupted" or (
            turn.status not in FINISHED and not over and not steps_over and not answered
        ):
            opened.emit(Notice(text=words.UNFINISHED, level="info"))
            return replace(total, goal=_object(opened))
        if turn.status == "error" and turn.error and not over:
            opened.emit(Notice(text=turn.error, level="warning"))
        try:
            attempt = await _attempt(opened, session, goal, turn, began)
        except asyncio.CancelledError:
            return _interrupted(opened, total)
        opened.record(attempt)
        opened.emit(
            Notice(
                text=words.attempt_line(attempt),
                level="info",
                value={"type": "goal_attempt", **shown(attempt)},
            )
        )
        goal = _goal(opened)
        if attempt["passed"]:
            return _finish(opened, session, total, "reached", "")
        if is_stalled(goal.attempts):
            said = f"the check failed {ALIKE} times in the same way, and nothing it reads changed"
            return _finish(opened, session, total, "stalled", said)
        if over:
            return _finish(opened, session, total, "out_of_budget", over)
        if len(goal.attempts) >= MAX_ATTEMPTS:
            return _finish(opened, session, total, "not_reached", f"{MAX_ATTEMPTS} attempts failed")
        _tell(session, goal, attempt)
        text = words.FAILED


def _interrupted(opened: Opened, total: TurnEnded | None) -> TurnEnded:
    if (task := asyncio.current_task()) is not None:
        task.uncancel()
    said = f"Interrupted while the goal's check ran, which runs again. {words.UNFINISHED}"
    opened.emit(Notice(text=said, level="info"))
    stopped = replace(total or TurnEnded(status="incomplete"), status="interrupted", error=said)
    return replace(stopped, goal=_object(opened))


async def _watched(opened: Opened, session: OpenSession, goal: Goal) -> Goal:
    """Runs the check on the files as they are, to protect what it runs, and to record which
    protected files it opens: code that ends it early makes it pass on fewer.

    Raises: UserError, StorageError.
    """
    began = time.monotonic()
    left = goal_limits(opened, goal).get("seconds", math.inf) - spent(goal, opened.session).seconds
    opened.emit(Working(what=f"Trying the check: {one_line(goal.verify)}"))
    checked = await run_check(
        session,
        goal.verify,
        timeout_s=min(max(left / 10, 0.1), FIRST_S),
        changed=(),
    )
    opened.emit(Working(what=""))
    if checked.exit_status == 0:
        value = {"type": "goal_check", "passed": True}
        opened.emit(Notice(text=words.PASSES_BEFORE, value=value))
        session.note(words.PASSES_BEFORE)
    guard, place = _guard(goal), session.agent.place
    if checked.opens is not None:
        guard = await asyncio.to_thread(extend_guard, guard, checked.opens, place)
        if (folder := copies(opened)) is not None:
            await asyncio.to_thread(keep_copies, guard, place, folder)
    names = frozenset() if checked.opens is None else {*checked.opens.project}
    reads = sorted(names & guard.held.keys())
    seconds = round(time.monotonic() - began, 3)
    opened.record({"reads": reads, "guard": asdict(guard), "seconds": seconds})
    _protect(session, guard)
    return _goal(opened)


async def _attempt(
    opened: Opened,
    session: OpenSession,
    goal: Goal,
    turn: TurnEnded,
    began: float,
) -> Record:
    """Runs the check of an attempt. Raises: UserError, StorageError."""
    guard, folder = _guard(goal), copies(opened)
    place = session.agent.place
    restored: list[str] = []
    if folder is not None:
        read = {name for one in goal.attempts for name in one["differing"]}
        restored = await asyncio.to_thread(put_back, guard, place, folder, read)
    left = goal_limits(opened, goal).get("seconds")
    used = spent(goal, opened.session)
    timeout_s = float("inf") if left is None else left - used.seconds
    opened.emit(Working(what=f"Checking the goal: {one_line(goal.verify)}"))
    changed = [
        os.path.join(place.project, file["path"]) for one in goal.attempts for file in one["files"]
    ]
    checked = await run_check(
        session,
        goal.verify,
        timeout_s=max(LEAST_S, timeout_s),
        changed=[*changed, *turn.files_changed],
    )
    opened.emit(Working(what=""))
    passed, opens = checked.exit_status == 0, checked.opens
    seen = () if opens is None else opens.project
    still = await asyncio.to_thread(differing, guard, place, seen)
    unread = sorted({*(goal.reads or ())} - {*seen}) if passed and opens is not None else []
    first = goal.began["turn"] if goal.began is not None else opened.session.turns
    changed_now = await asyncio.to_thread(changed_since, opened, first, turn.files_changed)
    known_usd = sum(one["cost_usd"] or 0 for one in goal.attempts)
    usd = None if turn.cost_usd is None else used.usd - known_usd
    return {
        "attempt": goal.next_attempt,
        "turn": first,
        "files": list(map(counted, changed_now)),
        "passed": passed and not still and not unread,
        "exit_status": checked.exit_status,
        "fault": checked.fault,
        "output": end_of(checked.output),
        "restored": restored,
        "differing": still,
        "unread": unread,
        "same": checked.same,
        "tree": checked.tree,
        "requests": used.requests - sum(one["requests"] for one in goal.attempts),
        "cost_usd": usd,
        "seconds": round(time.monotonic() - began, 3),
    }


def _tell(session: OpenSession, goal: Goal, attempt: Record) -> None:
    """Has the next message tell the model of a failed check: as outside text where a marked session
    left something in the project that the check may repeat."""
    said, output = words.output_note(goal, attempt), attempt["output"] or "(none)"
    session.note(said)
    if source := session.agent.marks.among(None):
        fenced = fence_text(output, f"the goal's check, after {source}")
        session.outbox.append(Text(text=fenced, source="outside"))
    else:
        session.note(output)


# ── limits ───────────────────────────────────────────────────────────────────────────────────


def goal_limits(opened: Opened, goal: Goal) -> Mapping[str, float]:
    """The limits of the whole goal: those that it began with, or that were given since."""
    return {**goal.limits, **limits_of(opened)}


def _exhausted(opened: Opened, goal: Goal, used: Spent, turn: TurnEnded | None = None) -> str:
    """The limit that is used up, in a phrase; "" for none. A `turn` has a clock of its own, which
    may be ahead of the times in the session."""
    for name, limit in goal_limits(opened, goal).items():
        is_late = name == "seconds" and turn is not None and turn.status == "timeout"
        if is_late or getattr(used, name) >= limit:
            flag, unit = _FLAGS[name]
            what = unit.format(f"{limit:g}")
            return f"its limit of {what} is used up: start it again with a higher {flag}"
    return ""


_FLAGS = {
    "requests": ("--max-steps", "{} requests"),
    "usd": ("--max-budget-usd", "${}"),
    "seconds": ("--timeout", "{} s"),
}


def _within(opened: Opened, session: OpenSession, goal: Goal, used: Spent) -> dict[str, Any]:
    """The limits of the next turn: what is left of the goal's."""
    limits, spend = goal_limits(opened, goal), session.agent.spend
    within: dict[str, Any] = {}
    if "requests" in limits:
        left = int(limits["requests"]) - used.requests
        within |= {"max_steps": left, "max_tree_steps": left}
    if "usd" in limits:
        known = spend.cost_usd + spend.elsewhere_usd
        within["max_budget_usd"] = known + limits["usd"] - used.usd
    if "seconds" in limits:
        within["timeout_s"] = max(1.0, limits["seconds"] - used.seconds)
    return within


# ── how it stands ────────────────────────────────────────────────────────────────────────────


def _finish(
    opened: Opened, session: OpenSession, total: TurnEnded | None, status: str, why: str
) -> TurnEnded:
    goal = _goal(opened)
    count = plural(len(goal.attempts), "attempt")
    error = "" if status == "reached" else f"The goal was not reached: {why} ({count})."
    opened.record({"ended": status, "error": error})
    _protect(session, None)
    said = error
    if status == "reached":
        for line in words.passed_output(goal.attempts[-1]):
            opened.emit(Notice(text=line, level="info"))
        said = f"Goal reached: {one_line(goal.verify)}"
    value = _object(opened)
    opened.emit(Notice(text=said, level="info", value={"type": "goal", **value}))
    ended = total or TurnEnded(status="incomplete")
    if goal.attempts:
        passed = status == "reached"
        check = Check(command=goal.verify, passed=passed, after_last_edit=True)
        checked: Checked = "passed" if passed else "failed"
        ended = replace(ended, checks=(*ended.checks, check), checked=checked)
    if status == "reached":
        return replace(ended, status="success", error=None, setting=None, goal=value)
    return replace(ended, status="incomplete", error=error, goal=value)


def _object(opened: Opened) -> dict[str, Any]:
    goal = goals_of(opened.records())[-1]
    return {
        **as_object(goal, spent(goal, opened.session)),
        "limits": dict(goal_limits(opened, goal)),
    }


def _goal(opened: Opened) -> Goal:
    found = current(opened.records())
    assert found is not None
    return found


def _guard(goal: Goal) -> Guard:
    return Guard(**goal.guard)


def _protect(session: OpenSession, guard: Guard | None) -> None:
    """Has the gate of the session, and those of its subagents, deny edits of what is protected."""
    state = session.gate.state
    if guard is None and not state.denied:
        return
    old = set(map(str, state.denied))
    state.denied = () if guard is None else guard.denials()
    given = session.loaded.config.permissions
    deny = (*(one for one in given.deny if one not in old), *map(str, state.denied))
    permissions = given.model_copy(update={"deny": deny})
    config = session.loaded.config.model_copy(update={"permissions": permissions})
    session.loaded = replace(session.loaded, config=config)

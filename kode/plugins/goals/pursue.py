"""Pursues a goal: runs a turn, runs the check, tells the model the result, and repeats until the
goal is reached or given up. What the model says about it decides nothing."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from kode.plugin import PluginSession, TurnEnded, plural, shorten
from kode.plugins.goals import check
from kode.plugins.goals.check import ProtectedFiles
from kode.plugins.goals.goal import (
    FAILED,
    LIMITS,
    PASSES_BEFORE,
    STALLED,
    UNFINISHED,
    Goal,
    GoalAttempt,
    Limit,
    Status,
    current_goal,
    describe_attempt,
    describe_failure,
    goal_limits,
    goal_text,
    is_resume,
    is_stalled,
    read_goal_history,
    replay_goals,
)

Run = Callable[..., Awaitable[TurnEnded]]
"""Runs a turn with this text, within the limits given as keyword arguments."""

MAX_ATTEMPTS = 20
"""A goal ends after this many attempts, whatever they achieved."""


async def around_turn(opened: PluginSession, session: Any, text: str, run: Run) -> TurnEnded:
    """Runs a turn, or turns and checks if the session pursues a goal and is not planning."""
    pursuit = Pursuit(opened=opened, session=session)
    try:
        if current_goal(opened.records()) is None or session.gate.state.mode == "plan":
            pursuit.protect(ProtectedFiles())
            return await run(text)
        return await pursuit.run_goal(text, run)
    finally:
        if current_goal(opened.records()) is None:
            pursuit.protect(ProtectedFiles())


@dataclass(kw_only=True)
class Pursuit:
    """The turns of a session that has a goal."""

    opened: PluginSession
    session: Any
    total: TurnEnded | None = None
    """The outcome of the turns so far, added up."""

    @property
    def goal(self) -> Goal:
        """The goal as recorded so far."""
        return replay_goals(self.opened.records())[-1]

    @property
    def spent(self) -> dict[Limit, float]:
        return read_goal_history(self.goal, self.opened.session)[0]

    @property
    def limits(self) -> Mapping[Limit, float]:
        return {**self.goal.limits, **goal_limits(self.opened)}

    def report(self) -> dict[str, Any]:
        """The goal and its attempts as a JSON object for programs."""
        goal, spent = self.goal, dict[str, float | None](**self.spent)
        if any(attempt.cost_usd is None for attempt in goal.attempts):
            spent["usd"] = None
        return {
            "type": "goal",
            "text": goal.text,
            "verify": goal.verify,
            "status": goal.status,
            "protected": goal.guard.rules,
            "attempts": [asdict(attempt) for attempt in goal.attempts],
            "spent": spent,
            "limits": self.limits,
        }

    async def run_goal(self, text: str, run: Run) -> TurnEnded:
        """Runs turns and checks until the goal is reached or ends, or is interrupted."""
        try:
            return await self._run_attempts(text, run)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            self._emit_notice(UNFINISHED)
            ended = self.total or TurnEnded(status="incomplete")
            error = f"Interrupted. {UNFINISHED}"
            return replace(ended, status="interrupted", error=error, goal=self.report())

    async def _run_attempts(self, text: str, run: Run) -> TurnEnded:
        self.protect(self.goal.guard)
        if self.goal.reads is None and not self.goal.attempts:
            await self._try_check()
        turn, failed = None, self.goal.attempts[-1] if self.goal.attempts else None
        if is_resume(text):
            last = read_goal_history(self.goal, self.opened.session)[1]
            if last is not None:
                files = last.files_changed
                ended = TurnEnded(status=last.status, steps=last.steps, files_changed=files)
                turn = ended if ended.is_finished else None
            if turn is not None:
                text = ""  # its check has not run
            elif failed is None:
                text = goal_text(self.goal)
            elif failed.passed:
                return self._end_goal("reached", "")
            else:
                self._tell_model(failed)
        while True:
            began, before = time.monotonic(), self.spent["requests"]
            if turn is None:
                if over := self._find_used_limit():
                    return self._end_goal("out_of_budget", over)
                number = len(self.goal.attempts) + 1
                self.opened.record({"began": number, "turn": self.opened.session.turns + 1})
                turn = await run(text, **self._turn_limits())
            self.total = turn if self.total is None else self.total.join_with(turn)
            over = self._find_used_limit(turn)
            # If every request was answered, the model failed (looped, say): the check may pass.
            is_answered = 0 < turn.steps == self.spent["requests"] - before
            has_failed = not turn.is_finished and turn.steps < self.opened.config.max_steps
            if turn.status == "interrupted" or (has_failed and not over and not is_answered):
                self._emit_notice(UNFINISHED)
                return replace(self.total, goal=self.report())
            if turn.status == "error" and turn.error and not over:
                self.opened.notice(turn.error, level="warning")
            attempt = await self._check_attempt(turn, began)
            value = asdict(attempt)
            self.opened.record(value)
            self._emit_notice(describe_attempt(attempt), value)
            attempts = self.goal.attempts
            if attempt.passed:
                return self._end_goal("reached", "")
            if is_stalled(attempts):
                return self._end_goal("stalled", STALLED)
            if over:
                return self._end_goal("out_of_budget", over)
            if len(attempts) >= MAX_ATTEMPTS:
                return self._end_goal("not_reached", f"{MAX_ATTEMPTS} attempts failed")
            self._tell_model(attempt)
            turn, text = None, FAILED

    async def _try_check(self) -> None:
        """Runs the check before the first attempt, to protect the files that it runs, and to record
        which of them it opens: code that ends a check early makes it open fewer."""
        began, session, goal = time.monotonic(), self.session, self.goal
        timeout_s = min(
            max(self._subtract_spent().get("seconds", math.inf) / 10, 0.1), check.FIRST_S
        )
        ran, opens = await check.run_check(session, goal.verify, "Trying the check", timeout_s)
        if ran.exit_status == 0:
            self.opened.notice(PASSES_BEFORE)
            session.note(PASSES_BEFORE)
        protected = await asyncio.to_thread(
            check.make_guard, goal.verify, opens, session.agent.place
        )
        await asyncio.to_thread(check.keep_copies, protected, self.opened)
        reads = sorted({*opens.project} & protected.held.keys())
        seconds = round(time.monotonic() - began, 3)
        self.opened.record({"reads": reads, "guard": asdict(protected), "seconds": seconds})
        self.protect(protected)

    async def _check_attempt(self, turn: TurnEnded, began: float) -> GoalAttempt:
        """Runs the check after a turn. Raises: UserError, StorageError."""
        session, goal, place = self.session, self.goal, self.session.agent.place
        restored = await asyncio.to_thread(check.restore_protected, goal.guard, self.opened)
        timeout_s = max(check.LEAST_S, self._subtract_spent().get("seconds", math.inf))
        ran, opens = await check.run_check(session, goal.verify, "Checking the goal", timeout_s)
        different = await asyncio.to_thread(check.find_differing, goal.guard, place)
        has_exited = ran.exit_status == 0
        is_known = has_exited and bool(opens.project)
        unread = sorted({*(goal.reads or ())} - {*opens.project}) if is_known else []
        first, spent = goal.first_turn or self.opened.session.turns, self.spent
        known_usd = sum(attempt.cost_usd or 0 for attempt in goal.attempts)
        return GoalAttempt(
            **asdict(ran),
            attempt=len(goal.attempts) + 1,
            turn=first,
            files=await asyncio.to_thread(
                check.changed_files, self.opened, first, turn.files_changed
            ),
            passed=has_exited and not different and not unread,
            restored=restored,
            differing=different,
            unread=unread,
            requests=int(spent["requests"]) - sum(attempt.requests for attempt in goal.attempts),
            cost_usd=None if turn.cost_usd is None else spent["usd"] - known_usd,
            seconds=round(time.monotonic() - began, 3),
        )

    def _tell_model(self, attempt: GoalAttempt) -> None:
        """Adds a failed check to the next message to the model; its output as outside text if the
        session is marked, because the check may repeat outside text left in the project."""
        session, output = self.session, attempt.output or "(none)"
        session.note(describe_failure(self.goal, attempt))
        if source := session.agent.marks.find_source(None):
            session.note_outside(output, f"the goal's check, after {source}")
        else:
            session.note(output)

    def _emit_notice(self, text: str, value: Any = None) -> None:
        self.opened.notice(text, level="info", value=value)

    def _subtract_spent(self) -> dict[Limit, float]:
        """What remains of each limit of the goal; a limit that was set since overrides the one it
        began with."""
        spent = self.spent
        return {name: limit - spent[name] for name, limit in self.limits.items()}

    def _find_used_limit(self, turn: TurnEnded | None = None) -> str:
        """A phrase about the first limit that is used up; "" for none. A `turn` that timed out
        counts, because its clock may be ahead of the times in the session."""
        for name, left in self._subtract_spent().items():
            is_late = name == "seconds" and turn is not None and turn.status == "timeout"
            if is_late or left <= 0:
                flag, unit = LIMITS[name]
                amount = unit.format(f"{self.limits[name]:g}")
                return f"its limit of {amount} is used up: start it again with a higher {flag}"
        return ""

    def _turn_limits(self) -> dict[str, Any]:
        """The remainders of the limits, as the limits of the next turn."""
        left, spend = self._subtract_spent(), self.session.agent.spend
        limits: dict[str, Any] = {}
        if "requests" in left:
            limits["max_steps"] = int(left["requests"])
        if "usd" in left:
            limits["max_budget_usd"] = spend.cost_usd + spend.rest_of_tree_usd + left["usd"]
        if "seconds" in left:
            limits["timeout_s"] = max(1.0, left["seconds"])
        return limits

    def _end_goal(self, status: Status, why: str) -> TurnEnded:
        goal, is_reached = self.goal, status == "reached"
        count = plural(len(goal.attempts), "attempt")
        error = "" if is_reached else f"The goal was not reached: {why} ({count})."
        self.opened.record({"ended": status, "error": error})
        self.protect(ProtectedFiles())
        report = self.report()
        self._emit_notice(error or f"Goal reached: {shorten(goal.verify, 1000)}", report)
        ended = replace(self.total or TurnEnded(status="incomplete"), goal=report)
        if goal.attempts:
            ended = ended.with_check(goal.verify, passed=is_reached)
        if is_reached:
            return replace(ended, status="success", error=None, setting=None)
        return replace(ended, status="incomplete", error=error)

    def protect(self, protected: ProtectedFiles) -> None:
        """Makes the gates of the session and its subagents deny edits of these files, and of no
        files protected before."""
        self.session.deny_edits(protected.denials())

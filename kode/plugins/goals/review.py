"""The review of a goal: one subagent looks at what the goal's turns changed, once its check has
passed, and the model answers each of its findings through a tool."""

import asyncio
import hashlib
import math
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from kode.plugin import Opened, tool
from kode.plugin.children import (
    Task,
    continued,
    form_of_schema,
    masked,
    prepare,
    run_children,
    tool_object,
)
from kode.plugin.contracts import Tool, ToolContext
from kode.plugin.entries import SystemEntry, TaintEntry
from kode.plugin.errors import KodeError
from kode.plugin.events import FINISHED, Notice, Working
from kode.plugin.messages import Text, Usage
from kode.plugin.turns import OpenSession, fence_text
from kode.plugins.goals import words
from kode.plugins.goals.changes import changed_since, diff_text
from kode.plugins.goals.state import Goal, Record, current, finding_object

MAX_FINDINGS = 20
"""More are not answered with care."""
MAX_CHARS = 2_000
"""Of what a finding says."""
MAX_ASKED = 2
"""How often the model is asked for the answers that are open."""
SPARE = 1
"""Requests that a subagent may make beyond its limit."""
TOOL = "answer_finding"

SCHEMA: Mapping[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "file": {"type": "string"},
            "line": {"type": ["integer", "null"], "minimum": 0},
            "what": {"type": "string", "minLength": 1},
        },
        "required": ["file", "what"],
    },
}


# ── the review ───────────────────────────────────────────────────────────────────────────────


async def review(
    opened: Opened, session: OpenSession, goal: Goal, within: Mapping[str, Any]
) -> Record:
    """Runs the review, within these limits; returns its record, which a fault keeps from having
    findings. Raises: StorageError."""
    began = time.monotonic()
    costs: list[float | None] = []
    first = min(one["turn"] for one in goal.attempts)
    changed = await asyncio.to_thread(changed_since, opened, first)
    context = fence_text(diff_text(changed), "the changes under review")
    opened.emit(Working(what="Reviewing what the goal's turns changed"))
    task = Task(goal=words.REVIEW.format(text=goal.text), context=context, permission_mode="plan")
    found, fault, requests, untrusted = await _ask(session, task, within, costs)
    opened.emit(Working(what=""))
    return {
        "review": [
            {
                "id": number,
                "file": one["file"][:MAX_CHARS],
                "line": one.get("line"),
                "what": one["what"][:MAX_CHARS],
                "digest": _digest(opened, one["file"]),
            }
            for number, one in enumerate(found[:MAX_FINDINGS], 1)
        ],
        "fault": fault,
        "untrusted": untrusted,
        "turn": opened.session.turns,
        "requests": requests,
        "cost_usd": None if None in costs else math.fsum(one or 0.0 for one in costs),
        "seconds": round(time.monotonic() - began, 3),
    }


async def _ask(
    session: OpenSession, task: Task, within: Mapping[str, Any], costs: list[float | None]
) -> tuple[list[dict[str, Any]], str, int, bool]:
    """What the subagent finds, or a phrase that says why there is no review; its requests; whether
    it read untrusted text. It is asked again once for an answer that does not fit. `costs` gets
    what each of its requests costs, None where that is unknown."""
    given = session.started.delegation if session.started is not None else None
    if given is None:
        return [], "there are no subagents here (`subagent.max_depth`)", 0, False
    timeout_s = within.get("timeout_s", math.inf)
    session.agent.spend.begin_turn(None if timeout_s == math.inf else time.monotonic() + timeout_s)
    begin, requests = given.start, 0
    # At its limit it is asked once more, for what it has.
    left = within["max_steps"] - SPARE if "max_steps" in within else None

    def start() -> Any:
        begun = begin()
        config = dict(begun.config)
        if "max_budget_usd" in within:
            config["max_budget_usd"] = within["max_budget_usd"]
        tree = begun.max_tree_steps if left is None else left - requests
        return begun.model_copy(update={"config": config, "max_tree_steps": tree})

    def record(usage: Usage, cost_usd: float | None) -> None:
        costs.append(cost_usd)
        given.record(usage, cost_usd)

    delegation = replace(
        given,
        record=record,
        # Beside those of the model, which reads what its own subagents leave behind.
        folder=given.folder.with_name("reviews"),
        start=start,
        timeout_s=min(given.timeout_s, timeout_s),
    )
    form = form_of_schema(SCHEMA, "the schema of findings")
    untrusted, fault = False, ""
    for _ in range(2):
        if left is not None and left <= requests:
            return [], fault or "its limit of requests leaves none for it", requests, untrusted
        most = given.max_steps if left is None else min(given.max_steps, left - requests)
        limited = replace(delegation, max_steps=most)
        try:
            (child,) = await prepare(limited, [task], "")
            await run_children(limited, [child], session.emit)
        except KodeError as error:
            return [], str(error), requests, untrusted
        requests, untrusted = requests + child.steps, untrusted or child.untrusted
        result = child.result
        assert result is not None
        if result.status not in FINISHED:
            return [], f"it ended as {result.status}: {result.error}", requests, untrusted
        try:
            return form.read(_bracketed(result.summary)), "", requests, untrusted
        except ValueError:
            fault = "its answer was no JSON of findings, asked twice"
        again = Task(goal=words.REVIEW_AGAIN, permission_mode="plan", resume=child.id)
        task = continued(delegation.folder, again)
    return [], fault, requests, untrusted


def _bracketed(text: str) -> str:
    """The text from its first bracket to its last."""
    return text[text.find("[") : text.rfind("]") + 1]


def _digest(opened: Opened, name: str) -> str:
    try:
        with open(os.path.join(opened.place.project, name), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except (OSError, ValueError):
        return ""


def tell(session: OpenSession, goal: Goal) -> None:
    """Has the next message carry the findings that are open, as data. Raises: StorageError."""
    assert goal.reviewed is not None
    if goal.reviewed["untrusted"] and not session.session.tainted:
        session.session.append(TaintEntry(source="a subagent"))
    shown = "\n".join(map(words.finding_line, goal.open_findings))
    fenced = fence_text(shown, "the review, by a subagent")
    session.outbox.append(Text(text=fenced, source="outside"))


# ── the answers ──────────────────────────────────────────────────────────────────────────────


def offer(opened: Opened, session: OpenSession) -> None:
    """Declares the tool for answers, at the beginning of a goal with a review: it stays there, so
    that the beginning of the requests changes no more. Raises: StorageError."""
    agent, context = session.agent, session.context
    if not any(one.name == TOOL for one in agent.tools):
        made = _tool(opened)
        session.agent = agent = replace(agent, tools=(*agent.tools, made))
    known = context.session.beginning
    if known is None or any(one["name"] == TOOL for one in known.tools):
        return
    spec = next(one.spec for one in agent.tools if one.name == TOOL)
    context.session.append(
        SystemEntry(
            text=known.text,
            reason=known.reason,
            sections=known.sections,
            tools=(*known.tools, masked(tool_object(spec))),
        )
    )
    context.specs = (*context.specs, spec)


def _tool(opened: Opened) -> Tool:
    async def answer_finding(
        context: ToolContext, id: int, how: Literal["fixed", "refused"], reason: str
    ) -> str:
        """Answers a finding of the goal's review: fixed, once you have changed the files, or
        refused. The reason is for the person."""
        return await _answer(opened, id, how, reason)

    return tool(effect="none", subject="id")(answer_finding)


async def _answer(opened: Opened, id: int, how: str, reason: str) -> str:
    goal = current(opened.records())
    known = [] if goal is None else goal.findings
    found = next((one for one in known if one["id"] == id), None)
    if goal is None or found is None:
        return words.answered(id, "no_such_finding")
    if not reason.strip():
        return words.answered(id, "no_reason")
    if how == "fixed" and not await asyncio.to_thread(_is_changed, opened, goal, found):
        return words.answered(id, "no_change")
    opened.record({"answer": id, "how": how, "reason": reason[:MAX_CHARS]})
    value = {**found, "answer": how, "reason": reason[:MAX_CHARS]}
    emit_finding(opened, value)
    return words.answered(id, "")


def _is_changed(opened: Opened, goal: Goal, found: Record) -> bool:
    """Whether a file is not as it was when the finding was made."""
    assert goal.reviewed is not None
    since = goal.reviewed["turn"] + 1
    return _digest(opened, found["file"]) != found["digest"] or bool(changed_since(opened, since))


def emit_finding(opened: Opened, finding: Record) -> None:
    """One line of a finding, and of its answer."""
    value = {"type": "goal_finding", **finding_object(finding)}
    opened.emit(Notice(text=words.finding_line(finding), level="info", value=value))

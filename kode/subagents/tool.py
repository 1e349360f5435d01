"""The `delegate_tasks` tool: what the model reads about subagents, and its result; what `job` and
`/bg` do with a child in the background.

`parent.py` runs a child; `records.py` stores it.
"""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, WithJsonSchema

from kode.errors import ToolError
from kode.events import Event
from kode.extensions.agents import AgentDefinition
from kode.function_tool import tool
from kode.messages import first_of, plural, shorten
from kode.provider import Effort
from kode.subagents import records
from kode.subagents.parent import Child, Delegation, prepare, run_children, send
from kode.subagents.task import MAX_FILE_BYTES, MAX_TASKS, ParentMessage, Task
from kode.tool import Tool, ToolContext, ToolOutput, WorkStep

if TYPE_CHECKING:
    from kode.tools.background import BackgroundCommands

AGENT_CHARS = 200  # a line or two of the tool's description
MAX_AGENTS = 30
"""Limit of agents listed to the model; it may name any."""

DESCRIPTION = """\
Up to 8 independent tasks for subagents: much reading with a short answer, or changes in separate \
files. Unless you `fork`, they know nothing of this: put paths, findings and what to report into \
the task. `job` is for the `background`."""


class TaskArgument(BaseModel):
    model_config = ConfigDict(extra="forbid")

    goal: str
    context: str | None = None
    guidance: str | None = None
    effort: Annotated[Effort | None, WithJsonSchema({"type": "string"})] = None
    resume: str | None = None
    fork: bool = False


class TaskOfAgent(TaskArgument):
    """`agent`: the name of the one that does it, where one of them fits."""

    agent: str | None = None


def delegate_tool(delegation: Delegation, agents: Sequence[AgentDefinition] = ()) -> Tool:
    """The tool for one session, with the agents that it may use."""
    names = [agent.item.name for agent in agents]
    argument = TaskOfAgent if agents else TaskArgument

    async def delegate_tasks(
        context: ToolContext,
        tasks: list[argument],  # type: ignore[valid-type]
        description: str = "",
        background: bool = False,
    ) -> ToolOutput:
        checked = [
            records.continue_task(delegation.folder, task) if task.resume else task
            for task in _check(tasks, names)
        ]
        in_front = not background

        def show(event: Event) -> None:
            if in_front:
                context.emit(event)

        children = await prepare(delegation, checked, context.call_id)
        work = asyncio.create_task(run_children(delegation, children, show))
        jobs, outputs = context.background, context.place.outputs
        if not await outlives_call(work, jobs, context.call_id, at_once=background):
            work.result()
            return _output(children, context)
        assert jobs is not None
        in_front, lines = False, []
        for child in children:
            running = Running(child, delegation, outputs)
            name = jobs.take(
                running,
                context.session_id,
                with_session=True,
                tell=running.tell,
                work=partial(_describe_work, [child], children, context.place.cwd),
            )
            lines.append(f"{name}: {shorten(child.task.goal, records.GOAL_CHARS)}")
        text = "\n".join(["In the background:", *lines])
        return ToolOutput(text=text, summary=f"{plural(len(children), 'subagent')} in background")

    return tool(
        effect="delegate",
        subject="description",
        target=_subject,
        description=_describe(agents),
        preview=partial(_preview, names),
    )(delegate_tasks)


def _subject(arguments: Mapping[str, Any]) -> str:
    """What for; if the model does not say, the goals. The arguments may be unchecked."""
    described, tasks = arguments.get("description"), arguments.get("tasks")
    if isinstance(described, str) and described.strip():
        return described
    goals = []
    for task in tasks if isinstance(tasks, list) else []:
        match task:
            case TaskArgument(goal=goal) | {"goal": str(goal)}:
                goals.append(goal)
    return "; ".join(goals)


def _describe(agents: Sequence[AgentDefinition]) -> str:
    if not agents:
        return DESCRIPTION
    lines = [f"- {agent.item.name}: {shorten(agent.description, AGENT_CHARS)}" for agent in agents]
    return "\n".join([f"{DESCRIPTION} `agent` may be:", *lines[:MAX_AGENTS]])


def _preview(agents: Sequence[str], context: ToolContext, arguments: Mapping[str, Any]) -> str:
    """For the permission question: every task, in full."""
    blocks = []
    for number, task in enumerate(_check(arguments["tasks"], agents), 1):
        lines = [f"{number}. {task.goal}"]
        lines += ["   fork: it starts from this conversation"] if task.fork else []
        for name in ("resume", "agent", "effort", "guidance", "context"):
            if value := getattr(task, name):
                lines.append(f"   {name}: {value}")
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def _check(tasks: Sequence[TaskArgument], agents: Sequence[str]) -> list[Task]:
    if not 1 <= len(tasks) <= MAX_TASKS:
        raise ToolError(
            f"delegate_tasks takes 1 to {MAX_TASKS} tasks, not {len(tasks)}. "
            "Group them, or do a small one yourself."
        )
    checked = []
    for number, task in enumerate(tasks, 1):
        if not task.goal.strip():
            raise ToolError(f"Task {number} has no goal. Say in `goal` what it is to find or do.")
        if len(task.model_dump_json().encode("utf-8", "replace")) > MAX_FILE_BYTES:
            raise ToolError(f"Task {number} is larger than 1 MB. Name files instead of pasting.")
        agent = task.agent if isinstance(task, TaskOfAgent) else None
        if agent and agent not in agents:
            raise ToolError(f"There is no agent {agent!r}. The agents are: {', '.join(agents)}.")
        if task.fork and (agent or task.effort or task.resume):
            fault = f"Task {number} is a fork, which works as you do"
            raise ToolError(f"{fault}: leave out `agent`, `effort` and `resume`, or `fork`.")
        fields = task.model_dump()
        checked.append(Task(**{name: value for name, value in fields.items() if value}))
    resumed = [task.resume for task in checked if task.resume]
    if len(set(resumed)) < len(resumed):
        raise ToolError("Two tasks resume the same subagent: put them into one.")
    return checked


def _output(children: Sequence[Child], context: ToolContext) -> ToolOutput:
    limit = records.divide_chars(len(children))
    results = [child.result for child in children if child.result is not None]
    counts = Counter(result.status.replace("success", "done") for result in results)
    summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    return replace(
        _describe_work(children, children, context.place.cwd),
        text="\n\n".join(report(child, context.place.outputs, limit) for child in children),
        summary=f"{plural(len(children), 'subagent')}: {summary}",
        untrusted="a subagent" if any(child.untrusted for child in children) else "",
    )


def _describe_work(
    children: Sequence[Child], all_children: Sequence[Child], cwd: Path
) -> ToolOutput:
    """What the children changed and checked that have ended, without a text. The checks that say
    nothing of the files as they are now come first: those before an edit, and those that ran beside
    the edits of another child of the delegation."""
    early: list[tuple[str, int | None]] = []
    late: list[tuple[str, int | None]] = []
    results = [(child, child.result) for child in children if child.result is not None]
    for child, result in results:
        is_alone = not any(_has_edited(other) for other in all_children if other is not child)
        for check in result.checks:
            counted = late if check.after_last_edit and is_alone else early
            counted.append((check.command, 0 if check.passed else 1))
    last = WorkStep(
        checks=tuple(late),
        is_edit=any(map(_has_edited, children)),
        ran_programs=any(result.checked != "not_since_last_edit" for _, result in results),
    )
    files = (os.path.join(cwd, name) for _, result in results for name in result.files_changed)
    return ToolOutput(
        text="",
        files_changed=tuple(dict.fromkeys(files)),
        agent_steps=(WorkStep(checks=tuple(early)), last),
    )


def _has_edited(child: Child) -> bool:
    return bool(child.edited or (child.result is not None and child.result.files_changed))


async def outlives_call(
    work: "asyncio.Task[None]", jobs: "BackgroundCommands | None", call_id: str, *, at_once: bool
) -> bool:
    """Waits for the children; whether they still run because the call, or meanwhile the person,
    wants them in the background. If cancelled, ends them first."""
    wish = jobs.offer(call_id) if jobs is not None else asyncio.Event()
    if at_once and jobs is not None:
        wish.set()
    wanted = asyncio.create_task(wish.wait())
    try:
        await asyncio.wait((work, wanted), return_when=asyncio.FIRST_COMPLETED)
        return not work.done()
    except asyncio.CancelledError:
        work.cancel()
        while not work.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((work,))
        raise
    finally:
        wanted.cancel()
        if jobs is not None:
            jobs.withdraw(call_id)


@dataclass(frozen=True)
class Running:
    """A child in the background: a `RunningCommand`."""

    child: Child
    delegation: Delegation
    outputs: Path
    output_path: None = None
    partial: str = ""

    @property
    def command(self) -> str:
        return self.child.task.goal

    @property
    def since(self) -> float:
        return self.child.created

    @property
    def untrusted(self) -> str:
        return "a subagent" if self.child.untrusted else ""

    def output(self) -> str:
        """Its report, or what there is of it so far."""
        child, limit = self.child, records.MAX_SHOWN_CHARS
        unread = f"[Messages that it has not read: {child.unread}]" if child.unread else ""
        if child.result is not None:
            return "\n".join(filter(None, (report(child, self.outputs, limit), unread)))
        steps, files = plural(child.spend.steps, "step"), first_of(list(child.edited), 40)
        state = f"[{child.id}: {steps}, {child.tokens} tokens, {child.activity}]"
        changed = f"Files changed: {', '.join(files)}" if files else ""
        return "\n".join(filter(None, (state, unread, child.last_text[:limit], changed)))

    async def ended(self) -> str:
        await self.child.ended.wait()
        assert self.child.result is not None
        return self.child.result.status

    async def end(self) -> None:
        self.child.stopped = True
        if self.child.started:
            await self.child.ended.wait()

    def tell(self, text: str) -> None:
        """Raises: ToolError if it does not run."""
        child = self.child
        if child.result is not None or child.stopped:
            raise ToolError(f"It has ended. Give it another task with `resume`: {child.id}.")
        if child.process is None:
            raise ToolError("It has not begun: others run first.")
        child.unread += 1
        send(child, ParentMessage(text=text, tainted=self.delegation.start().tainted))


def report(child: Child, outputs: Path, limit: int) -> str:
    """The result of an ended child, for the model, in at most about `limit` characters."""
    assert child.result is not None
    text = records.report_text(child.id, child.task.goal, child.result, outputs, limit)
    lacks = child.shared.lacks
    return f"{text}\n[It had no {', no '.join(lacks)}.]" if lacks else text

"""A child in the background: what `job` and `/bg` do with it while it runs, and after."""

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path

from kode.contracts import Background
from kode.errors import ToolError
from kode.messages import first_of, plural
from kode.subagents import records
from kode.subagents.channel import Child, Delegation, send
from kode.subagents.protocol import Told


async def outlives_call(
    work: "asyncio.Task[None]", jobs: Background | None, call_id: str, *, at_once: bool
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
    """A child in the background: a `contracts.RunningCommand`."""

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
        child, room = self.child, records.MAX_SHOWN_CHARS
        unread = f"[Messages that it has not read: {child.unread}]" if child.unread else ""
        if child.result is not None:
            return "\n".join(filter(None, (report(child, self.outputs, room), unread)))
        state = f"[{child.id}: {plural(child.steps, 'step')}, {child.tokens} tokens, "
        files = f"Files changed: {', '.join(first_of(list(child.edited), 40))}"
        lines = (f"{state}{child.activity}]", unread, child.said[:room], files * bool(child.edited))
        return "\n".join(filter(None, lines))

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
        send(child, Told(text=text, tainted=self.delegation.start().tainted))


def report(child: Child, outputs: Path, limit: int) -> str:
    """The result of an ended child, for the model, in at most about `limit` characters."""
    assert child.result is not None
    text = records.report_text(child.id, child.task.goal, child.result, outputs, limit)
    lacks = child.loan.lacks
    return f"{text}\n[It had no {', no '.join(lacks)}.]" if lacks else text

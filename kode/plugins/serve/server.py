"""The tools of `kode mcp serve`. Their texts are written for the model that calls them."""

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, ParamSpec

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import InputRequiredResult, ToolAnnotations
from pydantic import Field

from kode.plugin import Answer, KodeError, UserError, fault_reports, kode_version
from kode.plugins.serve.bounds import Wish
from kode.plugins.serve.hello import INSTRUCTIONS, NAME
from kode.plugins.serve.questions import MAX_WAIT_S, follow, repeated_state
from kode.plugins.serve.session import ServedSession
from kode.plugins.serve.sessions import ServedSessions

P = ParamSpec("P")
State = dict[str, Any] | InputRequiredResult

MAX_LISTED = 100  # a few thousand tokens
MAX_DIFF_CHARS = 60_000  # 15,000 tokens

Session = Annotated[str, Field(description="The `session` of a state, or a unique prefix of it")]
Cursor = Annotated[int, Field(description="The `cursor` of the last state: only what came since")]
Wait = Annotated[
    float, Field(description=f"Seconds to wait for it to end or to ask, at most {MAX_WAIT_S:.0f}")
]

READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
READING = ("kode_wait", "kode_diff", "kode_sessions")
CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)


def make_server(sessions: ServedSessions) -> MCPServer:
    """The server over these conversations; the caller closes them."""
    server = MCPServer(NAME, instructions=INSTRUCTIONS, version=kode_version, log_level="CRITICAL")
    tools = Tools(sessions)
    for name in (name for name in vars(Tools) if name.startswith("kode_")):
        tool = as_tool(getattr(tools, name), sessions.find)
        server.add_tool(tool, annotations=READS if name in READING else CHANGES)
    return server


def as_tool(
    work: Callable[P, Awaitable[Any]], find: Callable[[str], ServedSession] | None = None
) -> Callable[P, Awaitable[Any]]:
    """Wraps a tool so that its faults become answers: foreseeable ones say what to do, others where
    the report is. `find` gives the session of a call that is repeated with a form."""

    @functools.wraps(work)
    async def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            context = kwargs.get("context")
            if find is not None and isinstance(context, Context):
                state = await repeated_state(context, find)
                if state is not None:
                    return state
            return await work(*args, **kwargs)
        except KodeError as error:
            raise ToolError(str(error)) from error
        except Exception as error:
            raise ToolError(fault_reports.describe(error)) from error

    return call


@dataclass(frozen=True)
class Tools:
    """What a client may call: each method is a tool with its name, signature and docstring."""

    sessions: ServedSessions

    async def kode_start(
        self,
        context: Context,
        prompt: Annotated[str, Field(description="The task, with all that kode must know")],
        cwd: Annotated[str, Field(description="Absolute path of the folder to work in")],
        mode: Annotated[
            Literal["plan", "ask", "auto-edit", "full"] | None,
            Field(
                description="plan: read only; ask: asks before edits; auto-edit: edits files of "
                "the folder unasked; full: where the server allows it. Default: the person's"
            ),
        ] = None,
        model: str | None = None,
        max_steps: Annotated[int | None, Field(ge=1)] = None,
        budget_usd: Annotated[float | None, Field(gt=0)] = None,
        wait_s: Wait = 20,
    ) -> State:
        """Gives kode a task in a new session. It sees nothing of your conversation."""
        _check_text(prompt)
        wish = Wish(mode=mode, model=model, max_steps=max_steps, max_budget_usd=budget_usd)
        served = await self.sessions.start(cwd, wish)
        await served.send(prompt)
        return await follow(context, served, 0, wait_s)

    async def kode_wait(
        self, context: Context, session: Session, cursor: Cursor = 0, wait_s: Wait = 20
    ) -> State:
        """Waits until the session is done or asks; returns the progress since `cursor`."""
        return await follow(context, self.sessions.find(session), cursor, wait_s)

    async def kode_reply(
        self,
        context: Context,
        session: Session,
        prompt: Annotated[str, Field(description="The next task, or a word on the one that runs")],
        mode: Literal["plan", "ask", "auto-edit", "full"] | None = None,
        wait_s: Wait = 20,
    ) -> State:
        """Says something in a session: the next turn, or, while it works, a word that it gets with
        its next step. Opens a session that was closed."""
        _check_text(prompt)
        served = await self.sessions.take_up(session)
        if mode is not None:
            served.conversation.set_permission_mode(
                self.sessions.bounds.mode(mode, served.conversation.mode, served.conversation.cwd)
            )
        cursor = len(served.lines)
        await served.send(prompt)
        return await follow(context, served, cursor, wait_s)

    async def kode_answer(
        self,
        context: Context,
        session: Session,
        question: Annotated[str, Field(description="The `id` of the question")],
        choice: Literal["once", "session", "no"],
        message: Annotated[str, Field(description="With `no`: what to do instead")] = "",
        cursor: Cursor = 0,
        wait_s: Wait = 20,
    ) -> State:
        """Answers the question of a state that `asks`. The question is for your person: show them
        `what` and `destroys` before you allow anything."""
        served = self.sessions.find(session)
        served.answer(question, Answer(choice=choice, message=message))
        return await follow(context, served, cursor, wait_s)

    async def kode_stop(self, session: Session) -> dict[str, Any]:
        """Stops what the session does and closes it. `kode_reply` opens it again; the person can
        resume it with `kode -r SESSION`."""
        served = self.sessions.find(session)
        await served.stop()
        state = served.state(len(served.lines))
        await self.sessions.close(served)
        return {**state, "status": "closed"}

    async def kode_diff(self, session: Session) -> dict[str, Any]:
        """What the session has changed in files through its tools, as unified diffs."""
        served = await self.sessions.take_up(session)
        changes = served.conversation.past.diffs()
        files = [
            {"path": change.path, "added": change.added, "removed": change.removed}
            | ({"also_changed_by_others": True} if change.by_others else {})
            for change in changes
        ]
        diff = "\n".join(change.text for change in changes)
        cut = len(diff) > MAX_DIFF_CHARS
        return {"files": files, "diff": diff[:MAX_DIFF_CHARS]} | ({"cut": True} if cut else {})

    async def kode_undo(
        self,
        session: Session,
        redo: Annotated[bool, Field(description="True: brings back what was undone last")] = False,
    ) -> dict[str, Any]:
        """Undoes the file changes of the session's newest turn that is not undone yet."""
        served = await self.sessions.take_up(session)
        if served.status in ("working", "asks"):
            raise UserError("The session is busy: wait until it is done, or `kode_stop` it first.")
        done = await (served.conversation.past.redo() if redo else served.conversation.past.undo())
        return {"session": served.conversation.session.id, "done": done}

    async def kode_sessions(
        self,
        limit: Annotated[int, Field(ge=1, le=MAX_LISTED)] = 20,
    ) -> dict[str, Any]:
        """The sessions of kode in the folders of this server, the last used first."""
        return {"sessions": self.sessions.listed(limit)}


def _check_text(prompt: str) -> None:
    if not prompt.strip():
        raise UserError("`prompt` is empty: say what to do.")

"""An editor without a screen: the client of the package `acp`, over a real `kode acp`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import acp
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    PermissionOption,
    PromptResponse,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from tests.e2e.command import KODE, Place

WAIT_S = 60.0


@dataclass
class Editor:
    """What the client has seen, and what it answers."""

    place: Place
    updates: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """(session, update as on the wire), oldest first."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    """The calls that permission was asked for, each with its `options`."""
    choose: Callable[[dict[str, Any]], str | None] = lambda call: "once"
    """The id of an option for a question; None dismisses it."""
    holds_questions: bool = False
    """Whether questions are never answered."""
    agent: Any = None
    process: Any = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    # ── called by kode ───────────────────────────────────────────────────────────────────────

    def on_connect(self, conn: Any) -> None:
        """Nothing to do: the connection is `agent`."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        shown = update.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.updates.append((session_id, shown))
        self._news.set()

    async def request_permission(
        self,
        session_id: str,
        tool_call: ToolCallUpdate,
        options: Sequence[PermissionOption],
        **_: Any,
    ) -> RequestPermissionResponse:
        call = tool_call.model_dump(mode="json", by_alias=True, exclude_none=True)
        call["options"] = [one.model_dump(by_alias=True, exclude_none=True) for one in options]
        self.asked.append(call)
        self._news.set()
        if self.holds_questions:
            await asyncio.Event().wait()
        chosen = self.choose(call)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id=chosen)
        )

    # ── called by tests ──────────────────────────────────────────────────────────────────────

    async def open(self, **more: Any) -> str:
        """A new session in the project; its id."""
        given = {"cwd": str(self.place.project), "mcp_servers": [], **more}
        made = await self.agent.new_session(**given)
        return str(made.session_id)

    async def prompt(self, session: str, *blocks: Any) -> PromptResponse:
        """Texts and content blocks, to the end of the turn."""
        prompt = [acp.text_block(one) if isinstance(one, str) else one for one in blocks]
        answer: PromptResponse = await asyncio.wait_for(
            self.agent.prompt(session_id=session, prompt=prompt), WAIT_S
        )
        return answer

    async def until(self, holds: Callable[[], object]) -> None:
        """Waits until something holds of what the client has seen."""

        async def wait() -> None:
            while not holds():
                self._news.clear()
                await self._news.wait()

        await asyncio.wait_for(wait(), WAIT_S)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The updates of one kind."""
        return [update for _, update in self.updates if update["sessionUpdate"] == kind]

    def said(self, kind: str = "agent_message_chunk") -> str:
        """The texts of chunks of one kind, joined."""
        return "".join(one["content"].get("text", "") for one in self.of(kind))

    def call(self, number: int = 0) -> dict[str, Any]:
        """A call of a tool as it stands after all its updates."""
        begun = self.of("tool_call")[number]
        state = dict(begun)
        for update in self.of("tool_call_update"):
            if update["toolCallId"] == begun["toolCallId"]:
                state |= update
        return state


@asynccontextmanager
async def editor(place: Place, *flags: str) -> AsyncIterator[Editor]:
    """Starts `kode acp` in the folder beside the project, and initializes it."""
    client = Editor(place)
    log = place.folder / "stderr.txt"
    with log.open("ab") as stderr:
        process = await asyncio.create_subprocess_exec(
            KODE,
            "acp",
            *flags,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env=place.environ,
            cwd=place.folder,
            limit=64 * 1024 * 1024,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    connection = acp.connect_to_agent(
        client, process.stdin, process.stdout, use_unstable_protocol=True
    )
    client.agent, client.process = connection, process
    try:
        await connection.initialize(1)
        yield client
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), WAIT_S)
        except TimeoutError:
            process.kill()
            await process.wait()
        await connection.close()

"""One open session of a client: its conversation, its prompts in sequence, its questions.

`updates` converts its events; `agent` has all sessions.
"""

import asyncio
import contextlib
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp import RequestError
from acp.interfaces import Client
from acp.schema import (
    ClientCapabilities,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    PromptResponse,
    StopReason,
    Usage,
)

from kode.plugin import (
    Answer,
    Conversation,
    Form,
    Loaded,
    Question,
    ServedModels,
    credentials,
    offered_models,
    open_conversation,
    read_plan,
    visible,
)
from kode.plugin import McpServerEntry as Entry
from kode.plugin import fitting_picture as fitting
from kode.plugin.contracts import PermissionMode
from kode.plugin.errors import UserError
from kode.plugin.events import FINISHED, Event, TurnEnded
from kode.plugin.messages import Image, Text
from kode.plugins.acp import updates as to_update
from kode.plugins.acp.commands import COMMANDS, Command, command_in
from kode.plugins.acp.faults import INTERNAL_ERROR
from kode.plugins.acp.options import ConfigOption, available_commands, config_options
from kode.plugins.acp.outbox import Outbox
from kode.plugins.acp.prompts import Block, read_prompt
from kode.plugins.acp.questions import ask_about_plan, ask_permission, fill_form
from kode.plugins.acp.updates import Updates

NAMED_MODELS = 8  # a sentence that can be read
LAST_UPDATES_S = 2.0
"""Time to write the last updates of a closed session."""


@dataclass
class Live:
    """An open session, created by `open_live`."""

    client: Client
    outbox: Outbox
    updates: Updates
    thread: int = field(default_factory=threading.get_ident)
    opened: Conversation | None = None
    models: tuple[str, ...] = ()
    commands: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """As last sent."""
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    work: "set[asyncio.Task[PromptResponse]]" = field(default_factory=set)
    """The running prompt, and those that wait for it."""
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def conversation(self) -> Conversation:
        assert self.opened is not None
        return self.opened

    @property
    def id(self) -> str:
        """The session's id, even if it is not saved."""
        return self.conversation.session.header.id

    # ── what the conversation is given ───────────────────────────────────────────────────────

    def emit(self, event: Event) -> None:
        """From any thread; never blocks."""
        if threading.get_ident() != self.thread:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it the client
                self.loop.call_soon_threadsafe(self.emit, event)
            return
        self.outbox.put(*self.updates.of(event))

    async def ask(self, question: Question) -> Answer:
        """Asks the person for permission, after writing all earlier updates."""
        await self.outbox.sent()
        about = next(
            (
                call
                for call in self.updates.calls.values()
                if not question.asker
                and call.name == question.tool
                and visible(call.subject) == question.subject
            ),
            None,
        )
        new_id = f"question-{uuid.uuid4().hex[:8]}"
        return await ask_permission(self.client, self.id, question, about, self.updates.cwd, new_id)

    async def elicit(self, form: Form) -> Mapping[str, Any] | None:
        await self.outbox.sent()
        return await fill_form(self.client, self.id, form)

    # ── what the client asks for ─────────────────────────────────────────────────────────────

    async def prompt(self, blocks: Sequence[Block]) -> PromptResponse:
        """Runs a turn or a command after earlier ones. All its updates are written when this
        returns.

        Raises: KodeError; RequestError for a failed turn.
        """
        task = asyncio.ensure_future(self._prompt(blocks))
        self.work.add(task)
        task.add_done_callback(self.work.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            # Stopped outside of a turn: before it started, or in the question about a plan.
            return PromptResponse(stop_reason="cancelled")
        finally:
            await self.outbox.sent()

    def cancel(self) -> None:
        """Stops the running prompt, and drops those that wait."""
        for task in self.work:
            task.cancel()

    async def close(self) -> None:
        """Stops what runs and ends the session."""
        self.cancel()
        if self.work:
            await asyncio.wait(self.work)
        await self.conversation.close()
        await self.outbox.sent(LAST_UPDATES_S)

    def options(self) -> list[ConfigOption]:
        status = self.conversation.status()
        return config_options(status.mode, status.model, self.models)

    def set_mode(self, mode: PermissionMode) -> None:
        self.conversation.set_permission_mode(mode)
        self.send_options()

    async def set_model(self, model: str) -> None:
        """Raises: UserError for a model that is not offered, or cannot be used."""
        if model not in (self.conversation.status().model, *self.models):
            named = ", ".join(self.models[:NAMED_MODELS])
            raise UserError(f"There is no model {model[:80]!r} here. The models are: {named}.")
        await asyncio.to_thread(self.conversation.use_model, model)
        self.send_options()

    def send_options(self) -> None:
        """Sends the current mode and model."""
        mode = CurrentModeUpdate(
            session_update="current_mode_update", current_mode_id=self.conversation.mode
        )
        options = ConfigOptionUpdate(
            session_update="config_option_update", config_options=self.options()
        )
        self.outbox.put(mode, options)

    def send_commands(self) -> None:
        """Sends the commands that a message may begin with, if they have changed."""
        conversation = self.conversation
        own = {name: (command.summary, command.hint) for name, command in COMMANDS.items()}
        brought = {k: (what, "") for k, what in conversation.offered().items() if k not in own}
        prompts = conversation.extensions.commands() if conversation.extensions is not None else {}
        served = {name.removeprefix("/"): (what, "") for name, what in prompts.items()}
        offered = {**own, **brought, **served}
        if offered != self.commands:
            self.commands = offered
            self.outbox.put(available_commands(offered))

    async def look_up_models(self) -> None:
        """Finds the available models; asks a local server."""
        config, provider = self.conversation.config, self.conversation.agent.provider
        self.models = tuple(
            await asyncio.to_thread(offered_models, config, provider, ServedModels())
        )

    # ── a prompt ─────────────────────────────────────────────────────────────────────────────

    async def _prompt(self, blocks: Sequence[Block]) -> PromptResponse:
        async with self._one_at_a_time:
            prompt = await asyncio.to_thread(read_prompt, blocks, self.conversation)
            conversation, text = self.conversation, prompt.text
            if text.split() == ["/plan", "go"]:
                text = await self._approve_plan("ask")
            elif found := command_in(text):
                return await self._command(*found)
            small = [await asyncio.to_thread(fitting, picture) for picture in prompt.pictures]
            pictures = [conversation.keep_picture(picture.name, picture.data) for picture in small]
            ended = await self._turn(text, (*pictures, *prompt.attachments))
            while conversation.fresh_plan and ended.status in FINISHED:
                mode = await self._ask_about_plan()
                if mode is None:
                    break
                ended = await self._turn(await self._approve_plan(mode))
            return self._response(ended)

    async def _turn(self, text: str, attachments: Sequence[Text | Image] = ()) -> TurnEnded:
        opened_before = self.conversation.opened
        ended = await self.conversation.turn(text, attachments=attachments)
        status = self.conversation.status()
        self.outbox.put(*self.updates.usage(status.context_tokens, status.context_window))
        if not opened_before:  # servers have started meanwhile, and approvals count
            self.send_commands()
        return ended

    async def _approve_plan(self, mode: PermissionMode) -> str:
        """Switches to `mode`; returns the text that starts the work. Raises: UserError without a
        plan."""
        text = await self.conversation.approve_plan(mode)
        self.send_options()
        return text

    async def _ask_about_plan(self) -> PermissionMode | None:
        await self.outbox.sent()
        plan = await asyncio.to_thread(read_plan, self.conversation.agent.place.plan)
        return await ask_about_plan(self.client, self.id, plan, f"plan-{uuid.uuid4().hex[:8]}")

    async def _command(self, command: Command, argument: str) -> PromptResponse:
        before = self.conversation.mode
        self.outbox.put(to_update.message(await command.run(self.conversation, argument)))
        if self.conversation.mode != before:
            self.send_options()
        return PromptResponse(stop_reason="end_turn")

    def _response(self, ended: TurnEnded) -> PromptResponse:
        """Raises: RequestError for a failed turn, with what to do next."""
        usage = Usage(
            input_tokens=ended.usage.input_tokens,
            output_tokens=ended.usage.output_tokens,
            total_tokens=ended.usage.input_tokens + ended.usage.output_tokens,
            cached_read_tokens=ended.usage.cached_tokens,
            cached_write_tokens=ended.usage.cache_write_tokens,
        )
        reason = self._stop_reason(ended)
        if reason is None:
            raise RequestError(INTERNAL_ERROR, ended.error or "The turn failed.")
        if ended.error and reason != "cancelled":
            self.outbox.put(to_update.message(f"\n\n{ended.error}", str(uuid.uuid4())))
        return PromptResponse(stop_reason=reason, usage=usage)

    def _stop_reason(self, ended: TurnEnded) -> StopReason | None:
        """None for a failure."""
        if ended.status in FINISHED:
            return "end_turn"
        if ended.status == "interrupted":
            return "cancelled"
        if ended.status == "timeout" or ended.steps >= self.conversation.agent.limits.max_steps:
            return "max_turn_requests"
        if self.updates.last_stop == "refusal":
            return "refusal"
        return "max_tokens" if self.updates.last_stop == "length" else None


async def open_live(
    client: Client,
    can: ClientCapabilities,
    loaded: Loaded,
    *,
    cwd: Path,
    session_id: str | None,
    servers: Sequence[Entry],
    keep_session: bool,
    trust_project: bool,
) -> Live:
    """Opens a new session, or the one named, for a client. Sends nothing before `release`.

    Raises: as `open_conversation`.
    """
    live: Live

    async def send(update: to_update.Update) -> None:
        await client.session_update(live.id, update)

    live = Live(client=client, outbox=Outbox(send), updates=Updates(cwd))
    has_forms = can.elicitation is not None
    conversation = live.opened = await open_conversation(
        loaded,
        cwd=cwd,
        emit=live.emit,
        ask=live.ask,
        elicit=live.elicit if has_forms else None,
        session_id=session_id,
        keep_session=keep_session,
        trust_project=trust_project,
        servers=servers,
    )
    live.updates.titled = conversation.session.turns > 0
    live.updates.tools = lambda: conversation.agent.tools
    live.updates.mask = lambda text: credentials.mask(text, conversation.agent.secrets)
    live.updates.cost_usd = lambda: conversation.status().cost_usd
    if conversation.extensions is not None:
        conversation.extensions.start_all()
    return live

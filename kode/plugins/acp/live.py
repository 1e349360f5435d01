"""One open session of a client: its conversation, its prompts in sequence, its questions.

`updates` converts its events; `agent` has all sessions.
"""

import asyncio
import contextlib
import itertools
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
    FINISHED,
    Answer,
    Conversation,
    Event,
    Form,
    Image,
    Loaded,
    ModelListing,
    PermissionMode,
    Question,
    Text,
    TurnEnded,
    UserError,
    credentials,
    open_conversation,
    read_plan,
    visible,
)
from kode.plugin import McpServerEntry as Entry
from kode.plugin import fitting_picture as fitting
from kode.plugins.acp import updates as to_update
from kode.plugins.acp.commands import COMMANDS, Command, command_in
from kode.plugins.acp.faults import INTERNAL_ERROR
from kode.plugins.acp.options import (
    EFFORT,
    MODE,
    MODEL,
    Choices,
    available_commands,
    config_options,
    effort_named,
    modes,
)
from kode.plugins.acp.outbox import Outbox
from kode.plugins.acp.prompts import Block, read_prompt, words_of
from kode.plugins.acp.questions import ask_about_plan, ask_permission, fill_form
from kode.plugins.acp.updates import Updates

LAST_UPDATES_S = 2.0
"""Time to write the last updates of a closed session."""


@dataclass(eq=False)
class Said:
    """A prompt that waits for its turn, or for the next step of another."""

    words: str | None
    """All of it, where the running turn can be given that; else None."""
    ended: TurnEnded | None = None
    """How the turn ended that was given it."""


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
    told: Choices | None = None
    """As the client knows them."""
    _waiting: list[Said] = field(default_factory=list)
    """In the order in which the person said them."""
    _given: list[Said] = field(default_factory=list)
    """Those that the running turn has been given."""
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

    def choices(self) -> Choices:
        conversation, status = self.conversation, self.conversation.status()
        return Choices(
            mode=status.mode,
            configured_mode=conversation.config.permissions.mode,
            model=status.model,
            models=self.models,
            effort=conversation.agent.effort,
            efforts=conversation.agent.provider.info.efforts,
        )

    def offer(self) -> dict[str, Any]:
        """The choices for the answer that opens the session, by their names there."""
        self.told = self.choices()
        return {"modes": modes(self.told), "config_options": config_options(self.told)}

    async def choose(self, option: str, value: str) -> None:
        """Chooses a mode, a model or an effort. Raises: UserError for what is not on offer, or
        cannot be used."""
        choices = self.choices()
        if option == MODE:
            self.conversation.set_permission_mode(choices.mode_named(value))
        elif option == MODEL:
            model = choices.model_named(value)
            await asyncio.to_thread(self.conversation.use_model, model)
        elif option == EFFORT:
            self.conversation.use_effort(effort_named(value))
        else:
            raise UserError(
                f"There is no option {option[:40]!r}; there are {MODE}, {MODEL} and {EFFORT}."
            )
        self.send_choices()

    def send_choices(self) -> None:
        """Sends what is chosen and can be, if it has changed, by whomever."""
        choices = self.choices()
        if choices == self.told:
            return
        if self.told is None or choices.mode != self.told.mode:
            mode = CurrentModeUpdate(
                session_update="current_mode_update", current_mode_id=choices.mode
            )
            self.outbox.put(mode)
        self.told = choices
        options = ConfigOptionUpdate(
            session_update="config_option_update", config_options=config_options(choices)
        )
        self.outbox.put(options)

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
        own, *_ = await asyncio.to_thread(ModelListing().offers, config, provider, ask=False)
        self.models = own.models

    # ── a prompt ─────────────────────────────────────────────────────────────────────────────

    async def _prompt(self, blocks: Sequence[Block]) -> PromptResponse:
        """Runs a prompt when those before it have ended, unless the running turn is given it
        first."""
        said = Said(words_of(blocks))
        self._waiting.append(said)
        try:
            await self._one_at_a_time.acquire()
        except asyncio.CancelledError:
            self._waiting = [one for one in self._waiting if one is not said]
            raise
        try:
            if said not in self._waiting:
                if said.ended is None:
                    raise RequestError(INTERNAL_ERROR, "The turn that was given this failed.")
                return PromptResponse(stop_reason=self._stop_reason(said.ended))
            self._waiting.remove(said)
            return await self._run(blocks)
        finally:
            self.send_choices()
            self._one_at_a_time.release()

    async def _run(self, blocks: Sequence[Block]) -> PromptResponse:
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

    def _give(self) -> list[str]:
        """What the person has said for the running turn, which gets it with its next step. A prompt
        that cannot go there holds back those after it."""
        given = list(itertools.takewhile(lambda one: one.words is not None, self._waiting))
        del self._waiting[: len(given)]
        self._given += given
        return [one.words or "" for one in given]

    async def _turn(self, text: str, attachments: Sequence[Text | Image] = ()) -> TurnEnded:
        opened_before = self.conversation.opened
        try:
            ended = await self.conversation.turn(text, attachments=attachments, steering=self._give)
        finally:
            given, self._given = self._given, []
        for said in given:
            said.ended = ended
        status = self.conversation.status()
        self.outbox.put(*self.updates.usage(status.context_tokens, status.context_window))
        if not opened_before:  # servers have started meanwhile, and approvals count
            self.send_commands()
        return ended

    async def _approve_plan(self, mode: PermissionMode) -> str:
        """Switches to `mode`; returns the text that starts the work. Raises: UserError without a
        plan."""
        text = await self.conversation.approve_plan(mode)
        self.send_choices()
        return text

    async def _ask_about_plan(self) -> PermissionMode | None:
        await self.outbox.sent()
        plan = await asyncio.to_thread(read_plan, self.conversation.agent.place.plan)
        return await ask_about_plan(self.client, self.id, plan, f"plan-{uuid.uuid4().hex[:8]}")

    async def _command(self, command: Command, argument: str) -> PromptResponse:
        self.outbox.put(to_update.message(await command.run(self.conversation, argument)))
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
        if ended.error and reason != "cancelled":
            self.outbox.put(to_update.message(f"\n\n{ended.error}", str(uuid.uuid4())))
        return PromptResponse(stop_reason=reason, usage=usage)

    def _stop_reason(self, ended: TurnEnded) -> StopReason:
        """Raises: RequestError for a failed turn."""
        if ended.status in FINISHED:
            return "end_turn"
        if ended.status == "interrupted":
            return "cancelled"
        if ended.status == "timeout" or ended.steps >= self.conversation.agent.limits.max_steps:
            return "max_turn_requests"
        if self.updates.last_stop == "refusal":
            return "refusal"
        if self.updates.last_stop == "length":
            return "max_tokens"
        raise RequestError(INTERNAL_ERROR, ended.error or "The turn failed.")


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

"""One open session of a client: its conversation, and its prompts, which run one after another. A
prompt becomes one message of text, links, embedded files and images; what it links or embeds from
outside the working folders is outside text, as with `kode run --ctx`.

`updates` converts the session's events; `agent` holds all open sessions.
"""

import asyncio
import base64
import binascii
import contextlib
import functools
import json
import os
import re
import threading
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar
from urllib.parse import unquote, urlsplit

from acp import RequestError, schema
from acp.helpers import update_current_mode
from acp.interfaces import Client
from acp.schema import ToolCallProgress

from kode.plugin import (
    Answer,
    Conversation,
    ConversationSettings,
    Event,
    Image,
    KodeError,
    Question,
    SessionError,
    Text,
    TurnEnded,
    UserError,
    describe_fault,
    open_conversation,
    read_mentioned,
    visible,
)
from kode.plugins.acp import choices, updates as to_update

INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603  # JSON-RPC 2.0, section 5.1
AUTH_REQUIRED, NOT_FOUND = -32000, -32002  # the Agent Client Protocol's own codes
CODES = {SessionError: NOT_FOUND, UserError: INVALID_PARAMS, KodeError: INTERNAL_ERROR}

P = ParamSpec("P")
R = TypeVar("R")

STOP_REASONS: dict[str | None, schema.StopReason] = {"refusal": "refusal", "length": "max_tokens"}
"""Why the last reply stopped → the protocol's reason for the end of the turn."""
LAST_UPDATES_S = 2.0
"""Time to write the last updates of a closed session."""


def translate_faults(
    method: Callable[P, Coroutine[Any, Any, R]],
) -> Callable[P, Coroutine[Any, Any, R]]:
    """Wraps a method so that whatever it raises becomes an error of the protocol."""

    @functools.wraps(method)
    async def answer(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await method(*args, **kwargs)
        except RequestError:
            raise
        except KodeError as error:
            code = next(code for kind, code in CODES.items() if isinstance(error, kind))
            raise RequestError(code, str(error)) from error
        except Exception as error:
            text = await asyncio.to_thread(describe_fault, error)
            raise RequestError(INTERNAL_ERROR, text) from error

    return answer


Block = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


@dataclass
class ClientMessage:
    """A prompt, converted to what a turn of kode takes."""

    text: str = ""
    attachments: list[Text] = field(default_factory=list)
    pictures: list[tuple[str, bytes]] = field(default_factory=list)
    """(name, data) of each."""

    def add_words(self, words: str) -> None:
        """Appends to the text, with a space if needed: links occur in the middle of a sentence."""
        is_apart = re.search(r"(?:^|[\s(\[\"'`])$", self.text) or re.match(
            r"[\s.,;:!?)\]\"'`]", words
        )
        self.text += words if is_apart else f" {words}"

    def add_picture(self, uri: str | None, data: str) -> None:
        """Adds an image, named by its link if any. Raises: UserError for invalid base64."""
        link = os.path.basename(unquote(urlsplit(uri or "").path))
        name = link or f"image-{len(self.pictures) + 1}"
        try:
            self.pictures.append((name, base64.b64decode(data, validate=True)))
        except (binascii.Error, ValueError) as error:
            raise UserError(f"{name} is not base64 data, so the model cannot see it.") from error


def read_prompt(blocks: Sequence[Block], conversation: Conversation) -> ClientMessage:
    """Converts a prompt. Reads the images that it links: call it in a thread.

    Raises: UserError for unsupported content, or an empty prompt.
    """
    message, cwd = ClientMessage(), conversation.place.cwd
    for block in blocks:
        if isinstance(block, schema.TextContentBlock):
            message.add_words(block.text)
        elif isinstance(block, schema.ImageContentBlock):
            message.add_picture(block.uri, block.data)
        elif isinstance(block, schema.AudioContentBlock):
            raise UserError("kode cannot listen to audio. Send the words as text.")
        elif isinstance(block, schema.ResourceContentBlock):
            message.add_words(_format_mention(block.uri, cwd))
            if (path := path_of_uri(block.uri)) is not None:  # as a file after `@` at the terminal
                quoted = json.dumps(str(path), ensure_ascii=False)
                pictures = read_mentioned(f"@{quoted}", cwd)
                message.pictures += ((picture.name, picture.data) for picture in pictures)
        else:
            resource = block.resource
            message.add_words(_format_mention(resource.uri, cwd))
            if isinstance(resource, schema.TextResourceContents):
                message.attachments.append(_read_embedded(resource, conversation))
            elif (resource.mime_type or "").startswith("image/"):
                message.add_picture(resource.uri, resource.blob)
            else:
                raise UserError(
                    f"{_format_mention(resource.uri, cwd)} is neither text nor an image, so it "
                    "cannot be sent. Name its path instead."
                )
    message.text = message.text.strip()
    if not message.text and not message.attachments and not message.pictures:
        raise UserError("The prompt is empty: say what kode should do.")
    message.text = message.text or "Look at the attachments."
    return message


def path_of_uri(uri: str) -> Path | None:
    """The path of a file URI; None for other URIs."""
    parts = urlsplit(uri)
    is_file = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return Path(unquote(parts.path)) if is_file else None


def _format_mention(uri: str, cwd: Path) -> str:
    """How the message refers to an attachment at its place in the text: `@src/a.py`."""
    path = path_of_uri(uri)
    if path is None or not unquote(uri).isprintable():
        return uri  # a file name must not read like a sentence of the person's
    name = os.path.relpath(path, cwd) if path.is_relative_to(cwd) else str(path)
    return f"@{name}{_format_fragment(uri)}"


def _format_fragment(uri: str) -> str:
    """The part of a file that a URI points to, as the client wrote it: `#L10:20`."""
    fragment = urlsplit(uri).fragment
    return f"#{unquote(fragment)}" if fragment else ""


def _read_embedded(resource: schema.TextResourceContents, conversation: Conversation) -> Text:
    path = path_of_uri(resource.uri)
    name = f"{path}{_format_fragment(resource.uri)}" if path is not None else resource.uri
    return conversation.quote_file(name, resource.text, path)


@dataclass
class Outbox:
    """The updates of one session to the client, in order. `put` never blocks; for a slow client,
    only the latest state of a command's output is kept."""

    send: Callable[[to_update.Update], Awaitable[None]]
    """Raises: ConnectionError if the client is gone."""
    waiting: "deque[to_update.Update]" = field(default_factory=deque)
    held: bool = True
    """While True, nothing is sent: the client does not know the session yet."""
    _sending: "asyncio.Task[None] | None" = None

    def put(self, *updates: to_update.Update) -> None:
        """Adds updates to the queue."""
        for update in updates:
            match (self.waiting[-1] if self.waiting else None), update:
                case ToolCallProgress(status=None) as last, ToolCallProgress(status=None):
                    if last.tool_call_id == update.tool_call_id:
                        self.waiting.pop()
            self.waiting.append(update)
        self._start_sending()

    def release(self) -> None:
        """Starts sending."""
        self.held = False
        self._start_sending()

    async def wait_until_sent(self, timeout_s: float | None = None) -> None:
        """Waits until the queue is written; with a limit, because a client may stop reading."""
        self.release()
        if self._sending is not None:
            await asyncio.wait([self._sending], timeout=timeout_s)

    def _start_sending(self) -> None:
        if not self.held and self.waiting and (self._sending is None or self._sending.done()):
            self._sending = asyncio.ensure_future(self._send_all())

    async def _send_all(self) -> None:
        while self.waiting:
            try:
                await self.send(self.waiting.popleft())
            except ConnectionError:
                self.waiting.clear()


@dataclass
class Live:
    """An open session, created by `open_live`."""

    client: Client
    outbox: Outbox
    updates: to_update.Updates
    conversation: Conversation = field(init=False)
    models: tuple[str, ...] = ()
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    work: "set[asyncio.Task[schema.PromptResponse]]" = field(default_factory=set)
    """The running prompt, and those that wait for it."""
    options: Sequence[choices.ConfigOption] = ()
    """The options that the client was last sent."""
    commands: to_update.Update | None = None
    """The update about commands that the client was last sent."""
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def id(self) -> str:
        """The session's id; it has one even if it is not saved to disk."""
        return self.conversation.session.header.id

    def emit(self, event: Event) -> None:
        """Queues the updates for an event. May be called in any thread; never blocks."""
        if threading.current_thread() is not threading.main_thread():
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it the client
                self.loop.call_soon_threadsafe(self.emit, event)
            return
        self.outbox.put(*self.updates.convert_event(event))

    async def ask(self, question: Question) -> Answer:
        """Asks the person for permission, after writing all earlier updates."""
        await self.outbox.wait_until_sent()
        about = (question.tool, question.subject) if not question.asker else None
        calls = self.updates.calls.values()
        call = next((call for call in calls if (call.name, visible(call.subject)) == about), None)
        return await choices.ask_permission(self.client, self.id, question, call)

    async def prompt(self, blocks: Sequence[Block]) -> schema.PromptResponse:
        """Runs a turn or a command once earlier prompts have ended. Returns after all updates of
        the prompt are written.

        Raises: KodeError; RequestError for a failed turn.
        """
        task = asyncio.ensure_future(self._await_prompt(blocks))
        self.work.add(task)
        task.add_done_callback(self.work.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            # Stopped outside of a turn: before it started, or in the question about a plan.
            return schema.PromptResponse(stop_reason="cancelled")
        finally:
            await self.outbox.wait_until_sent()

    def cancel(self) -> None:
        """Stops the running prompt, and drops those that wait."""
        for task in self.work:
            task.cancel()

    async def close(self) -> None:
        """Stops all prompts, closes the conversation, and sends the last updates."""
        self.cancel()
        if self.work:
            await asyncio.wait(self.work)
        await self.conversation.close()
        await self.outbox.wait_until_sent(LAST_UPDATES_S)

    def describe_choices(self) -> dict[str, Any]:
        """The fields for the choices in the answer to opening the session."""
        self.options = choices.config_options(self.conversation, self.models)
        return {"modes": choices.mode_state(self.conversation), "config_options": [*self.options]}

    async def choose(self, option: str, value: str) -> None:
        """See `choices.set_choice`."""
        await asyncio.to_thread(choices.set_choice, self.conversation, self.models, option, value)
        self.send_choices()

    def send_choices(self) -> None:
        """Sends the options and their current values if they changed since they were last sent."""
        options = choices.config_options(self.conversation, self.models)
        if options == self.options:
            return
        mode = options[0].current_value
        if not self.options or self.options[0].current_value != mode:
            self.outbox.put(update_current_mode(str(mode)))
        self.options = options
        kind: Literal["config_option_update"] = "config_option_update"
        self.outbox.put(schema.ConfigOptionUpdate(session_update=kind, config_options=[*options]))

    def send_commands(self) -> None:
        """Sends the commands that a message may begin with, if they have changed."""
        commands = choices.commands_update(self.conversation)
        if commands != self.commands:
            self.commands = commands
            self.outbox.put(commands)

    async def _await_prompt(self, blocks: Sequence[Block]) -> schema.PromptResponse:
        """Runs a prompt when those before it have ended."""
        async with self._one_at_a_time:
            try:
                return await self._run_prompt(blocks)
            finally:
                self.send_choices()

    async def _run_prompt(self, blocks: Sequence[Block]) -> schema.PromptResponse:
        """Runs a prompt and plans it leads to. Raises: RequestError for a failed turn."""
        prompt = await asyncio.to_thread(read_prompt, blocks, self.conversation)
        conversation = self.conversation
        if command := choices.parse_command(prompt.text):
            run, argument = command
            self.outbox.put(to_update.message_update(await run(conversation, argument)))
            return schema.PromptResponse(stop_reason="end_turn")
        pictures = [
            await asyncio.to_thread(conversation.keep_picture, name, data)
            for name, data in prompt.pictures
        ]
        ended = await self._run_turn(prompt.text, (*pictures, *prompt.attachments))
        while conversation.fresh_plan and ended.is_finished:
            await self.outbox.wait_until_sent()
            plan = conversation.plan.text
            mode = await choices.ask_about_plan(self.client, self.id, plan)
            if mode is None:
                break
            text = await conversation.approve_plan(mode)
            self.send_choices()
            ended = await self._run_turn(text)
        reason = self._stop_reason(ended)
        if ended.error and reason != "cancelled":
            self.outbox.put(to_update.message_update(f"\n\n{ended.error}", str(uuid.uuid4())))
        usage = schema.Usage(
            input_tokens=ended.usage.input_tokens,
            output_tokens=ended.usage.output_tokens,
            total_tokens=ended.usage.input_tokens + ended.usage.output_tokens,
            cached_read_tokens=ended.usage.cached_tokens,
            cached_write_tokens=ended.usage.cache_write_tokens,
        )
        return schema.PromptResponse(stop_reason=reason, usage=usage)

    async def _run_turn(self, text: str, attachments: Sequence[Text | Image] = ()) -> TurnEnded:
        opened_before = self.conversation.catalog is not None
        ended = await self.conversation.turn(text, attachments=attachments)
        window = self.conversation.agent.provider.info.context_window
        self.outbox.put(self.updates.usage_update(self.conversation.context_tokens, window))
        if not opened_before:  # servers have started meanwhile, and approvals count
            self.send_commands()
        return ended

    def _stop_reason(self, ended: TurnEnded) -> schema.StopReason:
        """Raises: RequestError for a failed turn."""
        if ended.is_finished:
            return "end_turn"
        if ended.status == "interrupted":
            return "cancelled"
        if ended.status == "timeout" or ended.steps >= self.conversation.config.max_steps:
            return "max_turn_requests"
        if reason := STOP_REASONS.get(self.updates.last_stop):
            return reason
        raise RequestError(INTERNAL_ERROR, ended.error or "The turn failed.")


async def open_live(
    client: Client, settings: ConversationSettings, cwd: Path, session_id: str | None
) -> Live:
    """Opens a new session, or the one with this id. Its outbox sends nothing before `release`.

    Raises: as `open_conversation`.
    """
    live: Live

    async def send(update: to_update.Update) -> None:
        await client.session_update(live.id, update)

    live = Live(client=client, outbox=Outbox(send), updates=to_update.Updates())
    settings = replace(settings, emit=live.emit, ask=live.ask)
    conversation = await open_conversation(settings, cwd=cwd, session_id=session_id)
    live.conversation = live.updates.conversation = conversation
    live.updates.titled = conversation.session.turns > 0
    if conversation.extensions is not None:
        conversation.extensions.start_all()
    live.models = await asyncio.to_thread(conversation.list_models)
    return live

"""kode inside a Python program: what `import kode` offers; nothing else is public.

Nothing here prints, handles a signal, or changes the directory or environment of the process.
docs/python.md shows it at work.
"""

import asyncio
import contextlib
import inspect
import os
import threading
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from pathlib import Path
from typing import Any, TypeVar, overload

from kode import conversation as inner, paths
from kode.config.load import load_config
from kode.conversation.structured import Form, form_of_schema, form_of_type
from kode.errors import ConfigError, KodeError, ToolError, TurnFailed, UserError
from kode.events import UNBEGUN, Emit, Event, Notice, TurnEnded
from kode.memory.contract import Injection, MemorySystem, NullMemory, Turn
from kode.messages import Text
from kode.paths import kode_home
from kode.permissions.names import PermissionMode
from kode.permissions.question import Answer, Ask, Question
from kode.providers import warm_up
from kode.session.index import find_session
from kode.tool import Tool, ToolOutput, plain_tool

__all__ = [
    "Answer",
    "BlockingConversation",
    "Conversation",
    "Gate",
    "Injection",
    "KodeError",
    "MemorySystem",
    "NullMemory",
    "Question",
    "ToolError",
    "ToolOutput",
    "Turn",
    "TurnFailed",
    "open",
]

T = TypeVar("T")

Gate = Callable[[Question], "bool | Answer | Awaitable[bool | Answer]"]
"""Decides calls that rules and mode want asked: True runs a call, False refuses it, and so does
`Answer(choice="no", message="only below docs/")`, whose message the model reads. Sync or async; a
sync function runs in a thread."""

Files = Sequence[str | Path]
"""Files to send with a text."""

AS_CONFIGURED = "as configured"


def open(
    cwd: str | os.PathLike[str] = ".",
    *,
    model: str | None = None,
    provider: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    tools: Sequence[Callable[..., Any] | Tool] = (),
    gate: Gate | None = None,
    memory: MemorySystem | str | None = AS_CONFIGURED,
    permission_mode: PermissionMode | None = None,
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    system: str | None = None,
    max_steps: int | None = None,
    max_budget_usd: float | None = None,
    timeout_s: float | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: str | None = None,
    keep_session: bool = True,
    trust_project: bool = False,
    on_event: Callable[[Event], None] | None = None,
) -> "Opening":
    """Opens a conversation in the folder `cwd`: `async with kode.open() as conversation` closes it
    at the end of the block, `await kode.open()` leaves that to `Conversation.close`, and
    `kode.open().blocking()` needs no event loop.

    Defaults are those of the command `kode`: `$KODE_HOME/config.json`, the project's `kode.json`,
    and the environment.

    Args:
        tools: plain functions that the model may call, described by their name, docstring and
            signature; they run without a question unless a rule says otherwise.
        gate: approves calls that rules and mode would ask a person about; None: they are refused.
        memory: the name of a system, "off" or None for none, or your own object.
        permission_mode: `ask`, `auto-edit`, `plan` or `full`.
        allow, deny: rules in addition to the configured ones, like `shell(pytest:*)`.
        system: replaces kode's system prompt.
        max_steps, timeout_s: limits per turn; `max_budget_usd`: per conversation.
        settings: any other key of the configuration, dotted: `{"sandbox.enabled": False}`.
        resume: the id of a session to continue, or a unique prefix of it.
        keep_session: False leaves nothing on disk.
        trust_project: approves the repository's servers, hooks and skills.
        on_event: gets every event as it happens, also between turns and at the end.

    Raises: UserError (no key, a wrong value, a session open elsewhere), SessionError.
    """
    settings_given = {
        "model": model,
        "provider": provider,
        "base_url": base_url,
        "api_key": api_key,
        "system": system,
        "max_steps": max_steps,
        "max_budget_usd": max_budget_usd,
        "timeout_s": timeout_s,
        "permissions.mode": permission_mode,
        "permissions.allow": list(allow) or None,
        "permissions.deny": list(deny) or None,
        "memory.system": memory if isinstance(memory, str) and memory != AS_CONFIGURED else None,
        "memory.enabled": False if memory is None else None,
    }
    named = {key: value for key, value in settings_given.items() if value is not None}

    async def start() -> Conversation:
        folder, flags = Path(paths.real_path(paths.expand_path(cwd))), {**(settings or {}), **named}
        if not folder.is_dir():
            raise ConfigError(f"{os.fspath(cwd)} is no folder. Name one that exists.")
        conversation = Conversation(on_event)
        resume_id = None if resume is None else find_session(kode_home(), resume)
        options = inner.Settings(
            load_config(kode_home(), folder, environ=os.environ, flags=flags, flags_of="kode.open"),
            emit=conversation._emit,
            ask=None if gate is None else _make_ask(gate, conversation._emit),
            keep_session=keep_session,
            trust_project=trust_project,
            tools=tuple(tool if isinstance(tool, Tool) else plain_tool(tool) for tool in tools),
            memory=None if isinstance(memory, str) else memory,
        )
        conversation._talk = await inner.open_conversation(
            options, cwd=folder, session_id=resume_id
        )
        try:
            # The SDK takes up to a second to import: keep it off the caller's event loop.
            await asyncio.to_thread(warm_up, conversation._talk.agent.provider)
        except BaseException:
            await conversation._close(interrupted=True)
            raise
        return conversation

    return Opening(start)


class Opening:
    """What `kode.open` returns: the conversation before it is open."""

    def __init__(self, start: "Callable[[], Coroutine[Any, Any, Conversation]]") -> None:
        self._start = start

    def __await__(self) -> "Generator[Any, None, Conversation]":
        return self._start().__await__()

    async def __aenter__(self) -> "Conversation":
        self._conversation = await self._start()
        return self._conversation

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # When cancelled, nobody waits for memory: it leaves its work for later.
        is_cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
        await self._conversation._close(interrupted=is_cancelled)

    def blocking(self) -> "BlockingConversation":
        """Opens it for code without an event loop, or in a notebook. Raises: as `kode.open`."""
        return BlockingConversation(self)


class BlockingConversation:
    """A conversation whose methods return when they are done; the work is in a thread of its own.
    Ctrl-C, or an interrupted cell of a notebook, interrupts the turn; its progress is on disk."""

    def __init__(self, opening: Opening) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="kode", daemon=True)
        self._thread.start()
        try:
            self.conversation = self._run_coroutine(opening._start())
            """For what has no blocking form: `steer`, `interrupt`, `session_id`."""
        except BaseException:
            self._end_loop()
            raise

    @overload
    def ask(self, text: str, *, files: Files = ()) -> str: ...
    @overload
    def ask(self, text: str, *, schema: type[T], files: Files = ()) -> T: ...
    @overload
    def ask(self, text: str, *, schema: Mapping[str, Any], files: Files = ()) -> Any: ...
    def ask(self, text: str, *, schema: Any = None, files: Files = ()) -> Any:
        """As `Conversation.ask`."""
        return self._run_coroutine(self.conversation.ask(text, schema=schema, files=files))

    def undo(self) -> str:
        """As `Conversation.undo`."""
        return self._run_coroutine(self.conversation.undo())

    def close(self) -> None:
        """As `Conversation.close`, and ends the thread."""
        if self._thread.is_alive():
            self._run_coroutine(self.conversation.close())
            self._end_loop()

    def __enter__(self) -> "BlockingConversation":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run_coroutine(self, work: Coroutine[Any, Any, T]) -> T:
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        finally:
            running.cancel()  # unless it has ended

    def _run_loop(self) -> None:
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):  # what an interruption has cancelled closes
            self._loop.run_until_complete(asyncio.wait([task]))
        self._loop.close()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class Conversation:
    """An open conversation, returned by `kode.open`. It runs one turn at a time; a further one
    waits. Several conversations in one process do not disturb each other."""

    _talk: inner.Conversation

    def __init__(self, on_event: Callable[[Event], None] | None) -> None:
        self._on_event = on_event
        self._hear: Callable[[Event], None] | None = None
        """Gets the events of the running turn; None between turns."""
        self._waiting: list[Event] = []
        """Events in between, for the next turn."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._one_at_a_time = asyncio.Lock()
        self._running: asyncio.Task[TurnEnded] | None = None
        self._steering: list[str] = []
        self._closed = False

    @property
    def session_id(self) -> str | None:
        """The session's id, for `kode.open(resume=...)`; None with `keep_session=False`."""
        return self._talk.session.id

    async def turn(self, text: str, *, files: Files = ()) -> AsyncGenerator[Event, None]:
        """Runs a turn and yields its events (`kode.events`) as they happen; the last is
        `TurnEnded`, with the answer, the figures, and the error of a failed turn. Events since the
        last turn, such as warnings, come first. `files` go with the text: text files, images, PDFs.

        The turn continues while you handle an event. Leaving the loop, by `break`, an exception or
        a cancellation, interrupts it; its progress is on disk.

        Raises: UserError, StorageError if the turn could not start, or a file cannot be sent.
        """
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        running = asyncio.create_task(self._run_turn(text, events.put_nowait, files))
        running.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            yield running.result()
        finally:
            await _interrupt_turn(running)

    @overload
    async def ask(self, text: str, *, files: Files = ()) -> str: ...
    @overload
    async def ask(self, text: str, *, schema: type[T], files: Files = ()) -> T: ...
    @overload
    async def ask(self, text: str, *, schema: Mapping[str, Any], files: Files = ()) -> Any: ...
    async def ask(self, text: str, *, schema: Any = None, files: Files = ()) -> Any:
        """Runs a turn and returns its answer: the text, or with `schema` a value of that type (a
        pydantic model, a dataclass, `list[str]`), or the JSON value that a JSON schema describes.
        An answer that does not fit is requested again, at most twice. Cancelling interrupts the
        turn.

        Raises: TurnFailed if the turn did not succeed; UserError, StorageError if it could not
            start.
        """
        form: Form | None = None
        if isinstance(schema, Mapping):
            form = form_of_schema(dict(schema), "schema")
        elif schema is not None:
            form = form_of_type(schema)

        def keep_notice(event: Event) -> None:
            if isinstance(event, Notice):
                self._waiting.append(event)

        running = asyncio.create_task(self._run_turn(text, keep_notice, files, form))
        try:
            ended = await asyncio.shield(running)
        finally:
            await _interrupt_turn(running)
        if ended.status != "success":
            raise TurnFailed(
                ended.error or "The turn failed.", status=ended.status, partial=ended.result
            )
        return ended.result if form is None else ended.structured

    def steer(self, text: str) -> None:
        """Says something while a turn runs: the model gets it before its next step (`Steered`). If
        it comes too late, it is put before the text of the next turn."""
        self._steering.append(text)

    def interrupt(self) -> None:
        """Ends the running turn with the status `interrupted`; does nothing without one."""
        if self._running is not None:
            self._running.cancel()

    async def undo(self) -> str:
        """Undoes the file changes of the newest turn that has any left, after the one that runs;
        returns a message about it, or that there was nothing to undo. Raises: StorageError."""
        async with self._one_at_a_time:
            return await self._talk.undo()

    async def _run_turn(
        self, text: str, hear: Callable[[Event], None], files: Files, form: Form | None = None
    ) -> TurnEnded:
        async with self._one_at_a_time:
            if self._closed:
                raise UserError(
                    "This conversation is closed. Open it again with resume=session_id."
                )
            self._talk.attach_files(map(str, files))
            self._running = asyncio.current_task()
            text = "\n\n".join((*(part.text for part in self._take_steering()), text))
            waiting, self._waiting, self._hear = self._waiting, [], hear
            for event in waiting:
                hear(event)
            try:
                ended = await self._talk.turn(text, steering=self._take_steering, form=form)
            except asyncio.CancelledError:
                ended = UNBEGUN
            finally:
                self._hear = self._running = None
            self._forward_event(ended)
            return ended

    def _take_steering(self) -> list[Text]:
        texts, self._steering = self._steering, []
        return [Text(text=text) for text in texts]

    async def close(self) -> None:
        """Ends the session: memory keeps what is to be kept, commands end. Only for one that was
        opened by `await`; a block closes its own. Does nothing the second time."""
        await self._close(interrupted=False)

    async def _close(self, *, interrupted: bool) -> None:
        if self._closed:
            return
        self._closed = True
        if self._running is not None:
            await _interrupt_turn(self._running)
        await self._talk.close(interrupted=interrupted)

    def _emit(self, event: Event) -> None:
        """See `kode.events.Emit`. Some events come from threads that work for a turn."""
        if threading.get_ident() != self._thread:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and so are its readers
                self._loop.call_soon_threadsafe(self._emit, event)
        elif not isinstance(event, TurnEnded):  # several turns of the engine are one here
            (self._hear or self._waiting.append)(event)
            self._forward_event(event)

    def _forward_event(self, event: Event) -> None:
        try:
            if self._on_event is not None:
                self._on_event(event)
        except Exception as error:  # a fault in the program's callback must not end the turn
            self._loop.call_exception_handler(
                {"message": "kode: on_event failed", "exception": error}
            )


async def _interrupt_turn(running: "asyncio.Task[TurnEnded]") -> None:
    """Interrupts a running turn, and waits until its progress is on disk."""
    if not running.done():
        running.cancel()
        await asyncio.wait({running})
        if not running.cancelled():
            running.exception()  # retrieves it: nobody else will


def _make_ask(gate: Gate, emit: Emit) -> Ask:
    """Adapts a gate to the questions of a conversation; an exception refuses, with a notice."""

    async def ask(question: Question) -> Answer:
        try:
            is_async = inspect.iscoroutinefunction(gate)
            result = gate(question) if is_async else await asyncio.to_thread(gate, question)
            answer = await result if inspect.isawaitable(result) else result
            if isinstance(answer, Answer):
                return answer
            if isinstance(answer, bool):
                return Answer(choice="once" if answer else "no")
            raise TypeError(f"it gave {answer!r} instead of True, False or an Answer")
        except Exception as error:
            fault = f"The gate failed ({type(error).__name__}: {error}): the call was refused."
            emit(Notice(text=fault, level="error"))
            return Answer(choice="no")

    return ask

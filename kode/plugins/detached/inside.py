"""The prompt of a session in the background: the ordinary one, with a companion.

The companion says what the session does as values (`state.json`), answers a question beside the
keys, and ends the session once it has nothing to do and nobody is there.
"""

import asyncio
import contextlib
import hmac
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kode.plugin import (
    LONG_TURN_S,
    Answer,
    Event,
    KodeError,
    Notifier,
    Opened,
    Question,
    Screen,
    StorageError,
    TurnEnded,
    TurnStarted,
    durable,
    way_of,
)
from kode.plugins.detached import HEARING, holder, places
from kode.plugins.detached.flags import arguments_of, open_with_task, screen_of
from kode.plugins.detached.places import Asked, State

LOOKS_EVERY_S = 0.5
"""How often the companion looks whether there is anything left to do."""

RESULT_CHARS = 2000
"""How much of an answer the state keeps; the session has all of it."""


@dataclass
class _Waiting:
    number: int
    question: Question
    answer: "asyncio.Future[Answer]"


@dataclass
class Companion:
    """What accompanies the prompt of one session."""

    folder: Path
    spec: places.Spec
    """As it is on disk."""
    screen: Screen
    control: socket.socket
    presence: int
    """Says how many terminals are attached; closed, that the holder is gone."""
    state: State
    token: bytes
    watching: int = 0
    asked: int = 0
    waiting: list[_Waiting] = field(default_factory=list)
    """Questions without an answer, the one that is shown first."""
    opened: Opened | None = None
    ended: TurnEnded | None = None
    """How the last task ended: of a goal, after all its turns."""
    alone: bool = False
    """Whether the holder is gone."""
    _beside: list["asyncio.Task[Any]"] = field(default_factory=list)

    def hears(self, opened: Opened) -> "Companion":
        """Begins, once the session is open. Called in the event loop of the prompt."""
        self.opened = opened
        loop = asyncio.get_running_loop()
        loop.add_reader(self.presence, self._counted)
        self._beside = [asyncio.ensure_future(self._serve()), asyncio.ensure_future(self._look())]
        self._says("works")
        return self

    def __call__(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self._says("works")
        elif isinstance(event, TurnEnded):
            with contextlib.suppress(StorageError):
                durable.remove(self.folder / places.PIPED)  # the session has it by now
            known = self.state.cost_usd if self.state.turns else 0.0
            cost = None if known is None or event.cost_usd is None else known + event.cost_usd
            self._says(
                self.state.doing,
                turns=self.state.turns + 1,
                **places.outcome(event),
                result=event.result[:RESULT_CHARS],
                cost_usd=cost,
                files=tuple(dict.fromkeys((*self.state.files, *event.files_changed))),
            )

    def _conclude(self) -> None:
        """Takes in how the last task ended, and notifies of a long one."""
        ended = self.screen.ended
        if ended is None or ended is self.ended:
            return
        self.ended = ended
        self._says(self.state.doing, **places.outcome(ended))
        if ended.duration_ms >= LONG_TURN_S * 1000:
            self._notify(f"{self.spec.title} ended: {ended.status}")

    async def aclose(self) -> None:
        self._conclude()
        for task in self._beside:
            task.cancel()
        asyncio.get_running_loop().remove_reader(self.presence)

    async def ask(self, question: Question) -> Answer:
        """Shows the question to whoever asks for it, for as long as it takes."""
        self.asked += 1
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(self.asked, question, future)
        self.waiting.append(waiting)
        self._says_what_waits()
        self._notify(f"waits for your answer: {question.title} · kode answer {self.spec.id}")
        try:
            return await future
        finally:
            self.waiting.remove(waiting)
            self._says_what_waits()

    def _says_what_waits(self) -> None:
        if not self.waiting:
            self._says("works", question=None)
            return
        first, question = self.waiting[0].number, self.waiting[0].question
        brief = Asked(
            number=first, tool=question.tool, title=question.title, subject=question.subject
        )
        self._says("asks", question=brief)

    def _says(self, doing: places.Doing, **changed: Any) -> None:
        now = {"doing": doing, **changed}
        if self.opened is not None and self.opened.session_id:
            now["session"] = self.opened.session_id
        if doing != self.state.doing:
            now["since"] = time.time()
        state = self.state.model_copy(update=now)
        if state != self.state:
            self.state = state
            # The session matters more than what `kode ps` says of it.
            with contextlib.suppress(StorageError):
                places.write_state(self.folder, state)

    def _counted(self) -> None:
        """Terminals have come or gone, or the holder has."""
        said = os.read(self.presence, 64)
        if said:
            self.watching = int(said[-1:])
            self.screen.watched = self.watching > 0
            return
        asyncio.get_running_loop().remove_reader(self.presence)
        self.alone = True
        self.leave()

    def leave(self) -> None:
        """Ends the prompt in good order."""
        editor: Any = self.screen.editor
        if editor is not None and not editor.state.leaving:
            editor.state.leave()
        elif not self.screen.rich_terminal:
            os.kill(os.getpid(), signal.SIGTERM)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOKS_EVERY_S)
            if self.waiting:
                continue
            if self._is_busy():
                self._says("works")
                continue
            self._conclude()
            self._says("idle")
            if not self.watching:
                self.leave()
                return

    def _is_busy(self) -> bool:
        editor: Any = self.screen.editor
        if editor is None:  # a plain face, or it is ending
            return self.screen.rich_terminal or self.screen.ended is None
        state = editor.state
        running = state.opened is None or state.conversation.commands.running()
        return bool(state.jobs.busy or state.waiting or running)

    async def _serve(self) -> None:
        async with await asyncio.start_unix_server(self._answered, sock=self.control) as server:
            await server.serve_forever()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError):
            if holder.is_own(writer.get_extra_info("socket"), os.getuid()):
                answer = self._answer(json.loads(await reader.readline()))
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        writer.close()

    def _answer(self, request: Any) -> dict[str, Any]:
        """What a request for the question, or an answer to it, brings about."""
        token = request.get("token") if isinstance(request, dict) else ""
        if not hmac.compare_digest(str(token).encode(), self.token):
            return {"fault": "kode does not know who asks."}
        waiting = self.waiting[0] if self.waiting else None
        if waiting is None or waiting.answer.done():
            return {"fault": f"The session {self.spec.id} waits for no answer."}
        match request:
            case {"do": "question"}:
                return {"number": waiting.number, "question": asdict(waiting.question)}
            case {"do": "answer", "number": int(number), "choice": choice, "message": str(message)}:
                if number != waiting.number:
                    return {"fault": "Another question waits by now: look at it first."}
                if choice not in ("once", "no") or (choice == "once" and not can_say_yes(waiting)):
                    return {"fault": "That answer is given at its prompt: `kode attach`."}
                waiting.answer.set_result(Answer(choice=choice, message=message))
                return {"ok": True}
        return {"fault": "kode does not know this request."}

    def _notify(self, text: str) -> None:
        """Notifies the person in the terminal where they started it; those attached have been."""
        if self.watching or not self.spec.tty or self.opened is None:
            return
        setting = self.opened.config.repl.notify
        Notifier(self._to_tty, lambda: float("-inf"), way_of(os.environ), setting).tell(text)

    def _to_tty(self, sequence: str) -> None:
        """Raises: OSError where that terminal is gone, or another person's."""
        flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
        terminal = os.open(self.spec.tty, flags)
        try:
            if os.isatty(terminal) and os.fstat(terminal).st_uid == os.getuid():
                os.write(terminal, sequence.encode())
        finally:
            os.close(terminal)


def can_say_yes(waiting: _Waiting) -> bool:
    """A form has fields, which a yes does not fill in."""
    return waiting.question.tool != "form"


def main(argv: Sequence[str]) -> int:
    """Runs the prompt: FOLDER, and the numbers of the control socket, the presence pipe, the lock
    and the pipe with the task. Returns the exit status. Raises: KodeError."""
    folder, numbers = Path(argv[0]), [int(number) for number in argv[1:5]]
    for number in numbers:
        os.set_inheritable(number, False)
    control, presence, _, source = numbers
    with open(source, "rb") as file:
        task = places.Task.model_validate_json(file.read())
    arguments = arguments_of(task.spec)
    screen = screen_of(arguments, Path(task.spec.cwd))
    companion = Companion(
        folder=folder,
        spec=places.Spec.model_validate_json((folder / places.SPEC).read_bytes()),
        screen=screen,
        control=socket.socket(fileno=control),
        presence=presence,
        state=State(since=time.time()),
        token=(folder / places.TOKEN).read_bytes(),
    )
    companion.control.setblocking(False)
    screen.beside, screen.watched = companion.ask, False
    arguments.screen = screen
    HEARING.append(companion.hears)
    error = ""
    try:
        return open_with_task(arguments, task.spec, task.piped)
    except KodeError as fault:
        error = str(fault)
        raise
    finally:
        if sys.exc_info()[0] is not None and not error:
            error = "kode failed; `kode doctor` names the report."
        last = companion.state
        ended = {"doing": "ended", "question": None, "since": time.time()}
        if error:
            ended |= {"status": "error", "error": error}
        elif screen.ended is None:
            ended |= {"status": "interrupted"}
        places.write_state(folder, last.model_copy(update=ended))

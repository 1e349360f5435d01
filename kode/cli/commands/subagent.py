"""`kode subagent`: runs one task in a process of its own, as `kode run` would; prints JSON lines on
stdout, the result last.

Whatever happens, set-up failures and signals included, the last line is the result.
`kode.subagents.child` connects the process to its parent.

A person waits for its start, so it imports late and collects no garbage until the first request."""

from __future__ import annotations

import argparse
import asyncio
import gc
import math
import os
import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.cli.flags import (
    add_model_flags,
    add_permission_flags,
    config_flags,
    finish_startup,
    working_directory,
)
from kode.cli.parser import Parser
from kode.cli.screen.printer import event_object, flag_value, say
from kode.errors import (
    EXIT_FAILED,
    EXIT_NOT_STARTED,
    ConfigError,
    Interrupted,
    KodeError,
    UserError,
)
from kode.events import (
    EXIT_CODES,
    Emit,
    Event,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolOutput,
    TurnEnded,
    no_emit,
)
from kode.messages import plural
from kode.paths import kode_home
from kode.process import SIGNALS, describe_fault
from kode.values import dataclass, field, replace, validator

if TYPE_CHECKING:
    from kode.config.load import Loaded
    from kode.config.model import Config
    from kode.conversation import Conversation
    from kode.extensions.definitions import AgentDefinition
    from kode.subagents.child import ChildPipes
    from kode.subagents.task import Clock, Kind, Start, Task

PARENT_GONE = "The kode that started it has ended."
PARENT_GONE_S = 1.0
"""How many seconds a child may outlive its parent."""
STOP_GRACE_S = 6.0
"""A child that has not ended this long after being asked to is stuck: it kills itself."""
AFTER_DEADLINE_S = 8.0
"""A turn that has not ended this long after its deadline is stuck."""
POLL_S = 0.25


def main(argv: Sequence[str]) -> int:
    """Runs `kode subagent` with these arguments and returns its exit code. Never raises KodeError:
    the result contains the error."""
    gc.disable()  # the imports create thousands of objects that all stay alive
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until a result can be written
    from kode.subagents.child import ChildPipes

    pipes = ChildPipes(lambda: None, flag_value(argv, "--parent-session"))
    # Created before a signal may need it: pydantic cannot be used in the midst of an import.
    interrupted = pipes.make_failure("Interrupted.", "interrupted")

    def end_early(number: int, frame: object) -> None:
        pipes.write_result(interrupted)
        os._exit(EXIT_CODES[pipes.status or "interrupted"])

    for number in SIGNALS:
        signal.signal(number, end_early)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    status: Status = "error"
    try:
        return asyncio.run(_run(argv, pipes))
    except Interrupted as error:
        text, code, status = str(error), error.exit_code, "interrupted"
    except KodeError as error:  # a failure in the turn itself is in its result
        text, code = str(error), EXIT_NOT_STARTED
    except (Exception, asyncio.CancelledError) as error:
        text, code = describe_fault(error), EXIT_FAILED
    say(text if text.startswith("kode") else f"kode subagent: {text}", sys.stderr)
    if pipes.status is not None:
        return EXIT_CODES[pipes.status]
    pipes.write_result(pipes.make_failure(text, status))
    return code


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line of `kode subagent`. Raises: ConfigError."""
    parser = Parser("kode subagent", "Run one focused task in its own process, as JSON lines.")
    parser.add_flags(
        ("--goal G", "the task"),
        ("--context C", "with --goal: what the subagent needs to know"),
        ("--task FILE", "the task as JSON: goal, context, guidance, ..."),
        ("--memory-snapshot FILE", "a snapshot of memory, as JSON"),
        ("--agent NAME", "use this one of `kode extensions agents`"),
        ("--timeout S", "time limit, in seconds of work (1800)", {"type": "seconds"}),
        ("--max-steps N", "maximum model requests (60)", {"type": "whole"}),
        ("--quiet", "no progress on stderr"),
        ("--parent-session ID", "the session that started it"),
        ("--from-parent", argparse.SUPPRESS),
    )
    add_model_flags(parser)
    parser.add_flags(("--cwd DIR", "work in this directory"))
    add_permission_flags(parser)
    arguments = parser.parse(argv)
    if (arguments.goal is None) == (arguments.task is None):
        raise ConfigError("kode subagent: give --goal or --task, exactly one of them.")
    if arguments.context is not None and arguments.goal is None:
        raise ConfigError("kode subagent: --context needs --goal; a task file has its own.")
    return arguments


async def _run(argv: Sequence[str], pipes: ChildPipes) -> int:
    """Runs the child from its command line to its result. Raises: KodeError."""
    from kode.cli.commands.run import take_turn

    if "--from-parent" not in argv:  # marks its processes, as a parent does for its children
        from kode.tools import processes

        os.environ.update(processes.mark_environment(processes.new_mark()))
    turn = await open_child(argv, pipes)
    try:
        on_signal = partial(turn.stop, "interrupted", "Interrupted.")
        return await take_turn(turn.conversation, turn.run(), turn.conclude, on_signal)
    finally:
        await turn.conversation.close()


async def open_child(argv: Sequence[str], pipes: ChildPipes) -> ChildTurn:
    """Reads the command line and, from a parent, its first message; opens the conversation. Raises:
    KodeError."""
    from kode.conversation import Settings, open_conversation
    from kode.conversation.conversation import Child
    from kode.conversation.extensions import find_agent
    from kode.memory.system import SnapshotMemory
    from kode.subagents.task import Clock, Snapshot, Start, Task, memory_text

    arguments = _parse(argv)
    cwd, start, memory = working_directory(arguments), None, ""
    if arguments.task is not None:
        task = _read_file(Task, "--task", cwd, arguments.task)
    elif arguments.goal.strip():
        task = Task(goal=arguments.goal, context=arguments.context)
    else:
        raise ConfigError("kode subagent: --goal is empty. Say what to do.")
    if arguments.memory_snapshot is not None:
        snapshot = _read_file(Snapshot, "--memory-snapshot", cwd, arguments.memory_snapshot)
        memory = memory_text(snapshot.sections)
    if arguments.from_parent:
        pipes.folder = (cwd / arguments.task).parent
        # Not `sys.stdin`: a thread that reads that when Python ends is a fatal error.
        pipes.stdin = os.fdopen(0, "rb", closefd=False)
        try:
            start = Start.model_validate_json(pipes.stdin.readline())
        except ValueError:
            raise Interrupted(PARENT_GONE) from None
        memory = start.memory
    trusted = start is not None and start.trust_project
    name = arguments.agent or task.agent
    definition = find_agent(name, cwd, trust_project=trusted) if name else None
    loaded = _load_settings(arguments, cwd, task, start, definition)
    timeout_s = arguments.timeout or loaded.config.subagent.timeout_s
    clock = Clock(timeout_s, (start and start.ends_at) or math.inf)
    turn = ChildTurn(pipes, task, clock, timeout_s)
    pipes.on_gone = partial(turn.stop, "interrupted", PARENT_GONE, PARENT_GONE_S)
    if start is not None:
        pipes.listen()
    settings = Settings(
        loaded,
        emit=turn.make_emit(is_quiet=arguments.quiet),
        ask=pipes.ask if start is not None and start.may_ask else None,
        keep_session=False,
        trust_project=trusted,
        memory=SnapshotMemory(memory),
        tools=tuple(map(pipes.make_parent_tool, start.tools)) if start is not None else (),
        child=Child(
            agent_type=name or "general-purpose",
            definition=definition,
            folder=pipes.folder,
            parent_session=arguments.parent_session,
            start=start,
        ),
    )
    turn.conversation = pipes.conversation = await open_conversation(settings, cwd=cwd)
    return turn


def _load_settings(
    arguments: argparse.Namespace,
    cwd: Path,
    task: Task,
    start: Start | None,
    definition: AgentDefinition | None,
) -> Loaded:
    """Returns a child's settings: its parent's or this directory's, within a child's limits.

    A child never gets a wider permission mode than its parent. Without a parent, flags take
    precedence over the task file, and that over the configuration. Raises: ConfigError.
    """
    from kode.config.load import STRICTNESS, Loaded, load_config
    from kode.config.model import Config
    from kode.prompts import template

    if start is not None:
        loaded = Loaded(config=validator(Config).validate_python(start.config), origins={})
    else:
        fields = {"model": task.model, "permissions.mode": task.permission_mode}
        flags = {key: value for key, value in fields.items() if value is not None}
        flags |= config_flags(arguments)
        loaded = load_config(kode_home(), cwd, environ=os.environ, flags=flags)
    config, limits = loaded.config, loaded.config.subagent
    wanted = [config.permissions.mode, task.permission_mode if start is not None else None]
    effort, model = arguments.effort or task.effort, task.model if start is not None else None
    if definition is not None:
        wanted.append(definition.mode)
        effort, model = effort or definition.effort, _model_of(definition, config) or model
    mode: Any = max(filter(None, wanted), key=STRICTNESS.index)
    changes: dict[str, Any] = {
        "model": model or config.model,
        "effort": effort or config.effort,
        "system": template("subagent"),
        "append_system": definition.body if definition is not None else "",
        "small_model": None,
        "timeout_s": None,
        "max_steps": arguments.max_steps or limits.max_steps,
        "permissions": replace(config.permissions, mode=mode),
        "subagent": replace(limits, max_depth=max(0, limits.max_depth - 1)),
        "memory": replace(config.memory, enabled=False),
    }
    return replace(loaded, config=replace(config, **changes))


def _model_of(definition: AgentDefinition, config: Config) -> str | None:
    """Returns the model of a definition if the provider in use has it, else None: a name like
    `opus` may be another agent's, and then the session's own model is better than none."""
    from kode.config.choice import resolve_model, resolve_provider
    from kode.providers.models import model_info_of

    if not definition.model:
        return None
    choice = resolve_provider(config, os.environ)
    provider, model = resolve_model(config, os.environ, choice.row, definition.model)
    return model if provider == choice.name and model_info_of(model).known else None


@dataclass
class ChildTurn:
    """The one turn of a child, with its limits and what ends it early. A timer in its own thread
    kills the process if a requested end does not happen: a stuck loop cannot notice that."""

    pipes: ChildPipes
    task: Task
    clock: Clock
    timeout_s: float
    conversation: Conversation = field(init=False)
    status: Status | None = None
    """Why the turn was stopped; None if it was not."""
    error: str = ""
    request: asyncio.Future[Any] | None = None
    """The turn, which is cancelled to stop it."""

    def make_emit(self, *, is_quiet: bool) -> Emit:
        """Makes an `Emit` that writes events as lines on stdout, except streamed parts, and shows
        progress on stderr unless `is_quiet`."""
        show: Emit = no_emit
        if not is_quiet:
            from kode.cli.screen.render import ProgressRenderer
            from kode.cli.screen.screen import open_screen

            show = ProgressRenderer(open_screen(stream=sys.stderr)).emit

        def emit(event: Event) -> None:
            show(event)
            self.clock.note_event(event.type)
            if not isinstance(event, TextDelta | ThinkingDelta | ToolOutput | TurnEnded):
                self.pipes.send(event_object(event))
                self.pipes.report()

        return emit

    def stop(self, status: Status, error: str, within_s: float = STOP_GRACE_S) -> None:
        """Cancels the turn; the first reason counts. If that fails, kills the process."""
        self.end_within(within_s)
        if self.status is None:
            self.status, self.error = status, error
        if self.request is not None:
            self.request.cancel()

    def end_within(self, seconds: float) -> None:
        """Kills this process tree if it still runs after `seconds`; the shortest limit counts."""
        timer = threading.Timer(seconds, self._kill_tree)
        timer.daemon = True
        timer.start()

    def _kill_tree(self) -> None:
        from kode.tools import processes

        status, error = self.status or "interrupted", self.error or "Interrupted."
        self.pipes.write_result(self.pipes.make_failure(f"{error} It did not end in time.", status))
        # The last mark is our own; the ones before belong to our parents.
        if mark := os.environ.get(processes.MARK, "").rpartition(":")[2]:
            processes.ProcessTree(mark).kill()
        os._exit(EXIT_CODES[self.pipes.status or status])

    async def run(self) -> TurnEnded:
        """Runs the turn to its end. The result of an unfinished turn summarizes its progress."""
        from kode.providers import warm_up
        from kode.session.entries import MessageEntry
        from kode.subagents.child import partial_summary, request_text

        conversation = self.conversation
        # Opened before the turn can be cancelled, so that the turn records the task.
        await conversation.start()
        warm_up(conversation.agent.provider)
        finish_startup()
        max_steps, begins_at = conversation.config.max_steps, len(conversation.session.entries)
        text = request_text(self.task, max_steps, self.timeout_s)
        self.request = asyncio.ensure_future(conversation.turn(text))
        if self.status is not None:
            self.request.cancel()
        timing = asyncio.create_task(self._end_in_time())
        try:
            ended: TurnEnded = await self.request
        except asyncio.CancelledError:  # before the turn itself began
            ended = TurnEnded(status="interrupted", error="Interrupted.")
        finally:
            timing.cancel()
        if ended.is_finished:
            return ended
        if ended.status == "interrupted" and self.status is not None:
            ended = replace(ended, status=self.status, error=self.error)
        elif ended.status == "error" and ended.steps >= max_steps:
            limit = f"Ended by the limit of {plural(max_steps, 'step')} (max_steps)."
            ended = replace(ended, error=limit)
        entries = conversation.session.entries[begins_at:]  # without what a fork began with
        messages = [entry for entry in entries if isinstance(entry, MessageEntry)]
        ended = replace(ended, result=partial_summary(ended, messages))
        self.conclude(ended)  # before background commands are waited for
        return ended

    async def _end_in_time(self) -> None:
        clock = self.clock
        while not clock.is_over(waits=self.pipes.open_questions > 0):
            await asyncio.sleep(min(max(clock.left_s, 0.01), POLL_S))
        error = "Ended with the time of the turn that started it."
        if clock.left_s <= 0:
            error = f"Ended by the limit of {self.timeout_s:g} s (timeout_s)."
        self.stop("timeout", error, AFTER_DEADLINE_S)

    def conclude(self, ended: TurnEnded) -> None:
        """Writes the result; the process then has `STOP_GRACE_S` to end."""
        from kode.subagents.task import Result

        self.end_within(STOP_GRACE_S)
        conversation = self.conversation
        usage = conversation.agent.spend.usage
        result = {
            **conversation.result_object(ended),
            "summary": ended.result.strip(),
            "tokens_used": usage.input_tokens + usage.output_tokens,
            "parent_session": self.pipes.parent_session,
            "untrusted": bool(conversation.session.tainted_by),
        }
        self.pipes.report()
        self.pipes.write_result(Result.model_validate(result))


def _read_file(kind: type[Kind], flag: str, cwd: Path, name: str) -> Kind:
    """Reads and parses the file that a flag names. Raises: UserError."""
    from kode.subagents.task import MAX_FILE_BYTES, parse_file_content

    try:
        with (cwd / name).open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UserError(f"{flag} {name}: {error.strerror}. Name a file that can be read.") from None
    return parse_file_content(kind, data, f"{flag} {name}")

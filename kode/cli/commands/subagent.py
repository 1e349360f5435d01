"""`kode subagent`: runs one focused task in a separate process; JSON lines on stdout, the result
last.

Whatever happens, including set-up failures and signals, the last line is the result.
`kode.subagents.child` makes the process a child.

A person waits for its start, so it imports late and collects no garbage until the first request."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import math
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from kode.cli.flags import add_model_flags, add_permission_flags, config_flags, working_directory
from kode.cli.parser import Parser
from kode.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_NOT_STARTED,
    ConfigError,
    Interrupted,
    KodeError,
    UserError,
)
from kode.plain_text import clean

if TYPE_CHECKING:
    from kode.config.load import Loaded
    from kode.config.model import Config
    from kode.conversation import Conversation
    from kode.events import Emit, Event, Status, TurnEnded
    from kode.extensions.agents import AgentDefinition
    from kode.subagents.child import ChildOutput, ParentLink, Stop
    from kode.subagents.task import Clock, Result, Start, Task


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The input of a child."""

    arguments: argparse.Namespace
    cwd: Path
    task: Task
    memory: str
    """The memory section of the system prompt; "" for none."""
    start: Start | None = None
    """What the parent has said first; None without a parent."""
    stdin: BinaryIO | None = None
    """Where the parent says more."""


async def child_conversation(setting: Setting, link: ParentLink | None, emit: Emit) -> Conversation:
    """The child's agent with its session; memory is a snapshot. Raises: UserError."""
    from kode.conversation import Settings, open_conversation
    from kode.conversation.settings import Child
    from kode.memory.system import SnapshotMemory

    arguments, start = setting.arguments, setting.start
    definition = _definition(setting)
    settings = Settings(
        _settings(setting, definition),
        emit=emit,
        ask=link.ask if link is not None and start is not None and start.may_ask else None,
        keep_session=False,
        trust_project=start is not None and start.trust_project,
        memory=SnapshotMemory(setting.memory),
        tools=tuple(map(link.use_tool, start.tools)) if start and link else (),
        child=Child(
            agent_type=setting.task.agent or "general-purpose",
            definition=definition,
            folder=(setting.cwd / arguments.task).parent if start is not None else None,
            parent_session=arguments.parent_session,
            start=start,
        ),
    )
    conversation = await open_conversation(settings, cwd=setting.cwd)

    def report_rest_of_tree() -> None:
        if conversation.delegation is not None:
            conversation.delegation.report_rest_of_tree()

    if link is not None:
        link.agent, link.session = conversation.agent, conversation.session
        link.on_rest_of_tree = report_rest_of_tree
    return conversation


def _definition(setting: Setting) -> AgentDefinition | None:
    """The definition that the task names. Raises: UserError if it is missing or unapproved."""
    from kode.conversation.extensions import find_agent

    name = setting.task.agent
    trusted = setting.start is not None and setting.start.trust_project
    return find_agent(name, setting.cwd, trust_project=trusted) if name else None


def _settings(setting: Setting, definition: AgentDefinition | None) -> Loaded:
    """The settings of a child: its parent's, or those of this directory, within a child's limits.

    A child never gets a wider permission mode than its parent. Without a parent the flag takes
    precedence over the task file, and that over the configuration.
    """
    from kode.config.load import Loaded, load_config
    from kode.config.model import Config
    from kode.paths import home
    from kode.prompts import template

    arguments, task, start = setting.arguments, setting.task, setting.start
    if start is not None:
        loaded = Loaded(config=Config.model_validate(start.config), origins={})
        limit = loaded.config.permissions.mode
        mode = _narrower(task.permission_mode or limit, limit)
    else:
        fields = {"model": task.model, "permissions.mode": task.permission_mode}
        flags = {key: value for key, value in fields.items() if value is not None}
        flags |= config_flags(arguments)
        loaded = load_config(home(), setting.cwd, environ=os.environ, flags=flags)
        mode = loaded.config.permissions.mode
    config = loaded.config
    limits = config.subagent
    if definition is not None and definition.mode is not None:
        mode = _narrower(definition.mode, mode)
    effort = arguments.effort or task.effort or (definition.effort if definition else None)
    config = config.model_copy(
        update={
            "model": (task.model if start is not None else None) or config.model,
            "effort": effort or config.effort,
            "system": template("subagent"),
            "append_system": definition.prompt if definition is not None else "",
            "small_model": None,
            "timeout_s": None,
            "max_steps": arguments.max_steps or limits.max_steps,
            "permissions": config.permissions.model_copy(update={"mode": mode}),
            "subagent": limits.model_copy(update={"max_depth": max(0, limits.max_depth - 1)}),
            "memory": config.memory.model_copy(update={"enabled": False}),
        }
    )
    if definition is not None and definition.model:
        config = config.model_copy(update={"model": _model_of(definition, config)})
    return replace(loaded, config=config)


def _model_of(definition: AgentDefinition, config: Config) -> str | None:
    """The model of a definition, if the provider in use has it: names like `opus` are another
    agent's, and the session's own model is better than none."""
    from kode.config.choice import resolve_model, resolve_provider
    from kode.providers.models import info_of
    from kode.registry import owner_of

    choice = resolve_provider(config, os.environ)
    provider, model = resolve_model(config, os.environ, choice.row, definition.model)
    is_of_another = choice.base_url is None and choice.row.models and owner_of(model) != choice.row
    if provider != choice.name or is_of_another or not info_of(model).known:
        return config.model
    return model


def _narrower(wanted: str, limit: str) -> str:
    from kode.config.load import STRICTNESS

    return max(wanted, limit, key=STRICTNESS.index)


LAST_WORDS = (
    "[{limit} No tool runs any more. Report now, from what you have: what you found and changed, "
    "what is left open, and what you would do next.]"
)
PARENT_GONE = "The kode that started it has ended."
PARENT_GONE_S = 1.0
"""How long a child may outlive its parent."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AFTER_DEADLINE_S = 8.0
"""A turn that has not ended this long after its deadline is stuck."""


def main(argv: Sequence[str]) -> int:
    """Runs `kode subagent` with these arguments and returns its exit code. Never raises KodeError:
    the result contains the error."""
    gc.disable()  # the imports create thousands of objects that all stay alive
    arrived: list[int] = []
    for number in SIGNALS:
        signal.signal(number, lambda number, frame: arrived.append(number))
    from kode.events import EXIT_CODES
    from kode.subagents.child import ChildOutput

    output = ChildOutput()
    parent = _parent_session(argv)
    # Created before a signal may need it: pydantic cannot be used in the midst of an import.
    interrupted = _failure("Interrupted.", parent, "interrupted")

    def end_early(number: int, frame: object) -> None:
        output.conclude(interrupted)
        os._exit(EXIT_INTERRUPTED)

    for number in SIGNALS:
        signal.signal(number, end_early)
    if arrived:
        end_early(arrived[0], None)
    try:
        return asyncio.run(_run(_setting(argv, output), output))
    except Interrupted as error:
        output.conclude(_failure(str(error), parent, "interrupted"))
        return EXIT_INTERRUPTED
    except KodeError as error:  # a failure in the turn itself is in its result
        text, code = str(error), EXIT_NOT_STARTED
    except SystemExit:  # --help
        raise
    except BaseException as error:
        from kode.process_end import describe_fault

        text = describe_fault(error)
        code = EXIT_FAILED
    text = clean(text)
    print(text if text.startswith("kode subagent") else f"kode subagent: {text}", file=sys.stderr)
    if output.over:
        return EXIT_CODES[output.status]
    output.conclude(_failure(text, parent))
    return code


def _setting(argv: Sequence[str], output: ChildOutput) -> Setting:
    """Reads the command line and the files it names. Raises: UserError."""
    from kode.cli.commands.subagent import Setting
    from kode.subagents.task import Snapshot, Start, Task, parse_file

    arguments = parse(argv)
    cwd = working_directory(arguments)
    if arguments.task is None:
        if not arguments.goal.strip():
            raise ConfigError("kode subagent: --goal is empty. Say what to do.")
        task = Task(goal=arguments.goal, context=arguments.context, agent=arguments.agent)
    else:
        path = cwd / arguments.task
        task = parse_file(Task, _read(path, "--task"), f"The task file {arguments.task}")
        if arguments.agent is not None:
            task = task.model_copy(update={"agent": arguments.agent})
        if arguments.from_parent:
            output.result_file = path.parent / "result.json"
    if not arguments.from_parent:  # marks what it starts, as a parent does for its children
        from kode.tools import processes

        os.environ.update(processes.mark_environment(processes.new_mark()))
    memory, start, stdin = "", None, None
    if arguments.memory_snapshot is not None:
        data = _read(cwd / arguments.memory_snapshot, "--memory-snapshot")
        name = f"The memory snapshot {arguments.memory_snapshot}"
        memory = parse_file(Snapshot, data, name).text()
    if arguments.from_parent:
        # Not `sys.stdin`: a thread that reads that when Python ends is a fatal error.
        stdin = os.fdopen(0, "rb", closefd=False)
        try:
            start = Start.model_validate_json(stdin.readline())
        except ValueError:
            raise Interrupted(PARENT_GONE) from None
    return Setting(arguments=arguments, cwd=cwd, task=task, memory=memory, start=start, stdin=stdin)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line of `kode subagent`. Raises: ConfigError."""
    parser = Parser(
        "kode subagent", "Run one focused task in its own process; JSON lines on stdout."
    )
    add = parser.add_argument
    add("--goal", metavar="G", help="the task")
    add("--context", metavar="C", help="with --goal: what the subagent needs to know")
    add("--task", metavar="FILE", help="the task as JSON: goal, context, guidance, ...")
    add("--memory-snapshot", metavar="FILE", help="a snapshot of memory, as JSON")
    add("--agent", metavar="NAME", help="use this one of `kode extensions agents`")
    add("--timeout", metavar="S", type="seconds", help="time limit, in seconds of work (1800)")
    add("--max-steps", metavar="N", type="whole", help="maximum model requests (60)")
    add("--quiet", action="store_true", help="no progress on stderr")
    add("--parent-session", metavar="ID", help="the session that started it")
    add("--from-parent", action="store_true", help=argparse.SUPPRESS)
    add_model_flags(parser)
    add("--cwd", metavar="DIR", help="work in this directory")
    add_permission_flags(parser)
    arguments = parser.parse(argv)
    if (arguments.goal is None) == (arguments.task is None):
        raise ConfigError("kode subagent: give --goal or --task, exactly one of them.")
    if arguments.from_parent and (arguments.task is None or not _is_pipe(sys.stdin)):
        raise ConfigError("kode subagent: --from-parent is for kode's own use. Leave it out.")
    if arguments.context is not None and arguments.goal is None:
        raise ConfigError(
            "kode subagent: --context needs --goal; with --task, put it into the task file."
        )
    return arguments


async def _run(setting: Setting, output: ChildOutput) -> int:
    """Runs the child from its command line to its result."""
    from kode.events import EXIT_CODES
    from kode.subagents.child import ParentLink, Stop
    from kode.subagents.task import Clock

    stop = Stop()
    stop.on_stuck = lambda: _give_up(output, stop, setting.arguments.parent_session)
    child = _Child(setting, output, stop, Clock(math.inf))
    with _signals(asyncio.get_running_loop(), lambda: stop("interrupted", "Interrupted.")):
        if setting.stdin is not None:
            child.link = ParentLink(
                output, on_gone=lambda: stop("interrupted", PARENT_GONE, PARENT_GONE_S)
            )
            child.link.listen(setting.stdin)
        return EXIT_CODES[await child.run()]


@dataclass
class _Child:
    """One child, with what ends it and what connects it to its parent."""

    setting: Setting
    output: ChildOutput
    stop: Stop
    clock: Clock
    link: ParentLink | None = None
    background: list[asyncio.Task[None]] = field(default_factory=list)

    async def run(self) -> Status:
        """Opens the conversation, runs the one turn, and prints the result. Raises: UserError."""
        from kode.cli.commands.subagent import child_conversation
        from kode.subagents.child import STOP_GRACE_S

        arguments, start, clock = self.setting.arguments, self.setting.start, self.clock
        conversation = await child_conversation(self.setting, self.link, self._make_emit())
        clock.left_s = arguments.timeout or conversation.config.subagent.timeout_s
        if start is not None:
            clock.counted_at, clock.ends_at = start.spawned_at, start.ends_at or math.inf
        try:
            ended = await self._take_turn(conversation, clock.left_s)
            last = ""
            if limit := self._limit_reached(conversation, ended):
                ended = replace(ended, error=limit)
                last = await self._last_words(conversation, limit)
            self.stop.end_within(STOP_GRACE_S)
            result = _result(conversation, ended, arguments.parent_session, last)
            if self.link is not None:
                self.link.report()
            self.output.conclude(result)
        finally:
            for task in self.background:
                task.cancel()
            await conversation.close()
        return ended.status

    async def _take_turn(self, conversation: Conversation, timeout_s: float) -> TurnEnded:
        """Runs the one turn, ended by its clock, a signal or the loss of the parent."""
        from kode.events import FINISHED, TurnEnded
        from kode.providers import warm_up
        from kode.subagents.child import expire, request_text

        link, stop = self.link, self.stop

        async def end_in_time() -> None:
            await expire(self.clock, lambda: link is not None and bool(link.open_questions))
            if self.clock.left_s <= 0:
                error = f"Ended by the limit of {timeout_s:g} s (timeout_s)."
            else:
                error = "Ended with the time of the turn that started it."
            stop("timeout", error, AFTER_DEADLINE_S)

        # Opened before the turn can be cancelled, so that the turn records the task.
        await conversation.start()
        warm_up(conversation.agent.provider)
        gc.freeze()
        gc.enable()
        text = request_text(self.setting.task, conversation.config.max_steps, timeout_s)
        steering = tuple if link is None else link.take_messages
        stop.task = turn = asyncio.ensure_future(conversation.turn(text, steering=steering))
        if stop.status is not None:
            stop(stop.status, stop.error)
        self.background.append(asyncio.create_task(end_in_time()))
        try:
            ended = await turn
        except asyncio.CancelledError:  # before the turn itself began
            return TurnEnded(
                status=stop.status or "interrupted", error=stop.error or "Interrupted."
            )
        if ended.status in FINISHED:
            ended = await conversation.end_jobs(ended)
        if ended.status == "interrupted" and stop.status is not None:
            return replace(ended, status=stop.status, error=stop.error)
        return ended

    def _limit_reached(self, conversation: Conversation, ended: TurnEnded) -> str:
        """The limit that has ended the turn, in a sentence; "" if none has, or the end is
        urgent."""
        from kode.messages import plural

        if self.stop.is_urgent:
            return ""
        if ended.status == "timeout":
            return self.stop.error
        max_steps = conversation.config.max_steps
        is_over = ended.status == "error" and ended.steps >= max_steps
        return f"Ended by the limit of {plural(max_steps, 'step')} (max_steps)." if is_over else ""

    async def _last_words(self, conversation: Conversation, limit: str) -> str:
        """What the model reports after a limit has ended its turn; "" if it does not, or its
        parent's turn leaves no time."""
        from kode.engine.turn import last_words

        self.stop.allow_more()
        question = LAST_WORDS.format(limit=limit)
        asked = last_words(
            conversation.agent, conversation.context, question, conversation.settings.emit
        )
        self.stop.task = asyncio.ensure_future(asked)
        left_s = max(0.0, self.clock.ends_at - time.monotonic())
        try:
            async with asyncio.timeout(left_s if math.isfinite(left_s) else None):
                return str(await self.stop.task)
        except (asyncio.CancelledError, TimeoutError, KodeError):
            return ""

    def _make_emit(self) -> Emit:
        """Prints events as lines on stdout; for people also as progress on stderr, unless
        --quiet."""
        from kode.events import TextDelta, ThinkingDelta, silent
        from kode.subagents.child import event_line
        from kode.subagents.task import line_of

        show: Emit = silent
        has_begun = False
        if not self.setting.arguments.quiet:
            from kode.cli.screen.render import ProgressRenderer
            from kode.cli.screen.screen import open_screen

            show = ProgressRenderer(open_screen(stream=sys.stderr)).emit

        def emit(event: Event) -> None:
            nonlocal has_begun
            show(event)
            self.clock.note_event(event.type)
            line = event_line(event)
            if not has_begun and isinstance(event, TextDelta | ThinkingDelta):
                has_begun, line = True, {"type": "event", "event": {"type": "reply_begun"}}
            if line is None:
                return
            try:
                self.output.write(line_of(line))
            except OSError:
                self.stop("interrupted", "Its output is no longer read.")
            if self.link is not None:
                self.link.report()

        return emit


def _result(
    conversation: Conversation, ended: TurnEnded, parent: str | None, last_words: str
) -> Result:
    from kode.events import FINISHED
    from kode.paths import relative_path
    from kode.session.entries import MessageEntry, is_turn
    from kode.subagents.child import partial_summary
    from kode.subagents.task import Result

    files = tuple(relative_path(path, conversation.place.cwd) for path in ended.files_changed)
    usage, messages = conversation.agent.spend.usage, conversation.session.messages
    turns = [n for n, m in enumerate(messages) if isinstance(m, MessageEntry) and is_turn(m)]
    own = messages[turns[-1] if turns else 0 :]  # without what a fork began with
    summary = ended.result.strip()
    if ended.status not in FINISHED:
        summary = last_words or partial_summary(ended, own, files)
    return Result(
        status=ended.status,
        summary=summary,
        error=ended.error,
        files_changed=files,
        refused=ended.refused,
        checks=ended.checks,
        checked=ended.checked,
        tokens_used=usage.input_tokens + usage.output_tokens,
        steps=ended.steps,
        parent_session=parent,
        untrusted=conversation.session.tainted,
    )


def _give_up(output: ChildOutput, stop: Stop, parent: str | None) -> None:
    """Kills a process that does not end by itself; called in another thread."""
    from kode.events import EXIT_CODES
    from kode.tools import processes

    status = stop.status or "interrupted"
    error = f"{stop.error or 'Interrupted.'} It did not end in time."
    output.conclude(_failure(error, parent, status))
    # The last mark is our own; the ones before belong to our parents.
    mark = os.environ.get(processes.MARK, "").rpartition(":")[2]
    if mark:
        processes.ProcessTree(mark).kill()
    os._exit(EXIT_CODES[output.status])


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, interrupted: Callable[[], None]) -> Iterator[None]:
    for number in SIGNALS:
        loop.add_signal_handler(number, interrupted)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            # Signals from now on are too late to matter: the result is printed.
            signal.signal(number, signal.SIG_IGN)


def _is_pipe(stream: TextIO | None) -> bool:
    try:
        mode = os.fstat(stream.fileno()).st_mode if stream is not None else 0
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _read(path: Path, flag: str) -> bytes:
    from kode.subagents.task import MAX_FILE_BYTES

    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UserError(f"{flag} {path}: {error.strerror}. Name a file that can be read.") from None


def _failure(error: str, parent: str | None, status: Status = "error") -> Result:
    from kode.subagents.task import Result

    return Result(status=status, summary="", error=error, parent_session=parent)


def _parent_session(argv: Sequence[str]) -> str | None:
    """Read before the command line is parsed, so that even a wrong flag is reported with it."""
    for index, word in enumerate(argv):
        if word.startswith("--parent-session="):
            return word.partition("=")[2]
        if word == "--parent-session" and index + 1 < len(argv):
            return argv[index + 1]
    return None

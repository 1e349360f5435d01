"""Hooks of a conversation: how one runs, and when a conversation calls them.

`kode.extensions.hook_moments` handles those around calls and questions.
"""

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kode.engine.agent import Agent
from kode.engine.command import Command, about, settle_changes
from kode.errors import KodeError, SandboxUnknownError, StorageError, UserError
from kode.events import Emit, Notice, TurnEnded
from kode.extensions import trust
from kode.extensions.hook_moments import CHANGED, Hooks, RunHook
from kode.extensions.hook_protocol import MODES, goes_beside, sample_line
from kode.extensions.hooks import CHANGES_COUNT, Event, Hook, is_current
from kode.extensions.places import surroundings
from kode.extensions.session import Extensions
from kode.sandbox.reach import NO_GRANTS, Grants
from kode.session.entries import TaintEntry
from kode.tool import Action, FileChange, ToolContext
from kode.tools.program import ProgramRun, run_program
from kode.tools.shell import shell
from kode.workplace import Workplace, below_any

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation, RunTurn
    from kode.sandbox.attempt import Attempt
    from kode.sandbox.sandbox import Sandbox

SHELL = ("/bin/bash", "-c")
Settle = Callable[
    ["Attempt", Callable[[FileChange], bool], Mapping[str, str]], Awaitable[tuple[str, ...]]
]
"""Settles the changes of an attempt: see `_settle`."""
_WITH_VARIABLES = """
CLAUDE_ENV_FILE=$(mktemp) || exit; export CLAUDE_ENV_FILE
/bin/bash -c "$1"; status=$?
printf '%s' "$2"; command -p env -0; printf '%s' "$2"
(set -a; . "$CLAUDE_ENV_FILE" >/dev/null 2>&1; command -p env -0)
rm -f -- "$CLAUDE_ENV_FILE"; exit $status
"""
"""Runs a hook, then prints the variables without and with those that it wrote to its file: each
`NAME=VALUE` with a NUL, after a mark."""
_VARIABLE = re.compile(r"([^=\0]+)=([^\0]*)")
_OF_THE_SHELL = frozenset(("_", "SHLVL", "PWD", "OLDPWD", "CLAUDE_ENV_FILE"))

LEAST_S = 0.1  # of one, even if others have used it up: many only write a line

NOT_DONE = "A hook says the work is not done."
"""The message of a turn that a hook starts."""
MAX_CONTINUATIONS = 5
"""Hooks may continue a turn this often; then it ends, whatever they say."""


def make_hooks(conversation: "Conversation", hooks: tuple[Hook, ...]) -> Hooks:
    """These hooks, as they run in the session."""
    place, session = conversation.place, conversation.session
    where = surroundings(place.cwd, place.home, place.user_home)

    def common() -> dict[str, str]:
        return {
            "session_id": session.id or "",
            "transcript_path": str(session.path or ""),
            "cwd": str(place.cwd),
            "permission_mode": MODES[conversation.gate.mode],
        }

    return Hooks(
        hooks=hooks,
        cwd=place.cwd,
        common=common,
        record=session.append,
        emit=conversation.settings.emit,
        secrets=lambda: conversation.agent.secrets,
        run=_runner(conversation, common),
        note=partial(_note, conversation),
        is_free=lambda hook: hook.item.scope == "home" or granted(hook, place).outside,
        is_current=lambda hook: (
            is_current(hook, where) and not trust.is_held(hook.item, where.home, where.project)
        ),
    )


def _runner(conversation: "Conversation", common: Callable[[], Mapping[str, Any]]) -> RunHook:
    """Returns how a session's hooks run: in the sandbox if there is one, with named variables only.
    A hook that must not run there is the person's own, and says so. `common` are the fields of
    every hook's input."""
    settings, lock = conversation.settings, asyncio.Lock()

    async def run(hook: Hook, stdin: bytes, leave: Callable[[], None]) -> ProgramRun:
        agent = conversation.agent
        if conversation.end_by is not None:
            left_s = max(LEAST_S, conversation.end_by - time.monotonic())
            hook = replace(hook, timeout_s=min(hook.timeout_s, left_s))
        if hook.pins_loads and not settings.trust_project:
            async with lock:
                try:
                    line = sample_line(hook.event, hook.matcher, common(), agent.place.cwd)
                    if not await _is_as_approved(hook, agent, line, conversation.extensions):
                        return ProgramRun(exit_code=None, begun=False, fault=CHANGED)
                except KodeError as error:
                    return ProgramRun(exit_code=None, begun=False, fault=f"was not run ({error})")
        # Like a command, it may read, repeat and rewrite what a marked session left in the project.
        if source := await asyncio.to_thread(agent.marks.find_source, None):
            conversation.session.append(TaintEntry(source=source))
        settle = None
        if hook.event in CHANGES_COUNT and not hook.is_async:
            settle = partial(_settle, agent, hook, settings.emit)
        return await run_hook(
            hook,
            stdin,
            agent.place,
            agent.sandbox,
            settle,
            leave,
            required=conversation.config.sandbox.enabled is True,
            grants=granted(hook, agent.place),
        )

    return run


async def _is_as_approved(
    hook: Hook, agent: Agent, sample: bytes, extensions: Extensions | None
) -> bool:
    """Whether a hook, and what it loads, is as a person approved it; asks if there is a person.

    Raises: ConfigError if it loads too much; StorageError, BusyError.
    """
    place, sandbox = agent.place, agent.sandbox
    while True:
        approvals = await asyncio.to_thread(trust.load, place.home, place.project)
        approval = approvals.find(hook.item)
        if approval is None:  # revoked meanwhile
            return False
        if trust.state(hook.item, approvals) == "trusted":
            if approval.is_seen or not sandbox or await asyncio.to_thread(sandbox.kind) == "none":
                return True
            ran = await run_hook(hook, sample, place, sandbox)
            if ran.opened is None:
                return True
            # What it writes where it may is its own: it would count as changed after each run.
            writes = granted(hook, place).write
            changed = {path for path in ran.dropped if below_any(path, writes)}
            opened = [path for path in ran.opened.project if path not in changed]
            approvals = await asyncio.to_thread(
                trust.pin_loads, place.home, place.project, hook.item, opened
            )
            if trust.state(hook.item, approvals) == "trusted":
                return True
        if extensions is None or not await extensions.may_change(hook.item):
            return False


async def run_hook(
    hook: Hook,
    stdin: bytes,
    place: Workplace,
    sandbox: "Sandbox | None",
    settle: "Settle | None" = None,
    leave: Callable[[], None] = lambda: None,
    *,
    required: bool = False,
    grants: Grants = NO_GRANTS,
) -> ProgramRun:
    """Runs a hook; of its changes, those in the folders of `grants` are kept, and `settle` decides
    about the others. `leave` is called once it says that nobody is to wait for it: `settle` does
    not count from then. Without a sandbox, a project's hook runs only if a person approved just
    that. Raises nothing but CancelledError."""
    try:
        outside = (
            grants.outside or sandbox is None or not await asyncio.to_thread(sandbox.is_available)
        )
    except SandboxUnknownError as error:
        return ProgramRun(exit_code=None, begun=False, fault=f"was not run. {error}")
    if outside and not grants.outside and hook.item.scope in trust.FOREIGN:
        approvals = trust.load(place.home, place.project)
        if required or trust.state(trust.outside(hook.item), approvals) != "trusted":
            why = "there is no sandbox (`kode doctor`)" if sandbox else "the sandbox is off"
            fault = f"was not run: {why}, and nobody approved running it without one"
            return ProgramRun(exit_code=None, begun=False, fault=fault)
    dropped: list[str] = []

    def is_granted(change: FileChange) -> bool:
        is_plain = not change.runs_later and change.kind != "git"
        return is_plain and below_any(change.path, grants.write)

    async def keep(attempt: "Attempt") -> tuple[str, ...]:
        try:
            changes = await asyncio.to_thread(attempt.changes)
            free = [change for change in changes if is_granted(change)]
            left = await asyncio.to_thread(attempt.apply, free)
            if settle is not None:
                return await settle(attempt, is_granted, left)
            others = [change for change in changes if change.kind != "git"]
            dropped.extend(o.path for o in others if o not in free or o.path in left)
        except (KodeError, OSError) as error:
            if settle is not None:
                return (f"[All changes by the hook {hook.item.name} were dropped: {error}]",)
        return ()

    def runs_beside(line: bytes) -> bool:
        nonlocal settle
        if hook.guard or not goes_beside(line):
            return False
        settle = None
        leave()
        return True

    root, begins = str(hook.item.origin), hook.event == "SessionStart"
    mark = secrets.token_hex(16)
    ran = await run_program(
        (*SHELL, *((_WITH_VARIABLES, "kode", hook.command, mark) if begins else (hook.command,))),
        cwd=place.cwd,
        environment={
            **place.environment,
            **dict.fromkeys(("CLAUDE_PROJECT_DIR", "KODE_PROJECT_DIR"), str(place.project)),
            **({"CLAUDE_PLUGIN_ROOT": root} if hook.item.scope == "bundle" else {}),
        },
        timeout_s=hook.timeout_s,
        stdin=stdin,
        sandbox=None if outside else sandbox,
        records_opens=hook.pins_loads,
        grants=grants,
        keep=keep,
        take_first_line=runs_beside,
    )
    stdout, *lists = ran.stdout.split(mark) if begins else (ran.stdout,)
    # The variables that it wrote to its file.
    old, new = (dict(_VARIABLE.findall(text)) for text in (*lists, "", "")[:2])
    variables = {
        name: value
        for name, value in new.items()
        if old.get(name) != value and name not in _OF_THE_SHELL
    }
    return replace(ran, stdout=stdout, dropped=tuple(dropped), variables=variables)


def granted(hook: Hook, place: Workplace) -> Grants:
    """What a hook may do besides: by its entry in the person's config, or by their approval."""
    approved = trust.grants_of(hook.item, trust.load(place.home, place.project))
    return Grants(
        network=approved.network or hook.grants.network,
        write=(*approved.write, *hook.grants.write),
        outside=approved.outside or hook.grants.outside,
    )


async def _settle(
    agent: Agent,
    hook: Hook,
    emit: Emit,
    attempt: "Attempt",
    is_granted: Callable[[FileChange], bool],
    left: Mapping[str, str],
) -> tuple[str, ...]:
    """Puts the other changes of a hook to the gate, as those of a command; returns what the model
    must know of them. `left` are those that could not be made: path → reason."""
    context = ToolContext(
        place=agent.place, call_id="hook", session_id=None, emit=emit, seen_files={}
    )
    action = Action(call_id="hook", tool=shell, arguments={"command": hook.command})
    command = Command(agent=agent, action=action, context=context)
    settled = await settle_changes(command, attempt, may_ask=True, but_for=is_granted)
    lost = [refusal.for_person for refusal in settled.refusals if refusal.by != "person"]
    lost += [f"{path} was left alone: {why}." for path, why in left.items()]
    for line in lost:
        emit(Notice(text=f"The hook {hook.item.name}: {line}"))
    return tuple(about(agent.place.cwd, settled))


async def begin_session(conversation: "Conversation", hooks: Hooks) -> None:
    """Runs the hooks of a session's start: what they say goes with the first message, what they set
    holds for the session's commands."""
    source, model = conversation.begun_by, conversation.agent.provider.model
    answer = await hooks.at("SessionStart", {"source": source, "model": model}, (source,))
    _note(conversation, answer.context)
    place = conversation.place
    environment = {**place.environment, **answer.variables}
    inside = {**place.inside, **answer.variables_inside}
    place = replace(place, environment=environment, inside=inside)
    conversation.agent = replace(conversation.agent, place=place)


async def submit(conversation: "Conversation", hooks: Hooks, text: str) -> None:
    """Runs the hooks of a message; what they say goes with it. Raises: UserError if one refuses it;
    then nothing was done."""
    answer = await hooks.at("UserPromptSubmit", {"prompt": text})
    if answer.outcome == "deny":
        raise UserError(f"{answer.reason} The message was not sent.")
    _note(conversation, answer.context)


async def end_turn(
    conversation: "Conversation", hooks: Hooks, ended: TurnEnded, run: "RunTurn"
) -> TurnEnded:
    """Runs the hooks of a turn's end, which may continue it with what they say is missing."""
    child = conversation.settings.child
    event: Event = "Stop" if child is None else "SubagentStop"
    names = {} if child is None else {"agent_type": child.agent_type}
    for number in range(MAX_CONTINUATIONS):
        if not ended.is_finished:
            return ended
        fields = {"stop_hook_active": number > 0, "last_assistant_message": ended.result, **names}
        try:
            answer = await hooks.at(event, fields, tuple(names.values()))
        except asyncio.CancelledError:
            # The turn itself succeeded: stopping its hooks must not lose it.
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            return ended
        if answer.outcome != "deny" or answer.stops:
            return ended
        # A hook may print text of a file or command: no turn treats it as the person's words.
        _note(conversation, answer.reason)
        ended = ended.followed_by(await run(NOT_DONE))
    return ended


def show_status(conversation: "Conversation", hooks: Hooks) -> None:
    """Has the program of `statusLine` write its line again."""
    status, place = conversation.status(), conversation.place

    def show(line: str) -> None:
        conversation.status_line = line.partition("\n")[0]

    hooks.show_status(
        {
            "model": {"id": status.model, "display_name": status.model},
            "workspace": {"current_dir": str(place.cwd), "project_dir": str(place.project)},
            "cost": {"total_cost_usd": status.cost_usd or 0.0},
            "context_window": {
                "context_window_size": status.context_window,
                "used_percentage": round(100 * status.context_tokens / status.context_window),
            },
        },
        show,
    )


async def end_session(
    conversation: "Conversation", hooks: Hooks, reason: str, wait_s: float
) -> None:
    """Runs the hooks of a session's end, after those in the background: `wait_s` for them all.
    Raises: StorageError."""
    conversation.end_by = time.monotonic() + wait_s
    await hooks.stop(wait_s / 2)
    await hooks.at("SessionEnd", {"reason": reason}, (reason,))


def _note(conversation: "Conversation", text: str) -> None:
    """Tells the model what a hook says, with the next message."""
    if text:
        try:
            conversation.note(f"[hook] {text}")
        except StorageError as error:
            conversation.report(error)

"""Extensions of a conversation: skills in the prompt and as a tool, and when and how hooks run.
`kode.extensions` finds extensions; its `hook_runs` runs the hooks of calls and questions."""

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kode import paths
from kode.engine.agent import Agent
from kode.engine.command import AllowedCommand, settle_changes
from kode.errors import KodeError, UserError
from kode.events import Notice, TurnEnded
from kode.extensions import review, trust
from kode.extensions.definitions import AgentDefinition, catalogue, find_surroundings, skill_tool
from kode.extensions.hook_runs import CHANGED, Hooks, sample_line
from kode.extensions.hooks import CHANGES_COUNT, Hook, is_current
from kode.extensions.review import FoundExtensions, in_use, reread
from kode.sandbox.reach import Interest
from kode.tool import Action, ToolContext
from kode.tools.processes import ProgramRun, run_program
from kode.tools.shell import shell
from kode.values import replace
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation, RunTurn
    from kode.sandbox.sandbox import Attempt, Sandbox


def find_extensions(cwd: Path, trust_project: bool = False) -> FoundExtensions:
    """The extensions on disk for a working directory, and which of them may be used."""
    home = paths.kode_home()
    around = find_surroundings(cwd, home, paths.user_home())
    approvals = trust.load(home, around.project, trust_project=trust_project)
    return review.find_extensions(around, approvals)


def find_agent(name: str, cwd: Path, *, trust_project: bool = False) -> AgentDefinition:
    """The definition of an agent that may be used in `cwd`. Raises: UserError."""
    agents = in_use(find_extensions(cwd, trust_project=trust_project).agents)
    usable = {agent.item.name: agent for agent in agents}
    if name not in usable:
        raise UserError(
            f"No agent {name!r} may be used here, only: {', '.join(usable) or 'none'}. `kode "
            f"extensions agents` lists them, `kode extensions approve {name}` shows it and asks."
        )
    return usable[name]


async def add_extensions(
    conversation: "Conversation", agent: Agent
) -> "tuple[Agent, FoundExtensions, Hooks | None]":
    """Returns the extended agent, all extensions and the hooks; reports what cannot be used."""
    settings, place, emit = conversation.settings, agent.place, conversation.settings.emit
    catalog = await asyncio.to_thread(find_extensions, place.cwd, settings.trust_project)
    if problems := [text for texts in catalog.problems.values() for text in texts]:
        more = f" And {len(problems) - 1} more: `kode extensions skills`, `agents` and so on."
        emit(Notice(text=f"{problems[0]}{more if len(problems) > 1 else ''}"))
    if unused := "; ".join(settings.loaded.unused):
        emit(Notice(text=f"Not used of other agents' settings: {unused}", level="info"))
    # In a thread: its imports may wait for those of an SDK, and the screen must not.
    agent, hooks = await asyncio.to_thread(_extend_agent, conversation, agent, catalog)
    return agent, catalog, hooks


def _extend_agent(
    conversation: "Conversation", agent: Agent, catalog: FoundExtensions
) -> "tuple[Agent, Hooks | None]":
    """The agent with skills, plug-ins, hooks, and checkers of edits."""
    child, place, gate = conversation.settings.child, agent.place, conversation.gate
    skills, opening, tools = in_use(catalog.skills), agent.opening, list(agent.tools)
    if child is not None and child.definition is not None and not child.definition.has("skill"):
        skills = ()
    sections = catalogue(skills, agent.provider.info.context_window)
    if for_model := [skill for skill in skills if skill.for_model]:
        tools.append(skill_tool(for_model, partial(reread, home=place.home, project=place.project)))
    agent = replace(
        agent,
        tools=tuple(tools),
        opening=lambda window: {**({"skills": sections} if sections else {}), **opening(window)},
        interceptors=tuple(conversation.plugins.interceptors),
    )
    # Changing a guard does not turn it off: it blocks until somebody looks at the change.
    changed = (hook.thing for hook in catalog.hooks if hook.standing == "changed")
    guards = (hook for hook in changed if hook.event == "PreToolUse")
    hooks = None
    if active := (*in_use(catalog.hooks), *guards):
        hooks = Hooks(conversation=conversation, hooks=active, run=run_in_session)
        agent = replace(
            agent,
            gate=gate if gate.ask is None else replace(gate, ask=hooks.wrap_ask(gate.ask)),
            around=hooks.around,
            before_compaction=hooks.before_compaction,
            interceptors=(hooks.before_call, *agent.interceptors),
        )
    if conversation.config.diagnostics:
        from kode.tools.checkers import Checkers

        check, outer = Checkers(place=place, sandbox=agent.sandbox).around, agent.around
        # Hooks see the findings of checkers.
        both = outer and (lambda action, run: outer(action, partial(check, action, run)))
        agent = replace(agent, around=both or check)
    return agent, hooks


LEAST_S = 0.1  # for one end hook, even if others used up the time: many only write a line
NOT_DONE = "A hook says the work is not done."  # the message of a turn that a hook starts
MAX_CONTINUATIONS = 5  # of a turn, by hooks: then it ends, whatever they say


async def run_in_session(hooks: Hooks, hook: Hook, line: str) -> ProgramRun:
    """Runs a hook of an open session, if it is still as approved. Raises: StorageError."""
    conversation, agent = hooks.conversation, hooks.conversation.agent
    try:
        if not await _is_as_approved(hooks, hook):
            return ProgramRun(begun=False, fault=CHANGED)
    except KodeError as error:
        return ProgramRun(begun=False, fault=f"was not run ({error})")
    # Like a command, it may read, repeat and rewrite what a marked session left in the project.
    if source := await asyncio.to_thread(agent.marks.find_source, None):
        conversation.mark_outside(source)
    if conversation.end_by is not None:
        left_s = conversation.end_by - time.monotonic()
        hook = replace(hook, timeout_s=min(hook.timeout_s, max(LEAST_S, left_s)))
    judge = conversation if hook.event in CHANGES_COUNT else None
    required = conversation.config.sandbox.enabled is True
    return await run_hook(hook, line, agent.place, agent.sandbox, required, judge)


async def _is_as_approved(hooks: Hooks, hook: Hook) -> bool:
    """Whether a hook, and what it loads, is as a person approved it. Raises: KodeError."""
    conversation, item, sandbox = hooks.conversation, hook.item, hooks.conversation.agent.sandbox
    place = conversation.place
    around = await asyncio.to_thread(find_surroundings, place.cwd, place.home, place.user_home)
    if not await asyncio.to_thread(is_current, hook, around):
        return False
    if await asyncio.to_thread(trust.is_held, item, place.home, place.project):
        return False
    if not hook.pins_loads or conversation.settings.trust_project:
        return True
    approvals = await asyncio.to_thread(trust.load, place.home, place.project)
    approval = approvals.find(item)
    if approval is None:  # revoked meanwhile
        return False
    is_new = not approval.is_seen and trust.state(item, approvals) == "trusted"
    if is_new and sandbox and await asyncio.to_thread(sandbox.kind) != "none":
        line = sample_line(hook.event, hook.matcher, hooks.common(), place.cwd)
        ran = await run_hook(hook, line, place, sandbox, required=True)
        if ran.opened is None:
            return True
        pin = partial(trust.pin_loads, place.home, place.project, item)
        approvals = await asyncio.to_thread(pin, ran.opened.project)
    return trust.state(item, approvals) == "trusted"


async def run_hook(
    hook: Hook,
    line: str,
    place: Workplace,
    sandbox: "Sandbox | None",
    required: bool = False,
    judge: "Conversation | None" = None,
) -> ProgramRun:
    """Runs a hook with `line` on its stdin, in the sandbox unless a person approved it to run
    outside and `required` is not set; if there is no sandbox, a person's own hook runs, too. The
    gate of `judge` decides about its changes; None drops them. Raises: CancelledError."""
    item, dropped, leaves = hook.item, list[str](), False
    if not required:
        approvals = await asyncio.to_thread(trust.load, place.home, place.project)
        leaves = trust.state(trust.outside_item(item), approvals) == "trusted"
    try:
        if leaves or not sandbox or (await asyncio.to_thread(sandbox.support)).kind == "none":
            if not leaves and item.scope != "home":
                why = "there is no sandbox (`kode doctor`)" if sandbox else "the sandbox is off"
                allow = f"`kode extensions approve {item.name} --outside`"
                raise KodeError(f"{why}, and nobody approved running it without one ({allow})")
            sandbox = None
    except KodeError as error:
        return ProgramRun(begun=False, fault=f"was not run: {error}")

    async def keep_changes(attempt: "Attempt") -> tuple[str, ...]:
        try:
            changes = await asyncio.to_thread(attempt.changes)
        except (KodeError, OSError) as error:
            return (f"[All changes by the hook {item.name} were dropped: {error}]",)
        if judge is None:
            dropped.extend(c.path for c in changes if c.kind != "git")
            return ()
        emit = judge.settings.emit
        context = ToolContext(place=place, call_id="hook", emit=emit)
        action = Action(call_id="hook", tool=shell, arguments={"command": hook.command})
        command = AllowedCommand(agent=judge.agent, action=action, context=context)
        settled = await settle_changes(command, attempt, may_ask=True)
        for refusal in settled.refusals:
            if refusal.by != "person":
                emit(Notice(text=f"The hook {item.name}: {refusal.for_person}"))
        return settled.notes

    folders = dict.fromkeys(("CLAUDE_PROJECT_DIR", "KODE_PROJECT_DIR"), str(place.project))
    if item.scope == "bundle":
        folders["CLAUDE_PLUGIN_ROOT"] = str(item.origin)
    ran = await run_program(
        ("/bin/bash", "-c", hook.command),
        cwd=place.cwd,
        environment={**place.environment, **folders},
        timeout_s=hook.timeout_s,
        stdin=line.encode("utf-8", "replace"),
        sandbox=sandbox,
        interest=Interest(records_opens=hook.pins_loads, counts_home=True),
        keep=keep_changes,
    )
    return replace(ran, dropped=tuple(dropped))


async def run_start_hooks(hooks: Hooks) -> None:
    """Runs the hooks of a session's start."""
    conversation = hooks.conversation
    source, model = conversation.begun_by, conversation.agent.provider.model
    answer = await hooks.at("SessionStart", {"source": source, "model": model}, (source,))
    hooks.tell_model(answer.context)


async def run_submit_hooks(hooks: Hooks, text: str) -> None:
    """Runs the hooks of a message. Raises: UserError if one refuses it; then nothing was done."""
    answer = await hooks.at("UserPromptSubmit", {"prompt": text})
    if answer.outcome == "deny":
        raise UserError(f"{answer.reason} The message was not sent.")
    hooks.tell_model(answer.context)


async def run_turn_end_hooks(hooks: Hooks, ended: TurnEnded, run: "RunTurn") -> TurnEnded:
    """Runs the hooks of a turn's end, which may continue the turn by saying what is missing."""
    child = hooks.conversation.settings.child
    names = {} if child is None else {"agent_type": child.agent_type}
    for number in range(MAX_CONTINUATIONS):
        if not ended.is_finished:
            return ended
        fields = {"stop_hook_active": number > 0, "last_assistant_message": ended.result, **names}
        event: str = "SubagentStop" if child else "Stop"
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
        hooks.tell_model(answer.reason)
        ended = ended.join_with(await run(NOT_DONE))
    return ended


async def run_end_hooks(hooks: Hooks, reason: str, wait_s: float) -> None:
    """Runs the hooks of a session's end, within `wait_s` together. Raises: StorageError."""
    hooks.conversation.end_by = time.monotonic() + wait_s
    await hooks.stop(wait_s / 2)
    await hooks.at("SessionEnd", {"reason": reason}, (reason,))

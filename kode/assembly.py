"""Config → Agent: the one place that knows every concrete class. Functions only; `conversation/`
holds the state."""

import asyncio
import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kode import paths
from kode.config import (
    Config,
    Embedding,
    ProviderChoice,
    ProviderPart,
    given_prices,
    load_config,
    resolve_provider,
    small_choice,
)
from kode.contracts import (
    AskReply,
    Background,
    Face,
    MemoryContext,
    MemorySystem,
    PermissionMode,
    Provider,
    Request,
    Sandbox,
    Tool,
)
from kode.credentials import is_key, spellings
from kode.engine.agent import Agent, Limits, Spend
from kode.engine.tokens import asked_in_passing
from kode.errors import AuthenticationError, ConfigError, RefusedError, StorageError, UserError
from kode.events import Emit, Notice, silent
from kode.extensions import familiar_calls
from kode.extensions.instructions import read_instructions
from kode.extensions.mcp_config import Entry
from kode.extensions.mcp_open import opener
from kode.extensions.mcp_values import Elicit
from kode.extensions.session import Extensions
from kode.fault_reports import write_report
from kode.memory import open_memory
from kode.messages import Message, Usage
from kode.permissions import gate as gate_module
from kode.permissions.gate import Ask, GateState, PersonGate, path_denier
from kode.permissions.rules import Rules, parse_all
from kode.programs import one_deeper
from kode.prompts import opening_sections, system_sections
from kode.providers import open_provider
from kode.providers.asked import PATIENCE_S
from kode.providers.exchange import SdkProvider
from kode.providers.models import cost_usd
from kode.sandbox.deferred import DeferredSandbox
from kode.session.checkpoints import Checkpoints
from kode.session.content_store import MEGABYTE, Contents
from kode.session.entries import UsageEntry
from kode.session.keeper import Keeper
from kode.session.log import Session
from kode.session.marks import Marks
from kode.session.requests import request_entry
from kode.shared_budget import SharedBudget
from kode.tools.builtin import BUILTIN, SMALL
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.extensions.program import Ran
    from kode.sandbox.named import Named
    from kode.sandbox.sandbox import Sandbox as Confinement
    from kode.subagents.channel import Delegation
    from kode.subagents.protocol import Answer, Question, Start

SMALL_WINDOW = 16_384
"""Below this size the prompt and all tools would take too much of the window."""

STEPS_KEPT = 3
"""Requests of a turn's last steps kept in reserve, for the parent to use what its subagents
found."""

PASSED_ON = frozenset(
    "PATH HOME LANG LANGUAGE TERM SHELL USER LOGNAME TMPDIR TZ PWD VIRTUAL_ENV CONDA_PREFIX "
    "PYTHONPATH PYTHONUNBUFFERED NODE_ENV GOPATH GOROOT CARGO_HOME RUSTUP_HOME JAVA_HOME "
    "XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_RUNTIME_DIR SSH_AUTH_SOCK "
    "EDITOR VISUAL CI COLUMNS LINES NVM_DIR PYENV_ROOT DISPLAY".split()
)
"""The variables passed to child processes, with those of `shell.environment` and all LC_*. Keys and
other secrets are never passed unless configured."""


def make_provider(config: Config, choice: ProviderChoice) -> Provider:
    """The chosen provider; its SDK is imported on the first request. Raises: ConfigError."""
    overrides = given_prices(config)
    row = choice.row
    model = choice.model or row.default_model
    if config.context.window is not None:
        overrides.setdefault(model, {})["context_window"] = config.context.window
    if config.context.sees_images is not None:
        overrides.setdefault(model, {})["sees_images"] = config.context.sees_images
    return open_provider(
        row,
        choice.model,
        base_url=choice.base_url,
        api_key=choice.api_key,
        api=choice.api,
        headers=choice.headers,
        script=config.script,
        idle_timeout_s=config.retry.idle_timeout_s,
        total_timeout_s=config.retry.total_timeout_s,
        overrides=overrides,
    )


async def learn(provider: Provider, emit: Emit = silent, patience_s: float = PATIENCE_S) -> None:
    """Lets a provider ask its server what it says of the model; what the config sets stays. `emit`
    gets a line if the server is still loading the model. Never raises."""
    if isinstance(provider, SdkProvider):
        await provider.learn(emit, patience_s)


def can_search(config: Config, provider: Provider) -> bool:
    """Whether the vendor's server may search the web: the person wants it, and it can."""
    if config.web_search is not True:
        return False
    by_plugin = (
        isinstance(provider, SdkProvider)
        and provider.api == "chat"
        and provider.row.dialect.search != ""
    )
    return provider.info.searches or by_plugin


def open_small_model(config: Config) -> Provider | None:
    """The model that the person named for small work. Raises: UserError if it cannot be asked."""
    if config.small_model is None:
        return None
    try:
        return make_provider(config, small_choice(config, os.environ, config.small_model))
    except UserError as error:
        raise UserError(f"`small_model`: {error}") from error


def is_small(config: Config, provider: Provider) -> bool:
    """Whether a conversation gets few tools and a short prompt."""
    if config.profile == "auto":
        return provider.info.context_window < SMALL_WINDOW
    return config.profile == "small"


def face_of(config: Config, provider: Provider) -> Face:
    """The form in which tools for files are offered: as set, else as the model is trained and the
    server takes it."""
    if config.tool_face != "auto":
        return config.tool_face
    if not isinstance(provider, SdkProvider) or provider.api != "responses":
        return "kode"
    return "patch" if provider.model.startswith(provider.row.patches) else "kode"


def simplify(agent: Agent, config: Config) -> Agent:
    """The agent with the tools and prompt of the small profile."""
    return replace(
        agent,
        small=True,
        tools=tuple(tool for tool in agent.tools if tool not in BUILTIN or tool.name in SMALL),
        render_system=lambda late: system_sections(
            base=config.system, append=config.append_system, late=late, small=True
        ),
    )


def open_workplace(config: Config, home: Path, cwd: Path) -> Workplace:
    """The workplace for `cwd`, not yet of a session: see `of_session`.

    Raises: ConfigError for a memory folder that contains the work: no tool could write there.
    """
    protected, roots = paths.own_folders(home, config.memory.data_dir), config.roots(cwd)
    for folder in protected[1:]:
        if any(root.resolve().is_relative_to(folder.resolve()) for root in roots):
            raise ConfigError(
                f"memory.data_dir is {folder}, which holds the working directory: no tool may "
                "write in the folder of memory. Name a folder of its own."
            )
    project = paths.project_root(cwd)
    readable: tuple[Path, ...] = ()
    if config.memory.enabled and config.memory.system == "journal":
        memory = paths.memory_folder(home, config.memory.data_dir)
        readable = (paths.journal_history(memory, project),)
    return Workplace(
        cwd=cwd,
        project=project,
        roots=roots,
        home=home,
        protected=protected,
        readable=readable,
        outputs=paths.outputs_folder(home, None),
        environment=child_environment(os.environ, config.shell.environment),
        user_home=Path(os.path.expanduser("~")),
        temp=(Path(tempfile.gettempdir()),),
    )


def of_session(place: Workplace, session_id: str | None) -> Workplace:
    """The workplace of a session, whose full outputs and plan lie beside it. A session without a
    file has no plan."""
    return replace(
        place,
        outputs=paths.outputs_folder(place.home, session_id),
        plan=None if session_id is None else paths.plan_file(place.home, session_id),
    )


class Made(NamedTuple):
    """An agent, and what its conversation needs beside it."""

    agent: Agent
    gate: PersonGate
    """The agent's."""
    checkpoints: Checkpoints
    """Where its changes are saved for undo."""


def make_agent(
    config: Config,
    provider: Provider,
    session: Session,
    place: Workplace,
    *,
    emit: Emit,
    ask: Ask | None,
    background: Background | None = None,
    tools: tuple[Tool, ...] = (),
    memory: MemorySystem | None = None,
    start: "Start | None" = None,
    small_model: Provider | None = None,
) -> Made:
    """Builds the agent of a session from its parts. Memory is not open yet, so its tools are
    missing.

    `tools` come after kode's own; `memory` replaces the configured one. `start` is what a parent
    passes to a subagent, which stores undo contents with its parent's.

    Raises: ConfigError for unusable rules, memory system or budget.
    """
    cost = cost_function(provider)
    budgets = (config.max_budget_usd, config.shared_budget)
    if any(budget is not None for budget in budgets) and cost(Usage()) is None:
        raise ConfigError(
            f"The price of {provider.model} is unknown, so a budget cannot be kept. Set its price "
            'as `"prices": {"' + provider.model + '": {"input": 1.0, "output": 2.0}}` in the '
            "config, or leave out the budget."
        )
    rules = _rules(config)
    state = GateState(
        mode=config.permissions.mode, approved=() if start is None else parse_all(start.approved)
    )
    memory = memory or open_memory(config.memory)
    sandbox = open_sandbox(config, place)
    forced = config.sandbox.enabled is True

    def private_tmp() -> Path | None:
        outside = sandbox is None or (state.mode == "full" and not forced)
        return None if outside or sandbox is None else sandbox.private_tmp()

    place = replace(place, private_tmp=private_tmp, named=lambda: _named(place.project)())
    keeper = Keeper(
        checkpoints=_open_checkpoints(config, place, session, start),
        turn=(lambda: session.turns) if start is None else (lambda: start.turn),
        emit=emit,
    )
    choice = resolve_provider(config, os.environ)
    secrets = secrets_of(choice)
    gate = PersonGate(
        rules=rules,
        state=state,
        place=place,
        ask=ask,
        tainted=lambda: session.tainted,
        sandbox=sandbox,
        sandbox_forced=forced,
        sandbox_network=config.sandbox.network,
        emit=emit,
        keep_first=keeper.keep_first,
    )
    marks = Marks(
        home=place.home, folders=place.roots, source=lambda: session.tainted_by, emit=emit
    )
    limits, spend = _limits(config), Spend(shared=_shared_budget(config, session, start))
    if start is not None:
        limits = replace(limits, max_tree_steps=start.max_tree_steps)
        usd, steps = start.elsewhere_usd, start.elsewhere_steps
        spend = replace(spend, elsewhere_usd=usd, elsewhere_steps=steps)
    agent = Agent(
        provider=provider,
        tools=(*BUILTIN, *tools),
        gate=gate,
        memory=memory,
        limits=limits,
        place=place,
        render_system=lambda late: system_sections(
            base=config.system, append=config.append_system, late=late
        ),
        opening=_opening_renderer(config, place, marks, emit),
        effort=choice.effort,
        search=can_search(config, provider),
        small_model=small_model,
        cost_usd=cost,
        spend=spend,
        face=face_of(config, provider),
        calling=familiar_calls,
        seen_files={},
        secrets=secrets,
        sandbox=sandbox,
        background=background,
        keeper=keeper,
        marks=marks,
        report_bug=write_report,
    )
    return Made(agent=agent, gate=gate, checkpoints=keeper.checkpoints)


def make_extensions(
    config: Config,
    place: Workplace,
    *,
    emit: Emit,
    ask: Ask | None,
    elicit: Elicit | None,
    trust_project: bool,
    sandbox: Sandbox | None,
    servers: Sequence[Entry] = (),
) -> Extensions:
    """The extensions of a conversation, not yet started. `servers` are those named by the program
    that runs kode, `sandbox` the agent's.

    Raises: ConfigError for bad rules.
    """
    return Extensions(
        home=place.home,
        cwd=place.cwd,
        emit=emit,
        ask=ask,
        open_server=opener(
            place,
            sandboxed=config.sandbox.enabled is not False,
            required=config.sandbox.enabled is True,
            denied=path_denier(_rules(config), place),
            trust_project=trust_project,
            elicit=elicit,
        ),
        sandbox=sandbox,
        required=config.sandbox.enabled is True,
        deferred=config.mcp.deferred,
        trust_project=trust_project,
        given=servers,
    )


def _rules(config: Config) -> Rules:
    """Raises: ConfigError."""
    given = config.permissions
    return Rules(deny=parse_all(given.deny), ask=parse_all(given.ask), allow=parse_all(given.allow))


def _open_checkpoints(
    config: Config, place: Workplace, session: Session, start: "Start | None"
) -> Checkpoints:
    """Where undo data is kept: beside the session; without a file, in a folder that is removed with
    the process, or after its death by the next; for a subagent, with its parent's. Raises:
    StorageError."""
    if start is not None:
        folder = Path(start.checkpoints)
        contents = _contents(config, folder)
        return Checkpoints(folder=folder, contents=contents, roots=place.roots, part_of_turn=True)
    if session.id is not None:
        return replace(kept_checkpoints(config, place.home, session.id), roots=place.roots)
    from kode.sandbox import store

    places = store.places(place.home)
    if (own := store.open_store(places)) is None:
        raise StorageError(f"No folder for undo data: make {places[0]} or {places[1]} writable.")
    contents = _contents(config, own.folder)
    return Checkpoints(folder=own.folder, contents=contents, roots=place.roots, close=own.close)


def kept_checkpoints(config: Config, home: Path, session_id: str) -> Checkpoints:
    """The undo data of a session on disk."""
    folder = paths.checkpoints_folder(paths.session_folder(home, session_id))
    return Checkpoints(
        folder=folder,
        contents=_contents(config, folder),
        marker=paths.unfinished_undo(home, session_id),
    )


def _contents(config: Config, folder: Path) -> Contents:
    limits = config.undo
    return Contents(
        folder=folder,
        max_file_bytes=limits.max_file_mb * MEGABYTE,
        max_bytes=limits.max_session_mb * MEGABYTE,
    )


@lru_cache(maxsize=8)
def _named(project: Path) -> "Named":
    from kode.sandbox.named import Named

    return Named(project)


def open_sandbox(config: Config, place: Workplace) -> DeferredSandbox | None:
    """The sandbox of a workplace, not yet tried. Raises: ConfigError for bad rules."""
    rules = _rules(config)
    if config.sandbox.enabled is False:
        return None

    def make() -> "Confinement":
        from kode.sandbox import sandbox

        denied = path_denier(rules, place)
        return sandbox.open_sandbox(place, network=config.sandbox.network, denied=denied)

    return DeferredSandbox(make)


async def run_check(
    command: str, *, cwd: Path, mode: PermissionMode | None = None, timeout_s: float
) -> "Ran":
    """Runs a shell command that checks the work in `cwd`, as the model's commands run there: in the
    sandbox, which drops its changes; in mode `full` without one. The mode defaults to the
    configured one.

    Raises: ConfigError.
    """
    from kode.extensions.program import run_program

    home = paths.home()
    config = load_config(home, cwd, environ=os.environ, flags={}).config
    is_full = (mode or config.permissions.mode) == "full"
    place = open_workplace(config, home, cwd)
    return await run_program(
        ("/bin/bash", "-c", command),
        cwd=cwd,
        environment=place.environment,
        timeout_s=timeout_s,
        sandbox=None if is_full else open_sandbox(config, place),
    )


def _shared_budget(config: Config, session: Session, start: "Start | None") -> SharedBudget | None:
    """The budget named in the settings; read-only for a subagent, because its parent adds its
    spending. Raises: ConfigError for a file that is missing or states no limit."""
    if config.shared_budget is None:
        return None
    path = paths.expand(config.shared_budget)
    budget = SharedBudget(path, by=session.id or "", only_looks=start is not None)
    budget.refresh()
    if math.isinf(budget.limit_usd):
        raise ConfigError(
            f"--shared-budget {path} has no limit. The file must start with the limit "
            'for all: {"limit_usd": 5.0}'
        )
    return budget


def _limits(config: Config) -> Limits:
    return Limits(
        max_steps=config.max_steps,
        max_tree_steps=config.max_steps,
        timeout_s=config.timeout_s,
        max_budget_usd=config.max_budget_usd,
        max_attempts=config.retry.max_attempts,
        compact_at=config.context.compact_at,
        keep_tool_output_tokens=config.context.keep_tool_output_tokens,
        keep_user_tokens=config.context.keep_user_tokens,
    )


def _opening_renderer(
    config: Config, place: Workplace, marks: Marks, emit: Emit
) -> Callable[[int], Mapping[str, str]]:
    """The sections about the workplace, for the current day. Reads the project's instructions once,
    when they are first needed: a person is asked before about those that wait."""

    @cache
    def section() -> str:
        if not config.agents_files:
            return ""
        instructions = read_instructions(place.home, place.cwd)
        if instructions.warning:
            emit(Notice(text=instructions.warning))
        for source in instructions.sources:
            marks.keep_loaded(source.path, source.text, source.sha256)
        return instructions.section

    return lambda window: opening_sections(
        window=window,
        cwd=place.cwd,
        repository=paths.repository_root(place.cwd),
        today=datetime.now().astimezone().date(),
        project_instructions=section(),
    )


def make_delegation(
    config: Callable[[], Config],
    agent: Callable[[], Agent],
    session: Session,
    *,
    folder: Path,
    ask: Ask | None,
    emit: Emit,
    trust_project: bool = False,
) -> "Delegation":
    """What all subagents of a session share. `config` and `agent` return the current values when a
    child starts: model and permission mode may change in between."""
    from kode.subagents.channel import Delegation
    from kode.subagents.parent import child_environment
    from kode.subagents.protocol import Answer

    one_at_a_time = asyncio.Lock()

    def start() -> "Start":
        begun = _start_of_child(config(), agent(), session, may_ask=ask is not None)
        return begun.model_copy(update={"trust_project": trust_project})

    async def ask_person(question: "Question", asker: str) -> "Answer":
        assert ask is not None
        gate = agent().gate
        fields = question.model_dump(exclude={"type", "id", "asker"})
        async with one_at_a_time:
            # An answer given meanwhile for one subagent applies to the others too.
            if question.rules and set(question.rules) <= set(gate.approved_in_session):
                return Answer(id=question.id, choice="session")
            answer = await ask(gate_module.Question(**fields, asker=asker))
            if answer.choice == "session":
                gate.approve_in_session(question.rules)
        return Answer(id=question.id, choice=answer.choice, message=answer.message)

    def record(usage: Usage, cost_usd: float | None) -> None:
        model = agent().provider.model
        entry = UsageEntry(purpose="subagent", usage=usage, cost_usd=cost_usd, model=model)
        try:
            session.append(entry)
        except StorageError as error:
            emit(Notice(text=str(error), level="error"))

    limits = config().subagent
    return Delegation(
        folder=folder,
        session_id=session.id,
        cwd=agent().place.cwd,
        environment=child_environment(os.environ, agent().secrets, _kept(config())),
        start=start,
        snapshot=agent().memory.snapshot,
        memory_system=agent().memory.name,
        ask=None if ask is None else ask_person,
        spend=agent().spend,
        record=record,
        max_concurrency=limits.max_concurrency,
        timeout_s=limits.timeout_s,
        max_steps=limits.max_steps,
    )


def _kept(config: Config) -> tuple[str, ...]:
    """The variables that a subagent itself gets although they look secret: what the person passes
    on, and the credentials of a cloud, which its SDK reads."""
    return (*config.shell.environment, *resolve_provider(config, os.environ).row.reads)


def _start_of_child(config: Config, agent: Agent, session: Session, *, may_ask: bool) -> "Start":
    from kode.subagents.protocol import Start

    choice = resolve_provider(config, os.environ)
    gate, spend = agent.gate, agent.spend
    whole = agent.limits.max_tree_steps or agent.limits.max_steps
    part = config.providers.get(choice.name, ProviderPart())
    in_use = ProviderPart(api=part.api, headers=part.headers)
    handed = config.model_copy(
        update={
            "provider": choice.name,
            "model": agent.provider.model,
            "effort": agent.effort,
            "small_model": None,
            "base_url": choice.base_url,
            "api_key": choice.api_key,
            # Only the key in use.
            "providers": {choice.name: in_use} if in_use != ProviderPart() else {},
            "memory": config.memory.model_copy(update={"enabled": False, "embedding": Embedding()}),
            "permissions": config.permissions.model_copy(update={"mode": gate.mode}),
        }
    )
    return Start(
        parent_pid=os.getpid(),
        config=handed.model_dump(mode="json"),
        may_ask=may_ask,
        approved=gate.approved_in_session,
        tainted=session.tainted,
        elsewhere_usd=spend.cost_usd + spend.elsewhere_usd,
        elsewhere_steps=spend.steps + spend.elsewhere_steps,
        max_tree_steps=max(1, whole - min(STEPS_KEPT, whole // 4)),
        checkpoints=str(agent.keeper.folder),
        turn=session.turns,
    )


def make_memory_context(
    agent: Agent,
    config: Config,
    session: Session,
    *,
    emit: Emit,
    current: "Callable[[], tuple[Agent, Config]] | None" = None,
    typed: Callable[[str], bool] = lambda sentence: True,
    opens: Callable[[Provider], None] = lambda provider: None,
) -> MemoryContext:
    """What memory may know about this session. `current` returns the agent and settings if they may
    change (`/model`); without it they stay as passed. `typed`: see `MemoryContext`; `opens`: see
    `ask_reply`."""
    current = current or (lambda: (agent, config))
    return MemoryContext(
        root=paths.memory_folder(agent.place.home, config.memory.data_dir),
        cwd=agent.place.cwd,
        project_root=paths.repository_root(agent.place.cwd),
        session_id=session.id,
        emit=emit,
        ask_reply=ask_reply(current, session, emit, opens),
        now=lambda: datetime.now().astimezone(),
        session_path=session.path,
        expected_s=partial(_expected_s, current),
        tainted=lambda: session.tainted,
        outside=lambda: session.tainted_by,
        typed=typed,
    )


def _expected_s(
    current: Callable[[], tuple[Agent, Config]], input_tokens: int, output_tokens: int
) -> float:
    agent, config = current()
    choice = memory_choice(agent, config)
    model = _small_or_own(agent, config).model if choice is None else choice.model or ""
    return agent.spend.paces[model].expected_s(input_tokens, output_tokens)


def ask_reply(
    current: Callable[[], tuple[Agent, Config]],
    session: Session,
    emit: Emit = silent,
    opens: Callable[[Provider], None] = lambda provider: None,
) -> AskReply:
    """The function that memory asks a model with: one attempt, counted in the session. It asks
    `memory.model`, else the model for small work, else the session's. If the vendor's small model,
    which nobody named, is refused, the session's is asked from then on, and one line says so.
    `opens` gets each provider that the caller has to close."""
    opened: dict[tuple[str, str], Provider] = {}
    refused: set[tuple[str, str]] = set()

    async def ask(request: Request) -> Message:
        agent, config = current()
        choice = memory_choice(agent, config)
        if choice is None:
            return await _answer(agent, config, session, _small_or_own(agent, config), request)
        key = (choice.name, choice.model or choice.row.default_model)
        if key in refused:
            return await _answer(agent, config, session, agent.provider, request)
        if key not in opened:
            opened[key] = make_provider(config, choice)
            opens(opened[key])
        try:
            return await _answer(agent, config, session, opened[key], request)
        except (RefusedError, AuthenticationError) as error:
            if config.memory.model is not None:
                raise
            refused.add(key)
            emit(
                Notice(
                    text=f"{error} Memory asks {agent.provider.model} instead; `small_model` in "
                    "the config names another."
                )
            )
            return await _answer(agent, config, session, agent.provider, request)

    return ask


def memory_choice(agent: Agent, config: Config) -> ProviderChoice | None:
    """A model for memory's questions that is not opened yet: `memory.model`, or the vendor's small
    one; None: the one named for small work, or the session's."""
    named = config.memory.model
    if named is None and (agent.small_model or not isinstance(agent.provider, SdkProvider)):
        return None
    choice = small_choice(config, os.environ, named)
    is_same = choice.name == agent.provider.name and choice.model == agent.provider.model
    return None if is_same else choice


def _small_or_own(agent: Agent, config: Config) -> Provider:
    if agent.small_model is None or config.memory.model is not None:
        return agent.provider
    return agent.small_model


async def _answer(
    agent: Agent, config: Config, session: Session, provider: Provider, request: Request
) -> Message:
    """One attempt of a provider at an answer for memory, counted in the session."""
    request = asked_in_passing(replace(request, small=is_small(config, provider)), provider.info)
    asked_at = time.monotonic()
    message = await provider.reply(request, silent)
    agent.spend.paces[provider.model].note(message.usage, time.monotonic() - asked_at)
    usage = message.usage or Usage()
    cost = cost_function(provider)(usage)
    agent.spend.add(usage, cost)
    session.append(
        request_entry("memory", provider, request),
        UsageEntry(purpose="memory", usage=usage, cost_usd=cost, model=provider.model),
    )
    return message


def cost_function(provider: Provider) -> Callable[[Usage], float | None]:
    """Usage → dollars at the model's price; the scripted provider costs nothing."""
    return lambda usage: cost_usd(provider.info, usage)


def child_environment(environ: Mapping[str, str], extra: tuple[str, ...]) -> dict[str, str]:
    """The environment of child processes: an allow-list, so that no secret leaks by default."""
    passed = {
        name: value
        for name, value in environ.items()
        if name in PASSED_ON or name.startswith("LC_") or name in extra
    }
    return passed | one_deeper(environ)


def secrets_of(choice: ProviderChoice) -> tuple[str, ...]:
    """Values to mask in everything a tool returns."""
    given = (choice.api_key, *choice.headers.values())
    return tuple(text for one in given if one and is_key(one) for text in spellings(one))

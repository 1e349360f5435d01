"""Config → Agent: the one place that knows every concrete class. Functions only; a `Conversation`
holds the state."""

import asyncio
import math
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import paths
from kode.config.choice import ProviderChoice, choose_small_model, resolve_provider
from kode.config.load import load_config
from kode.config.model import Config, SandboxPart, configured_prices
from kode.credentials import is_key, spellings
from kode.durable import storage_errors
from kode.engine.agent import Agent, Spend
from kode.errors import ConfigError, Setting, UserError
from kode.events import Emit, Notice
from kode.extensions.mcp_config import client_entries
from kode.extensions.mcp_server import Opener
from kode.extensions.review import read_instructions
from kode.extensions.session import Extensions
from kode.git import git_folders
from kode.memory.system import make_guarded
from kode.paths import real_path
from kode.permissions import approvals
from kode.permissions.gate import Gate, GateState, path_denier, paths_to_read
from kode.permissions.names import PermissionMode
from kode.permissions.rules import Rule, Rules, parse_all
from kode.process import nested_environment, write_report
from kode.prompts import opening_sections, system_sections
from kode.provider import Provider
from kode.providers import open_provider
from kode.providers.provider import HttpProvider
from kode.registry import SYSTEMS, SystemRow
from kode.sandbox.reach import Grants, Interest, Opens
from kode.sandbox.sandbox import Sandbox, open_store
from kode.session.log import Session
from kode.session.provenance import Provenance
from kode.shared_budget import SharedBudget
from kode.tools.builtin import BUILTIN, SMALL
from kode.undo.journal import TurnId
from kode.undo.store import MEGABYTE
from kode.undo.undo import Undo, open_undo
from kode.values import replace
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.conversation.conversation import Settings
    from kode.subagents.task import Start
    from kode.tools.background import BackgroundCommands
    from kode.tools.processes import ProgramRun

SMALL_WINDOW = 16_384
"""In tokens; in a smaller window the prompt and all tools would take too much of the room."""

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
    overrides, row = configured_prices(config), choice.row
    facts = {"context_window": config.context.window, "sees_images": config.context.sees_images}
    if facts := {name: value for name, value in facts.items() if value is not None}:
        overrides.setdefault(choice.model or row.default_model, {}).update(facts)
    values = {name: getattr(config, name) for name in ("cache", "script", "retry")}
    values |= {it: getattr(choice, it) for it in ("base_url", "api_key", "api", "headers", "used")}
    return open_provider(row, choice.model, overrides=overrides, **values)


def can_search_web(config: Config, provider: Provider) -> bool:
    """Whether the vendor's server may search the web: the person wants it, and it can."""
    is_chat = isinstance(provider, HttpProvider) and provider.api == "chat"
    return config.web_search is True and provider.info.searches and not is_chat


def open_configured_model(
    config: Config, key: str, named: str | None, origins: Mapping[str, str] = {}
) -> Provider:
    """The model `named` in the setting `key`; if None, the vendor's small model or the session's.
    Raises: UserError if it cannot be asked."""
    try:
        return make_provider(config, choose_small_model(config, os.environ, named, origins))
    except UserError as error:
        raise UserError(f"`{key}`: {error.args[0]}").about(error.setting) from error


def uses_small_profile(config: Config, provider: Provider) -> bool:
    """Whether a conversation gets the small profile: few tools and a short prompt."""
    is_cramped = provider.info.context_window < SMALL_WINDOW
    return is_cramped if config.profile == "auto" else config.profile == "small"


def model_parts(settings: "Settings", choice: ProviderChoice, provider: Provider) -> dict[str, Any]:
    """The fields of an agent that depend on its model. Raises: UserError if the model that is named
    for small work cannot be asked."""
    config, secrets = settings.config, (choice.api_key, *choice.headers.values())
    named = (config.memory.model if config.memory.enabled else None) or config.small_model
    small: Provider | None = None
    if named is not None or isinstance(provider, HttpProvider):
        key = "small_model" if named == config.small_model else "memory.model"
        small = open_configured_model(config, key, named, settings.loaded.origins)
    is_same = small and (small.name, small.model) == (provider.name, provider.model)
    # Tools for files are offered as set, else as the model is trained and the server takes it.
    form, is_trained = (
        config.tool_format,
        isinstance(provider, HttpProvider)
        and (provider.api == "responses" and provider.model.startswith(provider.row.patches)),
    )
    return {
        "provider": provider,
        "small_model": None if is_same else small,
        "effort": choice.effort,
        "search": can_search_web(config, provider),
        "tool_format": form if form != "auto" else "patch" if is_trained else "kode",
        # Masked in everything that a tool returns.
        "secrets": tuple(text for key in secrets if key and is_key(key) for text in spellings(key)),
    }


def use_small_profile(agent: Agent, settings: "Settings") -> Agent:
    """The agent with the tools and prompt of the small profile."""
    tools = tuple(tool for tool in agent.tools if tool not in BUILTIN or tool.name in SMALL)
    render = partial(_render_system, settings, True)
    return replace(agent, small=True, tools=tools, render_system=render)


def _render_system(settings: "Settings", small: bool, late: Mapping[str, str]) -> Mapping[str, str]:
    # The sections of plug-ins stand before memory's, which changes more.
    config, late = settings.config, {**settings.sections(), **late}
    return system_sections(base=config.system, append=config.append_system, late=late, small=small)


def open_workplace(config: Config, home: Path, cwd: Path) -> Workplace:
    """The workplace for `cwd`, before it has a session. Raises: ConfigError if the memory folder
    contains the work, where no tool could write then."""
    data_dir, roots = config.memory.data_dir, config.roots(cwd)
    folders = paths.own_folders(home, data_dir)
    own_folders = (*folders, *paths.own_folders(paths.kode_home(), data_dir))
    for folder in folders[1:]:
        if any(Path(real_path(root)).is_relative_to(Path(real_path(folder))) for root in roots):
            raise ConfigError(
                f"memory.data_dir is {folder}, which holds the working directory: no tool may "
                "write in the folder of memory. Name a folder of its own."
            )
    names = {*PASSED_ON, *config.shell.environment}
    passed = {n: os.environ[n] for n in os.environ if n in names or n.startswith("LC_")}
    project, readable = paths.project_root(cwd), [paths.bundles_folder(home)]
    row = SYSTEMS.get(config.memory.system, SystemRow())
    if config.memory.enabled and row.readable:
        folder = paths.memory_folder(home, data_dir) / config.memory.system
        readable.append(folder / paths.path_hash(project) / row.readable)
    return Workplace(
        cwd=cwd,
        project=project,
        roots=roots,
        home=home,
        protected=tuple(dict.fromkeys(own_folders)),
        readable=tuple(readable),
        outputs=paths.outputs_folder(home, None),
        environment=passed | nested_environment(os.environ),
        git=git_folders((project, *roots)),
        user_home=paths.user_home() or paths.NO_HOME,
        # Not as `tempfile` finds it: that writes, which a full disk refuses.
        temp=(Path(os.path.abspath(os.environ.get("TMPDIR") or "/tmp")),),
    )


def make_agent(
    settings: "Settings",
    provider: Provider,
    session: Session,
    place: Workplace,
    *,
    background: "BackgroundCommands | None" = None,
) -> Agent:
    """Builds the agent of a session. Memory is not open yet, so its tools are missing; those of
    `settings` come after kode's own. A subagent stores undo contents with its parent's.

    Raises: ConfigError for unusable rules, memory system or budget; UserError for a small or a
        fallback model that cannot be asked.
    """
    config, emit, child = settings.config, settings.emit, settings.child
    start = child.start if child is not None else None
    rules, asked = read_rules(config), [provider]
    if config.fallback_model is not None:
        asked.append(open_configured_model(config, "fallback_model", config.fallback_model))
    for key in ("max_budget_usd", "shared_budget"):
        for priced in asked if getattr(config, key) is not None else ():
            if not priced.info.is_priced:
                raise ConfigError(
                    f"The price of {priced.model} is unknown, so a budget cannot be kept. Set its "
                    'price as `"prices": {"' + priced.model + '": {"input": 1.0, "output": 2.0}}` '
                    "in the config, or leave out the budget."
                ).about(Setting(key))
    approved = parse_all(start.approved if start is not None else ())
    state = GateState(mode=config.permissions.mode, approved=approvals.add_rules((), approved))
    outputs, plan = paths.outputs_folder(place.home, session.id), None
    if child is not None and child.folder is not None:
        outputs = child.folder / "outputs"
    elif session.id is not None:
        plan = paths.plan_file(place.home, session.id)
    place = replace(place, outputs=outputs, plan=plan)
    sandbox, forced = open_sandbox(config, place), config.sandbox.enabled is True

    def private_tmp() -> Path | None:
        if sandbox is None or (state.mode == "full" and not forced):
            return None
        return sandbox.private_tmp()

    place = replace(place, private_tmp=private_tmp, named=partial(_find_named_files, place.project))
    undo = replace(
        _open_undo(config, place, session, start),
        roots=place.roots,
        git=place.git,
        turn=lambda: TurnId(session.turn_id, session.turns) if start is None else start.turn,
        emit=emit,
    )
    gate = Gate(
        rules=rules,
        state=state,
        place=place,
        ask=settings.ask,
        tainted=lambda: bool(session.tainted_by),
        sandbox=sandbox,
        sandbox_forced=forced,
        emit=emit,
    )
    marks = Provenance(
        home=place.home, folders=place.roots, source=lambda: session.tainted_by, emit=emit
    )
    of_tree = {"max_tree_steps", "rest_of_tree_usd", "rest_of_tree_steps"}
    limits = {} if start is None else start.model_dump(include=of_tree)
    return Agent(
        **model_parts(settings, resolve_provider(config, os.environ), provider),
        tools=(*BUILTIN, *settings.tools),
        gate=gate,
        memory=make_guarded(config.memory, settings.memory),
        config=config,
        place=place,
        render_system=partial(_render_system, settings, False),
        opening=_make_opening_renderer(config, place, marks, emit),
        spend=Spend(shared=_open_budget(config, session, start), **limits),
        seen_files={},
        sandbox=sandbox,
        background=background,
        undo=undo,
        marks=marks,
        report_bug=write_report,
    )


def make_extensions(settings: "Settings", agent: Agent) -> Extensions:
    """The extensions of a conversation, not yet started. Raises: ConfigError for bad rules."""
    config, place = settings.config, agent.place
    return Extensions(
        emit=settings.emit,
        ask=settings.ask,
        opener=Opener(
            place=place,
            sandboxed=config.sandbox.enabled is not False,
            required=config.sandbox.enabled is True,
            denied=path_denier(read_rules(config), place),
            trust_project=settings.trust_project,
            elicit=settings.elicit,
        ),
        deferred=config.mcp.deferred,
        given=(*settings.servers, *client_entries(settings.client_servers, place.cwd)),
    )


def read_rules(config: Config, origins: Mapping[str, str] = {}) -> Rules:
    """The permission rules. Raises: ConfigError for an invalid one, about its setting."""
    rules: dict[str, tuple[Rule, ...]] = {}
    for kind in ("deny", "ask", "allow"):
        try:
            rules[kind] = parse_all(getattr(config.permissions, kind))
        except ConfigError as error:
            key = f"permissions.{kind}"
            raise error.about(Setting(key, origins.get(key, "default"))) from None
    return Rules(**rules)


def _open_undo(config: Config, place: Workplace, session: Session, start: "Start | None") -> Undo:
    """Opens the undo data: beside the session; for a session without a file, in a folder that this
    process, or after a crash the next one, removes; for a subagent, with its parent's. Raises:
    StorageError."""
    if start is not None:
        return _open_undo_folder(config, Path(start.undo))
    if session.id is not None:
        return open_saved_undo(config, place.home, session.id)
    with storage_errors(place.home, "keep undo data below"):
        store = open_store(place.home)
    return _open_undo_folder(config, store.folder, close=store.close)


def open_saved_undo(config: Config, home: Path, session_id: str) -> Undo:
    """The undo data of a session on disk."""
    folder = paths.undo_folder(paths.session_folder(home, session_id))
    return _open_undo_folder(config, folder, marker=paths.unfinished_undo(home, session_id))


def _open_undo_folder(config: Config, folder: Path, **more: Any) -> Undo:
    file, session = config.undo.max_file_mb * MEGABYTE, config.undo.max_session_mb * MEGABYTE
    return replace(open_undo(folder, max_file_bytes=file, max_bytes=session), **more)


def _find_named_files(project: Path) -> frozenset[str]:
    from kode.sandbox.named import find_named

    return find_named(project)


def open_sandbox(config: Config, place: Workplace) -> Sandbox | None:
    """The sandbox of a workplace, not yet tried. Raises: ConfigError for bad rules."""
    if config.sandbox.enabled is False:
        return None
    rules = read_rules(config)
    grants = Grants(network=config.sandbox.network, read=paths_to_read(rules, place))
    return Sandbox(place=place, grants=grants, denied=path_denier(rules, place))


async def run_check(
    command: str, *, cwd: Path, mode: PermissionMode | None = None, timeout_s: float
) -> "ProgramRun":
    """Runs a shell command that checks the work in `cwd`, in a sandbox that drops its changes, or
    without one in mode `full`; see `run_recording_opens`. The mode defaults to the configured one.
    Raises: ConfigError."""
    home = paths.kode_home()
    config = load_config(home, cwd, environ=os.environ, flags={}).config
    if (mode or config.permissions.mode) == "full":
        config = replace(config, sandbox=SandboxPart(enabled=False))
    argv = ("/bin/bash", "-o", "pipefail", "-c", command)
    ran, _ = await run_recording_opens(config, open_workplace(config, home, cwd), argv, timeout_s)
    return ran


async def run_recording_opens(
    config: Config, place: Workplace, argv: Sequence[str], timeout_s: float
) -> "tuple[ProgramRun, Opens]":
    """Runs a program in a sandbox of its own, which drops its changes, and returns which files it
    opened. Without a sandbox on this machine it runs unprotected, and no files are reported."""
    from kode.tools.processes import run_program

    sandbox, opens = open_sandbox(config, place), Interest(records_opens=True)
    if sandbox is not None and (await asyncio.to_thread(sandbox.support)).kind == "none":
        sandbox = None
    program = partial(run_program, argv, cwd=place.cwd, environment=place.environment)
    try:
        ran = await program(timeout_s=timeout_s, sandbox=sandbox, interest=opens)
    finally:
        if sandbox is not None:
            await asyncio.to_thread(sandbox.close)
    return ran, ran.opened or Opens(project=(), scripts=(), elsewhere=())


def _open_budget(config: Config, session: Session, start: "Start | None") -> SharedBudget | None:
    """The budget named in the settings; read-only for a subagent, because its parent adds its
    spending. Raises: ConfigError for a file that is missing or states no limit."""
    if config.shared_budget is None:
        return None
    path = paths.expand_path(config.shared_budget)
    budget = SharedBudget(path, by=session.id or "", only_looks=start is not None)
    budget.refresh()
    if math.isinf(budget.limit_usd):
        limit = '{"limit_usd": 5.0}'
        raise ConfigError(f"--shared-budget {path} has no limit: it must start with {limit}")
    return budget


def _make_opening_renderer(
    config: Config, place: Workplace, marks: Provenance, emit: Emit
) -> Callable[[int], Mapping[str, str]]:
    """Makes a function that renders the sections about the workplace, for the current day. It reads
    the project's instructions on first use: until then a person may be asked to approve them."""

    @cache
    def read_section() -> str:
        read = read_instructions(place.home, place.cwd)
        if read.warning:
            emit(Notice(text=read.warning))
        for source in read.sources:
            marks.keep_loaded(source.path, source.text, source.sha256)
        return read.section

    return lambda window: opening_sections(
        window=window,
        cwd=place.cwd,
        repository=paths.repository_root(place.cwd),
        today=datetime.now().astimezone().date(),
        project_instructions=read_section() if config.agents_files else "",
    )

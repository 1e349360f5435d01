"""One MCP server in a session: opens its connection in the sandbox, watches it, and compares its
tools with the pinned ones. A failure is reported to the person and fails only the waiting call.

A server starts without a network. If it has never started before and needs the network, a person is
asked to allow one start with internet access (see `mcp_proxy`). In that start its launcher (`npx`,
`uvx`, `bunx`) downloads into a folder of the server's own, which must suffice from then on, even if
the server failed in that start. A changed entry begins with an empty folder.
"""

import asyncio
import contextlib
import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kode import durable, paths
from kode.errors import ConfigError, KodeError, ServerError, Setting
from kode.events import Emit, Notice
from kode.extensions import trust
from kode.extensions.mcp_config import (
    LOGIN_TIMEOUT_S,
    SOCKET,
    START_TIMEOUT_S,
    Elicit,
    Offering,
    ServerEntry,
    ServerFields,
    ToolDefinition,
    find_servers,
    resolve,
)
from kode.extensions.trust import Approvals, Approved, Candidate
from kode.installed import require_extra
from kode.values import Value, dataclass, field, replace
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.extensions.mcp_connection import Connection
    from kode.extensions.mcp_proxy import InternetProxy
    from kode.sandbox.sandbox import Attempt, Sandbox

DOWNLOAD_TIMEOUT_S = 600.0  # hundreds of MB, such as a browser
"""Time limit of a start with the network."""
RELIST_PAUSE_S = 1.0
"""Pause before changed lists are read again: a server may report changes endlessly."""

INTERNET = "It can connect to public addresses, not to this machine or your private network."
NETWORK = "It can connect to the internet, your local network and programs here (localhost)."
"""What a start can reach, for the person: with a network of its own, and without one."""
LAUNCHERS = ("npx", "uvx", "bunx", "pnpx")
"""Programs whose first start in an empty folder is a download."""
_FOLDERS = {
    "npm_config_cache": "npm",
    "npm_config_store_dir": "pnpm",
    "BUN_INSTALL_CACHE_DIR": "bun",
    "BUN_TMPDIR": "bunx",
    "UV_TOOL_DIR": "uv-tools",
    "PIPX_HOME": "pipx",
}
"""Variable → folder in the cache, for programs that ignore `XDG_CACHE_HOME`, which the sandbox sets
to the cache."""
_QUICK = {"npm_config_fetch_retries": "0", "UV_HTTP_RETRIES": "0"}
"""Makes a launcher without a network fail at once, instead of retrying for minutes."""
_OFFLINE = {"npm_config_offline": "true", "UV_OFFLINE": "1"}
"""Makes a launcher use what it has, without asking for newer versions."""
_NETWORK = {"socket", "lookup", "connection", "port"}
"""The refusals that mean that the network is missing, as in `Blocked.what`."""


@dataclass(eq=False, repr=False, kw_only=True)
class DownloadNeededError(ServerError):
    """A server that never started here needs the network, which it does not have."""

    item: Candidate
    """The start that a person may approve."""


# ── opening a connection ─────────────────────────────────────────────────────────────────────


class Opener(Value):
    """Opens a session's servers in the project's root, even if `place` is a folder below it."""

    place: Workplace
    sandboxed: bool
    """False if the person turned the sandbox off; servers of `FOREIGN` scope then need approval."""
    required: bool = False
    """Whether nothing may run without a sandbox. If not, a server may if a person approved it."""
    denied: Callable[[str], bool] = lambda path: False
    """See `Sandbox`."""
    trust_project: bool = False
    """Whether the project's servers are used without being compared with their pins."""
    elicit: Elicit | None = None
    tell: Callable[[str], None] | None = None
    """See `mcp_connection.connect`."""

    @asynccontextmanager
    async def __call__(self, entry: ServerEntry) -> "AsyncIterator[Connection]":
        """Starts or reaches the server of an entry. Raises: ConfigError, ServerError;
        DownloadNeededError if `download` may help."""
        place, is_first = self.place, self.needs_start(entry)
        pinned = entry.scope == "project" and not self.trust_project
        if pinned:
            _check_unchanged(entry, trust.load(place.home, place.project))
        start = await self._start(entry, pinned=pinned)
        limit_s = LOGIN_TIMEOUT_S if start.server.url and self.tell else START_TIMEOUT_S
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(limit_s):
                    connection = await stack.enter_async_context(await self._connect(start))
                if start.wrapped is not None:
                    opened = start.wrapped.list_opened()
                    if pinned and opened is not None:
                        pin = partial(trust.pin_loads, place.home, place.project, entry.item)
                        _check_unchanged(entry, await asyncio.to_thread(pin, opened.project))
                    await asyncio.to_thread(_mark_started, entry, place.home)
                connection.find_refusals = start.find_refusals
                yield connection
        except (TimeoutError, ServerError) as error:
            late = ServerError(f"it did not start in {limit_s:g} s")
            failure = error if isinstance(error, ServerError) else late
            raise start.explain(failure, is_first) from error

    async def download(self, entry: ServerEntry, approved: Candidate) -> None:
        """Starts a server once with the network, as approved, so that its launcher fills its cache,
        and ends it. Meanwhile it sees no other project and cannot change this one, so it may fail.
        Raises: ConfigError; ServerError, also if it tried to reach more than the internet."""
        start = await self._start(entry, approved=approved)
        proxy, failure = start.proxy, None
        serving = proxy.serve() if proxy else contextlib.nullcontext()
        try:
            async with serving, asyncio.timeout(DOWNLOAD_TIMEOUT_S), await self._connect(start):
                is_filled = True
        except TimeoutError:
            late = f"it did not start in {DOWNLOAD_TIMEOUT_S:g} s, with the network"
            raise start.explain(ServerError(late)) from None
        except ServerError as error:
            files = cache_folder(entry, self.place.home) / "files"
            is_filled = any(files.iterdir()) and (proxy is None or proxy.connections > 0)
            failure = None if is_filled and not (proxy and proxy.refused) else error
        if is_filled:
            await asyncio.to_thread(_mark_started, entry, self.place.home)
        if failure is not None:
            raise start.explain(failure)

    def needs_start(self, entry: ServerEntry) -> bool:
        """Whether a sandboxed server never ran with its current entry: it may need a download."""
        in_sandbox = "command" in entry.values and not entry.values.get("outside")
        has_started = is_filled(cache_folder(entry, self.place.home))
        return self.sandboxed and in_sandbox and not has_started

    async def _start(
        self, entry: ServerEntry, *, pinned: bool = False, approved: Candidate | None = None
    ) -> "_ServerStart":
        """Prepares a start; `approved` makes it a download. Raises: ConfigError, also if it may run
        only outside without approval for that; ServerError, SandboxUnknownError, StorageError."""
        require_extra("mcp")
        server, place = resolve(entry, os.environ), self.place
        if entry.scope == "bundle" and entry not in find_servers(place.home, place.project)[0]:
            raise ConfigError("its bundle changed since you approved it: `kode extensions list`")
        start = _ServerStart(entry, server)
        if not server.command:
            return start
        why = "it is to run without a sandbox" if server.outside else ""
        if not self.sandboxed and entry.scope in trust.FOREIGN:
            why = why or "the sandbox is off"
        if self.sandboxed and not server.outside:
            if await asyncio.to_thread(self._wrap_in_sandbox, start, pinned, approved):
                return start
            why = "there is no sandbox here (`kode doctor` says more)"
        approvals = trust.load(place.home, place.project)
        is_approved = trust.state(trust.outside_item(entry.item), approvals) == "trusted"
        if why and (self.required or not is_approved):
            raise ConfigError(
                f"{why}: it starts only after `kode extensions approve {entry.name} --outside`."
            )
        return start

    def _wrap_in_sandbox(
        self, start: "_ServerStart", pinned: bool, approved: Candidate | None
    ) -> bool:
        """Puts a server's program in the sandbox; False if there is none here. Blocks: call it in a
        thread. Raises: ConfigError if `read` names the whole home; ServerError,
        SandboxUnknownError, StorageError."""
        from kode.extensions.mcp_proxy import InternetProxy
        from kode.sandbox.reach import Grants
        from kode.sandbox.sandbox import ProgramError, Sandbox

        server, user_home = start.server, paths.user_home()
        folder = cache_folder(start.entry, self.place.home)
        shown = tuple(Path(paths.real_path(paths.expand_path(path))) for path in server.read)
        for path in shown:
            if user_home and user_home.is_relative_to(path):
                raise ConfigError(f"`read` names {path}, all of your home: name a folder in it.")
        durable.make_folder(files := folder / "files")
        place = replace(self.place, cwd=self.place.project)
        writes, cache = server.write and not approved, Path(paths.real_path(files))
        if approved:  # of the person's folders, it sees only the project
            place = replace(place, roots=(), readable=())
        grants = Grants(network=server.network, project=writes, read=shown, cache=cache)
        sandbox = Sandbox(place=place, grants=grants, has_layers=False, denied=self.denied)
        if approved:
            sandbox.siblings = ()
        if (kind := sandbox.support().kind) == "none":
            return False
        start.sandbox, environment = sandbox, dict(server.environment)
        start.item = download_item(start.entry, sandbox.reach(kind).network == "loopback")
        variables = {name: str(files / below) for name, below in _FOLDERS.items()}
        program, has_started = Path(server.program).name, is_filled(folder)
        try:
            if approved and approved.content.endswith(INTERNET):
                known = {**os.environ, **environment}
                upstream = known.get("https_proxy") or known.get("HTTPS_PROXY", "")
                start.proxy = InternetProxy(sandbox.loopback().listen(), upstream)
                environment |= start.proxy.variables()
            elif approved:
                sandbox.grants = replace(grants, network=True)
            elif not server.network:
                variables |= _QUICK | (_OFFLINE if has_started else {})
                if program in LAUNCHERS and not has_started:
                    text = f"it never ran here, and {program} has to download it"
                    raise DownloadNeededError(text, item=start.item)
            start.wrapped = sandbox.start_program(server.command, records_opens=pinned)
        except ProgramError as error:
            raise ServerError(f"{error}{_advise_to_show(error.hidden)}") from error
        except (OSError, subprocess.SubprocessError) as error:
            raise ServerError(f"its sandbox could not be made: {error}") from error
        start.server = server.model_copy(update={"environment": {**variables, **environment}})
        return True

    async def _connect(self, start: "_ServerStart") -> "AbstractAsyncContextManager[Connection]":
        await asyncio.to_thread(importlib.import_module, "kode.extensions.mcp_connection")
        from kode.extensions.mcp_connection import connect

        return connect(start.server, start.wrapped, self.place, self.tell, self.elicit)


@dataclass
class _ServerStart:
    """A server about to start."""

    entry: ServerEntry
    server: ServerFields
    sandbox: "Sandbox | None" = None
    wrapped: "Attempt | None" = None
    proxy: "InternetProxy | None" = None
    item: Candidate = field(init=False)
    """The download that a person may approve; set only if the program runs in the sandbox."""

    def find_refusals(self) -> str:
        """Sentences on what the sandbox has refused the server, and which setting allows it; "" if
        it refused nothing."""
        kinds = {hit.what for hit in self.wrapped.find_blocked()} if self.wrapped else set[str]()
        targets = ", ".join(self.proxy.refused) if self.proxy else ""
        refused = {
            "network": targets or ("the network" if kinds & _NETWORK else ""),
            "write": "a change of files" if "write" in kinds else "",
        }
        return "".join(
            f' The sandbox refused it {what}: `"{key}": true` in its entry allows that (`kode mcp '
            f"add --{key}`)."
            for key, what in refused.items()
            if what and not self.entry.values.get(key)
        )

    def explain(self, failure: ServerError, is_first: bool = False) -> ServerError:
        """Adds advice about the sandbox to a failure; `is_first`: the server has never started."""
        fault, advice, sandbox = failure.fault.rstrip("."), self.find_refusals(), self.sandbox
        named = [word for word in self.server.command[1:] if "/" in word]
        wants_network = is_first and not self.server.network
        if hidden := [it for word in named if sandbox for it in sandbox.hidden_paths(word)]:
            advice = f" The sandbox hides {' and '.join(hidden)}{_advise_to_show(hidden)}"
        elif sandbox and SOCKET in fault:
            what = "no unix socket, such as that of a container engine"
            advice = f' The sandbox allows {what}: `"outside": true` in its entry runs it without.'
        elif wants_network and (sys.platform == "darwin" or "network" in advice):
            text = "it never ran here, and reached for the network, perhaps for a download"
            return DownloadNeededError(f"{text} ({fault})", item=self.item)
        details = {"untrusted": failure.untrusted, "fault": f"{fault}.{advice}"}
        return ServerError(f"{failure.text.rstrip('.')}.{advice}", **details) if advice else failure


def _advise_to_show(hidden: Sequence[str]) -> str:
    shown = json.dumps(list(hidden))
    return f'. `"read": {shown}` in its entry, or folders around, shows it.' if hidden else ""


def _check_unchanged(entry: ServerEntry, approvals: Approvals) -> None:
    """Raises: ConfigError if an approved server, or what it loads, has changed."""
    if trust.state(entry.item, approvals) == "changed":
        what = f"`kode mcp approve {entry.name}` shows the change"
        raise ConfigError(f"it, or what it loads, has changed, so it stays off: {what}.")


# ── what launchers download ──────────────────────────────────────────────────────────────────


def download_item(entry: ServerEntry, is_alone: bool = True) -> Candidate:
    """The item that a person approves: one start of this command with the network. `is_alone`: in a
    network of its own, which reaches only the internet."""
    values = entry.values
    written = {key: values[key] for key in ("command", "args", "read") if key in values}
    written["env"] = sorted(values.get("env", {}))
    text, reaches = json.dumps(written, indent=2, ensure_ascii=False), (NETWORK, INTERNET)[is_alone]
    content = "\n".join((text, *entry.files_of_command(), reaches))
    return replace(entry.item, kind="mcp-download", content=content)


def cache_folder(entry: ServerEntry, home: Path) -> Path:
    """The folder for a server's downloads with its current entry; it may not exist yet."""
    content = trust.digest(download_item(entry))
    return paths.mcp_cache_folder(home, f"{_cache_key(entry)}-{content[:16]}")


def is_filled(folder: Path) -> bool:
    """Whether a server has started with this cache folder, or a download has filled it."""
    # The server cannot write here: if it could remove this file, it would download again.
    return (folder / "started").exists()


def remove_caches(entry: ServerEntry, home: Path, *, but: Path | None = None) -> None:
    """Removes a server's cache folders for all forms of its entry, except `but`. Never raises."""
    for folder in paths.mcp_cache_folder(home, "x").parent.glob(f"{_cache_key(entry)}-*"):
        if folder != but:
            shutil.rmtree(folder, ignore_errors=True)


def _mark_started(entry: ServerEntry, home: Path) -> None:
    """Marks the cache folder as filled, and removes what earlier forms of the entry downloaded.
    Raises: StorageError."""
    folder = cache_folder(entry, home)
    if not is_filled(folder):
        durable.replace_file(folder / "started", b"")
        remove_caches(entry, home, but=folder)


def _cache_key(entry: ServerEntry) -> str:
    return hashlib.sha256(f"{entry.origin}\n{entry.name}".encode()).hexdigest()[:16]


# ── its life in a session ────────────────────────────────────────────────────────────────────


@dataclass
class McpServer:
    """A server of this session. The tools that were last approved are known before it runs, so that
    they can be offered without starting it."""

    entry: ServerEntry
    home: Path
    open: Callable[[ServerEntry], "AbstractAsyncContextManager[Connection]"]
    """An `Opener`."""
    emit: Emit
    pins: bool = True
    """Whether definitions are pinned; False for an editor's server and a wholly trusted project."""
    definitions: Mapping[str, ToolDefinition] = field(default_factory=dict)
    """The usable tools, by name; the approved ones until the server runs."""
    held: tuple[str, ...] = ()
    """Tools that are off because they differ from the approved ones."""
    prompts: tuple[Offering, ...] = ()
    left_out: tuple[str, ...] = ()
    """See `mcp_connection.Connection`."""
    fault: str = ""
    """Why the server does not run; "" while it runs or is starting."""
    download: Candidate | None = None
    """The start with the network that a person must approve before the server can run."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the first start has succeeded or failed."""
    _connection: "Connection | None" = None
    _life: "asyncio.Task[None] | None" = None

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def setting(self) -> Setting:
        return Setting(f"mcpServers.{self.name}", str(self.entry.origin))

    @property
    def runs(self) -> bool:
        return self._connection is not None

    def start(self) -> None:
        """Starts it in the background, unless it runs, is starting, or needs a download."""
        if self._life is None or (self._life.done() and not self.download):
            self.settled.clear()
            self._life = asyncio.ensure_future(self._run_connection())

    async def stop(self) -> None:
        """Ends the server and everything it started."""
        if self._life is not None:
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
            self._life = self.download = None
            self.settled.clear()

    async def connect(self) -> "Connection":
        """Returns the connection. Starts the server if needed, and waits up to `START_TIMEOUT_S`
        for it. Raises: ServerError that says why there is none, and what happens next."""
        self.start()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.settled.wait(), START_TIMEOUT_S)
        if self._connection is not None:
            return self._connection
        why = f" ({self.fault})" if self.fault else ""
        text = f"The MCP server {self.name} is not running{why}."
        is_over = self._life is None or self._life.done()
        if not is_over:
            text += " It is starting: try again later."
        elif not self.download:
            text += " The next call starts it again."
        untrusted = self.name if self.fault else ""  # a fault may be in the server's own words
        raise ServerError(text, untrusted=untrusted).about(self.setting if is_over else None)

    async def _run_connection(self) -> None:
        try:
            await self._run()
        except KodeError as error:
            self.download = error.item if isinstance(error, DownloadNeededError) else None
            fault = error.fault if isinstance(error, ServerError) else str(error)
            if self.download:  # whoever opens the session asks
                self.fault = f"{fault}. `kode mcp test {self.name}` asks whether it may"
            else:
                self.report(fault)
        except Exception as error:  # a fault of the SDK must not end the session
            self.report(f"{type(error).__name__}: {error}")
        finally:
            self._connection = None
            self.settled.set()

    async def _run(self) -> None:
        """Runs the server until its connection ends. Raises: ServerError, ConfigError."""
        async with self.open(self.entry) as connection:
            await self._look_at(connection)
            self._connection, self.fault = connection, ""
            self.settled.set()
            closed, news = connection.closed, connection.news
            closed.add_done_callback(lambda closed: news.set())
            while await news.wait() and not closed.done():
                news.clear()
                await self._look_at(connection)
                await asyncio.sleep(RELIST_PAUSE_S)
            raise ServerError(closed.result())

    async def _look_at(self, connection: "Connection") -> None:
        tools = await connection.tools()
        self.prompts = await connection.offerings("prompts")
        for what in (it for it in connection.left_out if it not in self.left_out):
            self.emit(Notice(text=f"The MCP server {self.name} is used without its {what}."))
        self.left_out = tuple(connection.left_out)
        held = await asyncio.to_thread(self._hold_back, tools)
        self.definitions = {name: tool for name, tool in tools.items() if name not in held}
        if held and held != self.held:
            text = f"The MCP server {self.name} has changed tools you approved: {', '.join(held)}. "
            self.emit(Notice(text=f"{text}They are off until `kode mcp approve {self.name}`."))
        self.held = held

    def _hold_back(self, tools: Mapping[str, ToolDefinition]) -> tuple[str, ...]:
        if not self.pins:
            return ()
        approvals = trust.load(self.home, self.entry.root)
        if approvals.problem:
            self.emit(Notice(text=approvals.problem))
            return tuple(tools)
        try:
            keep_pins(self.home, self.entry, tools, approvals)
        except KodeError as error:
            self.emit(Notice(text=f"The tools of {self.name} could not be pinned. {error}"))
        return tools_held_back(self.entry, tools, approvals)

    def report(self, fault: str) -> None:
        if fault != self.fault:
            self.emit(Notice(text=f"The MCP server of {self.setting} is off: {fault}"))
        self.fault = fault


def pinned_definitions(entry: ServerEntry, approvals: Approvals) -> Mapping[str, ToolDefinition]:
    """The approved tools of a server, by name; empty for one that never ran."""
    pins = (ToolDefinition(json.loads(pin.content)) for pin in saved_pins(entry, approvals))
    return {definition.name: definition for definition in pins}


def tools_held_back(
    entry: ServerEntry, definitions: Mapping[str, ToolDefinition], approvals: Approvals
) -> tuple[str, ...]:
    """The names of the tools that are off because they differ from the approved ones. A server's
    first definitions are never held back, because the server itself was approved."""
    if not saved_pins(entry, approvals):
        return ()
    items = zip(definitions, pins_of(entry, definitions), strict=True)
    return tuple(name for name, item in items if trust.state(item, approvals) != "trusted")


def keep_pins(
    home: Path, entry: ServerEntry, definitions: Mapping[str, ToolDefinition], approvals: Approvals
) -> None:
    """Pins a server's first definitions; drops the pins of tools that it no longer has. Raises:
    StorageError, BusyError; then its pins are as before."""
    pins, items = saved_pins(entry, approvals), pins_of(entry, definitions)
    if not pins:
        trust.approve_items(home, entry.root, items)
        return
    names = {item.name for item in items}
    gone = [approval for approval in pins if approval.name not in names]
    # One pin has to stay: a server without any would have its next tools pinned unseen.
    if gone and len(tools_held_back(entry, definitions, approvals)) < len(definitions):
        trust.revoke_approvals(home, entry.root, gone)


def forget_server(home: Path, entry: ServerEntry, approvals: Approvals) -> None:
    """Removes a server's approvals, pins and caches, because a new server with the same name has
    not been approved. Raises: StorageError, BusyError."""
    those = (item for item in approvals.items if item.origin == str(entry.origin))
    if gone := [item for item in those if item.name.partition(":")[0] == entry.name]:
        trust.revoke_approvals(home, entry.root, gone)
    remove_caches(entry, home)


def saved_pins(entry: ServerEntry, approvals: Approvals) -> list[Approved]:
    """The pins of a server's tools, as they were approved."""
    prefix, origin = f"{entry.name}:", str(entry.origin)
    of_tools = (item for item in approvals.items if item.kind == "mcp-tool")
    return [it for it in of_tools if it.name.startswith(prefix) and it.origin == origin]


def pins_of(entry: ServerEntry, definitions: Mapping[str, ToolDefinition]) -> tuple[Candidate, ...]:
    """The items that pin a server's tools, in the order of `definitions`."""
    whole, prefix = replace(entry.item, kind="mcp-tool"), f"{entry.name}:"
    pairs = definitions.items()
    return tuple(replace(whole, name=prefix + name, content=it.content) for name, it in pairs)

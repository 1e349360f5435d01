"""Opens the connection of a configured entry: variables, sandbox, cache, login. Imports the SDK in
a thread, only when a server is about to start.

A server starts without a network. If it has never started before and reached for the network, a
person is asked for one start with it, which fills a folder of its own with what its launcher
downloads (`npx`, `uvx`, `bunx`); from then on what lies there has to do. The folder belongs to the
entry's content: a changed entry begins with an empty one.
"""

import asyncio
import hashlib
import importlib
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import durable, extras, paths
from kode.errors import ConfigError, SandboxUnknownError, ServerError
from kode.extensions import trust
from kode.extensions.mcp_config import SOCKET, Elicit, Entry, Server, find_servers, resolve
from kode.extensions.trust import Approvals, Item
from kode.paths import real_path
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.extensions.mcp_connection import Connection
    from kode.sandbox.attempt import Attempt
    from kode.sandbox.sandbox import Sandbox

DOWNLOAD_TIMEOUT_S = 600.0  # hundreds of MB, such as a browser
"""Time limit of the start with the network."""

_FOLDERS = {
    "npm_config_cache": "npm",
    "npm_config_store_dir": "pnpm",
    "YARN_CACHE_FOLDER": "yarn",
    "BUN_INSTALL_CACHE_DIR": "bun",
    "BUN_TMPDIR": "bunx",
    "DENO_DIR": "deno",
    "UV_CACHE_DIR": "uv",
    "UV_TOOL_DIR": "uv-tools",
    "PIPX_HOME": "pipx",
    "PIP_CACHE_DIR": "pip",
}
"""Variable → folder in the cache. `XDG_CACHE_HOME`, which the sandbox sets, is the cache itself."""

_QUICK = {
    "npm_config_update_notifier": "false",
    "npm_config_fetch_retries": "0",
    "UV_HTTP_RETRIES": "0",
}
"""So that a launcher without a network ends at once, instead of trying for minutes."""
_OFFLINE = {"npm_config_offline": "true", "UV_OFFLINE": "1"}
"""So that it takes what it has without asking whether there is something newer."""

FIRST_START_S = 25.0
"""Time limit of a first start without the network; less than `START_TIMEOUT_S`, to say why."""

_NETWORK = ("socket", "lookup", "connection", "port")

Tell = Callable[[str], None]


class DownloadNeededError(ServerError):
    """A server that never started reached for the network, which it does not have."""


@dataclass(frozen=True, kw_only=True)
class Opener:
    """Opens servers for a session in `place`, whose working directory is the project's root."""

    place: Workplace
    sandboxed: bool
    """False if the person turned the sandbox off, which lets only their own run without."""
    required: bool = False
    """Whether nothing may run without a sandbox. Else a server does if a person approved that."""
    denied: Callable[[str], bool] = lambda path: False
    """See `Sandbox`."""
    trust_project: bool = False
    """Whether none of the project's is pinned."""
    elicit: Elicit | None = None
    tell: Tell | None = None
    """See `mcp_connection.connect`."""

    @asynccontextmanager
    async def __call__(self, entry: Entry) -> "AsyncIterator[Connection]":
        """Starts or reaches the server of an entry.

        Raises: ConfigError, ServerError; DownloadNeededError if `download` may help.
        """
        place, is_first = self.place, self.needs_start(entry)
        pinned = entry.scope == "project" and not self.trust_project
        if pinned:
            _check(entry, trust.load(place.home, place.project))
        start = await self._start(entry, pinned=pinned)
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(FIRST_START_S if is_first else None):
                    connection = await stack.enter_async_context(self._connected(start))
                opened = start.wrapped.opened() if start.wrapped is not None else None
                if pinned and opened is not None:
                    approvals = await asyncio.to_thread(
                        trust.pin_loads, place.home, place.project, entry.item, opened.project
                    )
                    _check(entry, approvals)
                if start.wrapped is not None:
                    await asyncio.to_thread(_mark_started, entry, place.home)
                yield connection
        except (ServerError, TimeoutError) as error:
            if start.wrapped is None or not self.needs_start(entry):
                raise
            raise self._explained(start, error, start.wrapped) from error

    async def download(self, entry: Entry) -> None:
        """Starts an approved server once with the network, so that its launcher fills its cache,
        and ends it. It cannot change the project meanwhile.

        Raises: ConfigError, ServerError.
        """
        start = await self._start(entry, downloads=True)
        try:
            async with asyncio.timeout(DOWNLOAD_TIMEOUT_S), self._connected(start):
                await asyncio.to_thread(_mark_started, entry, self.place.home)
        except TimeoutError as error:
            late = f"it did not start within {DOWNLOAD_TIMEOUT_S:g} s, with the network"
            raise ServerError(late) from error

    def needs_start(self, entry: Entry) -> bool:
        """Whether it never started in the sandbox as its entry is now: it may need a download."""
        in_sandbox = "command" in entry.values and not entry.values.get("outside")
        has_started = is_filled(cache_folder(entry, self.place.home))
        return self.sandboxed and in_sandbox and not has_started

    async def _start(
        self, entry: Entry, *, pinned: bool = False, downloads: bool = False
    ) -> "_Start":
        """Raises: ConfigError, StorageError."""
        server, place = resolve(entry, os.environ), self.place
        if entry.scope == "bundle" and entry not in find_servers(place.home, place.cwd).entries:
            raise ConfigError("its bundle changed since you approved it: `kode extensions list`")
        if downloads:
            server = server.model_copy(update={"write": False, "network": True})
        if not server.command:
            return _Start(server)
        may_leave = not self.required and _may_leave(entry, place)
        if self.sandboxed and not server.outside:
            folder = cache_folder(entry, place.home)
            try:
                sandbox = await asyncio.to_thread(self._open_sandbox, server, folder)
            except ConfigError:
                if not may_leave:
                    raise
                return _Start(server)
            variables = {**_cache_variables(folder, server.network), **server.environment}
            return _Start(server.model_copy(update={"environment": variables}), sandbox, pinned)
        if not may_leave and (server.outside or entry.scope in trust.FOREIGN):
            why = "it is to run without a sandbox" if server.outside else "the sandbox is off"
            raise ConfigError(
                f"{why}, and it is not started so unless you say so. `kode` asks once at a "
                f"terminal, `kode extensions approve {entry.name} --outside` says it before."
            )
        return _Start(server)

    def _open_sandbox(self, server: Server, folder: Path) -> "Sandbox":
        """Raises: ConfigError without a sandbox, or for what cannot be shown; ServerError where
        nobody knows whether there is one; StorageError."""
        from kode.sandbox.reach import Grants
        from kode.sandbox.sandbox import Sandbox

        user_home = paths.user_home()
        shown = tuple(Path(real_path(paths.expand(path))) for path in server.read)
        for path in shown:
            if user_home and user_home.is_relative_to(path):
                raise ConfigError(
                    f"`read` names {path}, with all of your home: name a folder in it."
                )
        files = folder / "files"
        durable.make_folder(files)
        grants = Grants(
            network=server.network,
            project=server.write,
            read=shown,
            cache=Path(real_path(files)),
        )
        sandbox = Sandbox(place=self.place, grants=grants, has_layers=False, denied=self.denied)
        try:
            if sandbox.is_available():
                return sandbox
        except SandboxUnknownError as error:
            raise ServerError(str(error)) from error
        raise ConfigError(
            f"there is no sandbox here ({sandbox.why_missing().rstrip('.')}), and without one it "
            "is not started unless you say so. `kode` asks once at a terminal; `kode doctor` says "
            "what is missing."
        )

    @asynccontextmanager
    async def _connected(self, start: "_Start") -> "AsyncIterator[Connection]":
        extras.require("mcp")
        client = await asyncio.to_thread(importlib.import_module, "kode.extensions.mcp_connection")
        async with client.connect(
            start.server,
            wrap=start,
            cwd=self.place.project,
            home=self.place.home,
            tell=self.tell,
            elicit=self.elicit,
        ) as connection:
            yield connection

    def _explained(
        self, start: "_Start", error: ServerError | TimeoutError, wrapped: "Attempt"
    ) -> ServerError:
        """Why a server did not start that never did here before."""
        late = f"it did not start within {FIRST_START_S:g} s"
        fault = error.fault.rstrip(".") if isinstance(error, ServerError) else late
        words = [word for word in start.server.command[1:] if "/" in word]
        sandboxes = [start.sandbox] if start.sandbox is not None else []
        if hidden := [it for box in sandboxes for word in words for it in box.hidden_paths(word)]:
            names = " and ".join(hidden)
            return ServerError(f"{fault}. The sandbox hides {names} from it. {_shows(hidden)}")
        if SOCKET in fault:
            return ServerError(
                f"{fault}. The sandbox allows no unix socket, such as that of a container engine: "
                '`"outside": true` in its entry runs it without one, once you have said yes.'
            )
        reached = sys.platform == "darwin" or any(
            block.what in _NETWORK for block in wrapped.blocked()
        )
        if not start.server.network and reached:
            return DownloadNeededError(
                f"it never ran here, and reached for the network, perhaps for a download ({fault})"
            )
        return error if isinstance(error, ServerError) else ServerError(fault)


def opener(place: Workplace, **terms: Any) -> Opener:
    """An opener for a session in `place`. Entries are relative to the project's root, wherever in
    it the session works."""
    return Opener(place=replace(place, cwd=place.project), **terms)


@dataclass
class _Start:
    """A server about to start; called with its command when it does."""

    server: Server
    sandbox: "Sandbox | None" = None
    records_opens: bool = False
    wrapped: "Attempt | None" = None

    def __call__(self, argv: tuple[str, ...]) -> "Attempt | None":
        from kode.sandbox.sandbox import ProgramError

        if self.sandbox is None:
            return None
        try:
            self.wrapped = self.sandbox.start_program(argv, records_opens=self.records_opens)
        except ProgramError as error:
            shows = f". {_shows(error.hidden)}" if error.hidden else ""
            raise ServerError(f"{error}{shows}") from error
        return self.wrapped


def _shows(hidden: Sequence[str]) -> str:
    return f'`"read": {json.dumps(list(hidden))}` in its entry, or folders around, shows it.'


def _may_leave(entry: Entry, place: Workplace) -> bool:
    """Whether a person approved that it runs without a sandbox."""
    approvals = trust.load(place.home, place.project)
    return trust.state(trust.outside(entry.item), approvals) == "trusted"


def _check(entry: Entry, approvals: Approvals) -> None:
    """Raises: ConfigError if an approved server, or what it loads, has changed."""
    if trust.state(entry.item, approvals) == "changed":
        raise ConfigError(
            "it, or what it loads, has changed since you approved it, so it stays off: "
            f"`kode mcp approve {entry.name}` shows the change."
        )


# ── what launchers download ──────────────────────────────────────────────────────────────────


def download_item(entry: Entry) -> Item:
    """What a person approves: one start of this command with the network."""
    values = entry.values
    named = {key: values[key] for key in ("command", "args", "read") if key in values}
    named["env"] = sorted(values.get("env", {}))
    content = [json.dumps(named, indent=2, ensure_ascii=False), *entry.files_of_command(), ""]
    return replace(entry.item, kind="mcp-download", content="\n".join(content))


def cache_folder(entry: Entry, home: Path) -> Path:
    """Where downloads of a server lie, as its entry is now; not made yet."""
    content = trust.digest(download_item(entry))
    return paths.mcp_cache_folder(home, f"{_cache_key(entry)}-{content[:16]}")


def is_filled(folder: Path) -> bool:
    """Whether its server has started before with what is in it."""
    # Beside what the server may write to: if it could remove this, it would download again.
    return (folder / "started").exists()


def remove_caches(entry: Entry, home: Path, *, but: Path | None = None) -> None:
    """Removes the folders of a server, in all forms of its entry. Never raises."""
    for folder in paths.mcp_cache_folder(home, "x").parent.glob(f"{_cache_key(entry)}-*"):
        if folder != but:
            shutil.rmtree(folder, ignore_errors=True)


def _mark_started(entry: Entry, home: Path) -> None:
    """Notes that the server has started, and removes what earlier forms of its entry downloaded.
    Raises: StorageError."""
    folder = cache_folder(entry, home)
    if not is_filled(folder):
        durable.replace(folder / "started", b"")
        remove_caches(entry, home, but=folder)


def _cache_variables(folder: Path, network: bool) -> Mapping[str, str]:
    """The variables that lead launchers to a folder."""
    variables = {name: str(folder / "files" / below) for name, below in _FOLDERS.items()}
    offline = {} if network else {**_QUICK, **(_OFFLINE if is_filled(folder) else {})}
    return {**variables, **offline}


def _cache_key(entry: Entry) -> str:
    return hashlib.sha256(f"{entry.origin}\n{entry.name}".encode()).hexdigest()[:16]

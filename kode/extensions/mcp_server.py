"""One MCP server in a session: starts and watches it; compares its tools with the pinned ones.

A failure costs a line for the person and an error for the waiting call; the next call starts it
again.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kode.errors import KodeError, ServerError, Setting
from kode.events import Emit, Notice
from kode.extensions import trust
from kode.extensions.mcp_config import START_TIMEOUT_S, Definition, Entry, Offer
from kode.extensions.mcp_open import DownloadNeededError, remove_caches
from kode.extensions.trust import Approvals, Approved, Item

if TYPE_CHECKING:
    from kode.extensions.mcp_connection import Connection

RELIST_PAUSE_S = 1.0
"""Pause between two updates of lists that a server reports as changed: it may do so endlessly."""

Open = Callable[[Entry], "AbstractAsyncContextManager[Connection]"]
"""Starts or reaches the server of an entry. Entering raises ServerError, ConfigError."""


@dataclass
class McpServer:
    """A server of this session. Its tools as last approved are known before it runs, so that it
    need not start to offer them."""

    entry: Entry
    home: Path
    open: Open
    emit: Emit
    pins: bool = True
    """Whether definitions are pinned; False if a process trusts the entire project."""
    definitions: Mapping[str, Definition] = field(default_factory=dict)
    """The usable tools, by name; until it runs, as they were approved."""
    held: tuple[str, ...] = ()
    """Tools that are off because they differ from the approved ones."""
    prompts: tuple[Offer, ...] = ()
    resources: tuple[Offer, ...] = ()
    left_out: tuple[str, ...] = ()
    """See `mcp_connection.Connection`."""
    fault: str = ""
    """Why it does not run; "" while it does, or is starting."""
    needs_download: bool = False
    """Whether it stays off until a person has allowed one start with the network."""
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
        if self._life is None or (self._life.done() and not self.needs_download):
            self.settled.clear()
            self._life = asyncio.ensure_future(self._live())

    async def stop(self) -> None:
        """Ends it with everything it started."""
        if self._life is not None:
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
            self._life, self.needs_download = None, False
            self.settled.clear()

    async def connected(self) -> "Connection":
        """The connection; starts the server if needed, and waits until that succeeds or fails.

        Raises: ServerError.
        """
        self.start()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.settled.wait(), START_TIMEOUT_S)
        return self.connection()

    def connection(self) -> "Connection":
        """Raises: ServerError that says why there is none, and what comes next."""
        if self._connection is not None:
            return self._connection
        why = f" ({self.fault})" if self.fault else ""
        is_over = self._life is None or self._life.done()
        then = "" if self.needs_download else " The next call starts it again."
        then = then if is_over else " It is starting: try again later."
        untrusted = self.name if self.fault else ""  # a fault may be in the server's own words
        raise ServerError(
            f"The MCP server {self.name} is not running{why}.{then}", untrusted=untrusted
        ).about(self.setting if is_over else None)

    async def _live(self) -> None:
        try:
            await self._run()
        except DownloadNeededError as error:
            self.needs_download = True
            self._report(f"{error.fault}. `kode mcp test {self.name}` asks whether it may")
        except ServerError as error:
            self._report(error.fault)
        except KodeError as error:
            self._report(str(error))
        except Exception as error:  # a fault of the SDK must not end the session
            self._report(f"{type(error).__name__}: {error}")
        finally:
            self._connection = None
            self.settled.set()

    async def _run(self) -> None:
        """Runs from its start to its end. Raises: ServerError, ConfigError, with the reason."""
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(START_TIMEOUT_S):
                    connection = await stack.enter_async_context(self.open(self.entry))
                    await self._look_at(connection)
            except TimeoutError as error:
                offline = "command" in self.entry.values and not self.entry.values.get("network")
                hint = '. It has no network; `"network": true` in its entry gives it one'
                raise ServerError(
                    f"it did not start within {START_TIMEOUT_S:g} s{hint if offline else ''}"
                ) from error
            self._connection, self.fault = connection, ""
            self.settled.set()
            closed, news = connection.closed, connection.news
            while not closed.done():
                change = asyncio.ensure_future(news.wait())
                try:
                    await asyncio.wait((closed, change), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    change.cancel()
                if not closed.done():
                    news.clear()
                    await self._look_at(connection)
                    await asyncio.sleep(RELIST_PAUSE_S)
            raise ServerError(closed.result())

    async def _look_at(self, connection: "Connection") -> None:
        tools = await connection.tools()
        self.prompts = await connection.prompts()
        self.resources = await connection.resources()
        for what in connection.left_out:
            if what not in self.left_out:
                self.emit(Notice(text=f"The MCP server {self.name} is used without its {what}."))
        self.left_out = connection.left_out
        held = await asyncio.to_thread(self._held, tools)
        self.definitions = {name: tool for name, tool in tools.items() if name not in held}
        if held and held != self.held:
            text = f"The MCP server {self.name} has changed tools you approved: {', '.join(held)}. "
            self.emit(Notice(text=f"{text}They are off until `kode mcp approve {self.name}`."))
        self.held = held

    def _held(self, tools: Mapping[str, Definition]) -> tuple[str, ...]:
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
        return held_back(self.entry, tools, approvals)

    def _report(self, fault: str) -> None:
        if fault != self.fault:
            self.emit(Notice(text=f"The MCP server of {self.setting} is off: {fault}"))
        self.fault = fault


def pinned_definitions(entry: Entry, approvals: Approvals) -> Mapping[str, Definition]:
    """The approved tools of a server, by name; empty for one that never ran."""
    pins = (Definition(json.loads(pin.content)) for pin in saved_pins(entry, approvals))
    return {definition.name: definition for definition in pins}


def held_back(
    entry: Entry, definitions: Mapping[str, Definition], approvals: Approvals
) -> tuple[str, ...]:
    """The names of the tools that are off because they are not as they were approved. None of a
    server's first definitions is: the server itself was approved, and there is nothing to compare
    with."""
    if not saved_pins(entry, approvals):
        return ()
    items = zip(definitions, pins_of(entry, definitions), strict=True)
    return tuple(name for name, item in items if trust.state(item, approvals) != "trusted")


def keep_pins(
    home: Path, entry: Entry, definitions: Mapping[str, Definition], approvals: Approvals
) -> None:
    """Pins a server's first definitions; drops the pins of tools that it no longer has.

    Raises: StorageError, BusyError; then its pins are as before.
    """
    pins, items = saved_pins(entry, approvals), pins_of(entry, definitions)
    if not pins:
        trust.approve(home, entry.root, items)
        return
    names = {item.name for item in items}
    gone = [approval for approval in pins if approval.name not in names]
    # One pin has to stay: a server without any would have its next tools pinned unseen.
    if gone and len(held_back(entry, definitions, approvals)) < len(definitions):
        trust.revoke(home, entry.root, gone)


def forget(home: Path, entry: Entry, approvals: Approvals) -> None:
    """Removes a server's approvals, pins and caches: of a different one with the same name nothing
    has been approved. Raises: StorageError, BusyError."""
    those = (item for item in approvals.items if item.origin == str(entry.origin))
    if gone := [item for item in those if item.name.partition(":")[0] == entry.name]:
        trust.revoke(home, entry.root, gone)
    remove_caches(entry, home)


def saved_pins(entry: Entry, approvals: Approvals) -> list[Approved]:
    """The pins of a server's tools, as they were approved."""
    prefix, origin = f"{entry.name}:", str(entry.origin)
    return [
        item
        for item in approvals.items
        if item.kind == "mcp-tool" and item.name.startswith(prefix) and item.origin == origin
    ]


def pins_of(entry: Entry, definitions: Mapping[str, Definition]) -> tuple[Item, ...]:
    """The pins of a server's tools, in order."""
    return tuple(
        Item(
            kind="mcp-tool",
            name=f"{entry.name}:{name}",
            origin=entry.origin,
            scope=entry.scope,
            content=definition.content,
        )
        for name, definition in definitions.items()
    )

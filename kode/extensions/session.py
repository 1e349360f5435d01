"""The extensions of one conversation: reviewed once, started, and offered to the model.

Modules per kind define what an extension is; `kode.cli` and plug-ins ask here.
"""

import asyncio
import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kode import paths
from kode.errors import KodeError, UserError
from kode.events import Emit, Notice
from kode.extensions import mcp_config, trust
from kode.extensions.agents import AgentDefinition, has_all_tools, may_use
from kode.extensions.mcp_config import Entry
from kode.extensions.mcp_server import McpServer, Opener, download_item, pinned_definitions
from kode.extensions.mcp_tools import pair_of, source, tokens_of, tools_of
from kode.extensions.review import Reviewer, named
from kode.extensions.trust import Approvals, Item
from kode.permissions.question import Ask
from kode.tool import Tool

if TYPE_CHECKING:
    from kode.sandbox.sandbox import Sandbox

FIRST_TURN_WAITS_S = 3.0  # most servers have started by then
FIRST_START_WAITS_S = 15.0
"""How long a first turn waits for servers that never started here, to ask about a download."""
SHARE_OF_WINDOW = 0.05
"""If the definitions of all tools take more of the window, the search-and-call pair replaces
them."""

_RESOURCE = re.compile(r"(?:^|(?<=[\s(\"'`]))@([A-Za-z0-9._-]+):([^\s\"'`]+)")
_PROMPT = re.compile(r"/mcp__((?:(?!__).)+)__(.+)")


@dataclass(frozen=True, kw_only=True)
class Outside:
    """A text from an extension, and its source."""

    text: str
    source: str


@dataclass
class Extensions:
    """The extensions of one conversation. `begin` starts trusted ones, `open` asks about the rest
    and returns the tools, `close` ends everything."""

    home: Path
    cwd: Path
    emit: Emit
    ask: Ask | None
    opener: Opener
    sandbox: "Sandbox | None" = None
    """What servers and hooks run in; None if the person turned it off, which lets only their own
    run without."""
    deferred: bool | Literal["auto"] = "auto"
    given: Sequence[Entry] = ()
    """Servers named by the program that runs kode: trusted, and not pinned."""
    untrusted: tuple[str, ...] = ()
    """What is not approved and stays off, as `kind NAME`."""
    servers: dict[str, McpServer] = field(default_factory=dict)
    reachable: tuple[Tool, ...] = ()
    """Every tool of the servers, and the pair for all: a session goes on with those that its
    requests began with."""
    _notices: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._reviewer = Reviewer(self.home, self.ask)

    def begin(self) -> None:
        """Loads the trusted servers, and starts those whose tools are unknown: the others can wait
        until they are needed."""
        approvals = trust.load(
            self.home, paths.project_root(self.cwd), trust_project=self.opener.trust_project
        )
        config = mcp_config.find_servers(self.home, self.cwd)
        for fault in (approvals.problem, *config.faults):
            self._say(fault)
        for entry in (*self.given, *config.entries):
            if entry.name in self.servers or trust.state(entry.item, approvals) != "trusted":
                continue
            is_pinned = entry.scope != "client" and not (
                self.opener.trust_project and entry.scope == "project"
            )
            pins = trust.load(self.home, entry.root) if is_pinned else Approvals()
            self.servers[entry.name] = server = McpServer(
                entry=entry,
                home=self.home,
                open=self.opener,
                emit=self.emit,
                pins=is_pinned,
                definitions=pinned_definitions(entry, pins),
            )
            if not server.definitions and not self._waits(server):
                server.start()

    def start_all(self) -> None:
        """Starts the others too, while nobody waits: as a person types."""
        for server in self.servers.values():
            if not self._waits(server):
                server.start()

    def _waits(self, server: McpServer) -> bool:
        """Whether it may need a yes first, because it cannot run in a sandbox."""
        if "command" not in server.entry.values or self.opener.required:
            return False
        if server.entry.values.get("outside") is True:
            return True
        if self.sandbox is None:
            return server.entry.scope in trust.FOREIGN
        return bool(self.sandbox.unavailable_reason())

    async def open(self, window_tokens: int) -> tuple[Tool, ...]:
        """Asks about what is new or changed, waits briefly for servers, and returns the tools of
        this session: later ones are reached through `mcp_call`, if it is among them."""
        try:
            waiting = await self._reviewer.review(self.cwd, trust_project=self.opener.trust_project)
        except KodeError as error:
            self.emit(Notice(text=f"This repository's extensions stay off. {error}"))
        else:
            self.untrusted = tuple(map(named, waiting))
            # Of instructions their reader says it, also where nobody is asked.
            if off := [named(item) for item in waiting if item.kind != "instructions"]:
                once = "" if self.opener.trust_project else ", --trust-project trusts it for once"
                self._say(
                    f"Not used, because not approved: {', '.join(off)}. "
                    f"`kode extensions approve` shows and approves{once}."
                )
            self.begin()
        servers = list(self.servers.values())
        programs = [server.entry for server in servers if "command" in server.entry.values]
        await self.ask_outside([e.item for e in programs if e.values.get("outside")], always=True)
        await self.ask_outside([entry.item for entry in programs])
        new = [server for server in servers if self.opener.needs_start(server.entry)]
        unlisted = [s for s in servers if not s.definitions and s not in new]
        for server in (*unlisted, *new):
            server.start()
        await _wait_for(unlisted, FIRST_TURN_WAITS_S)
        await _wait_for(new, FIRST_START_WAITS_S)
        for server in new:
            if server.needs_download:
                await self._download(server)
        self.reachable = (*tools_of(servers), *(pair_of(servers) if servers else ()))
        return self._offered(servers, window_tokens)

    def _offered(self, servers: Sequence[McpServer], window_tokens: int) -> tuple[Tool, ...]:
        tools = tools_of(servers)
        is_asked_for = any(server.entry.values.get("deferred") is True for server in servers)
        is_large = tokens_of(tools) > window_tokens * SHARE_OF_WINDOW
        defers = is_asked_for or is_large if self.deferred == "auto" else self.deferred
        if servers and defers:
            return pair_of(servers)
        absent = [server for server in servers if not server.definitions and not server.runs]
        return (*tools, *(pair_of(absent) if absent else ()))

    def shared_tools(self, agent: AgentDefinition | None, window_tokens: int) -> tuple[Tool, ...]:
        """The tools of its servers that a subagent with this definition gets."""
        servers = list(self.servers.values())
        if agent is not None and agent.servers is not None:
            servers = [server for server in servers if server.name in agent.servers]
        if has_all_tools(agent):  # as the pair has
            return self._offered(servers, window_tokens)
        return tuple(tool for tool in tools_of(servers) if may_use(agent, tool))

    async def _download(self, server: McpServer) -> None:
        """Asks once for a start with the network, and starts the server again once it was."""
        entry = server.entry
        try:
            if not await self._reviewer.may(entry.root, download_item(entry)):
                return
            text = f"The MCP server {server.name} starts with the network, once."
            self.emit(Notice(text=text, level="info"))
            await self.opener.download(entry)
            await server.stop()
            server.start()
            await _wait_for([server], FIRST_START_WAITS_S)
        except KodeError as error:
            self.emit(Notice(text=f"The MCP server {server.name} stays off: {error}"))

    async def ask_outside(self, items: Sequence[Item], *, always: bool = False) -> None:
        """Where there is no sandbox, asks once about each server or hook in use that would run
        without one; where the person turned it off, about each of the repository. `always`: where
        there is one too."""
        if self.sandbox is None and not always:
            items = [item for item in items if item.scope in trust.FOREIGN]
        if not items or self.opener.required:
            return
        sandbox = None if always else self.sandbox
        if sandbox is not None and await asyncio.to_thread(sandbox.kind) != "none":
            return
        for item in items:
            try:
                await self._reviewer.may(paths.project_root(self.cwd), trust.outside(item))
            except KodeError as error:
                self.emit(Notice(text=f"{item.name} stays off. {error}"))

    async def may_change(self, item: Item) -> bool:
        """Whether a changed item may be used as it is now; asks once about each change.

        Raises: StorageError, BusyError.
        """
        return await self._reviewer.may_change(paths.project_root(self.cwd), item)

    async def close(self) -> None:
        """Ends all servers with everything they started."""
        await asyncio.gather(*(server.stop() for server in self.servers.values()))

    async def mentioned(self, text: str) -> tuple[Outside, ...]:
        """The resources that a text names as `@server:uri`; an unreadable one gets a notice."""
        texts = []
        for name, written in dict.fromkeys(_RESOURCE.findall(text)):
            if name not in self.servers:
                continue
            uri = written.rstrip(".,;!?)")
            try:
                content = await (await self.servers[name].connected()).read(uri)
                texts.append(Outside(text=content.text, source=f"{source(name)}, {uri}"))
            except KodeError as error:
                self.emit(Notice(text=f"@{name}:{uri} is not attached. {error}"))
        return tuple(texts)

    def commands(self) -> dict[str, str]:
        """The slash commands for servers' prompts → what each does."""
        return {
            f"/mcp__{server.name}__{prompt.key}": " ".join(
                (prompt.description, *prompt.arguments)
            ).strip()
            for server in self.servers.values()
            for prompt in server.prompts
        }

    def brings(self, command: str) -> bool:
        """Whether a slash command belongs to a server: `/mcp__server__prompt`."""
        match = _PROMPT.fullmatch(command)
        return match is not None and match[1] in self.servers

    async def expand(self, command: str, argument: str) -> Outside | None:
        """Expands a slash command with its arguments in order; None for an unknown one. Raises:
        UserError for missing arguments, and for a prompt that its server lacks; ServerError."""
        if not self.brings(command):
            return None
        _, name, key = command.split("__", 2)
        server = self.servers[name]
        connection = await server.connected()
        known = next((prompt for prompt in server.prompts if prompt.key == key), None)
        if known is None:
            keys = ", ".join(prompt.key for prompt in server.prompts) or "none"
            raise UserError(f"{server.name} has no prompt {key}. It has: {keys}.")
        names = [name.rstrip("!") for name in known.arguments]
        words = argument.split(maxsplit=len(names) - 1) if len(names) > 1 else [argument]
        given = {name: word for name, word in zip(names, words, strict=False) if word}
        missing = [
            name[:-1] for name in known.arguments if name.endswith("!") and name[:-1] not in given
        ]
        if missing:
            raise UserError(f"{command} needs {', '.join(missing)}: {command} {' '.join(names)}")
        content = await connection.prompt(known.key, given)
        return Outside(text=content.text, source=f"{source(server.name)}, prompt {known.key}")

    def _say(self, text: str) -> None:
        if text and text not in self._notices:
            self._notices.add(text)
            self.emit(Notice(text=text))


async def _wait_for(servers: list[McpServer], timeout_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await asyncio.gather(*(server.settled.wait() for server in servers))

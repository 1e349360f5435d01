"""The extensions of one conversation: reviewed once, started, and offered to the model.

Each tool of an MCP server is offered as `mcp__server__tool`, or the pair `mcp_search` and
`mcp_call` is offered for all of them. Their results count as outside text.
"""

import asyncio
import contextlib
import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from kode import images, paths
from kode.errors import KodeError, ServerError, StorageError, ToolError, UserError
from kode.events import Emit, Notice, ToolOutput as OutputEvent
from kode.extensions import trust
from kode.extensions.definitions import CHARS_PER_TOKEN, AgentDefinition, has_all_tools, may_use
from kode.extensions.mcp_config import ServerEntry, ToolDefinition, find_servers
from kode.extensions.mcp_server import McpServer, Opener, pinned_definitions
from kode.extensions.review import Reviewer, find_items, name_item
from kode.extensions.trust import Approvals, Candidate
from kode.messages import Image
from kode.permissions.question import Ask, visible
from kode.tool import CALLS_ANY, Tool, ToolContext, ToolOutput, tool
from kode.values import dataclass, field

FIRST_TURN_WAITS_S = 3.0  # most servers have started by then
FIRST_START_WAITS_S = 15.0
"""How long a first turn waits for servers that never started here, to ask about a download."""
SHARE_OF_WINDOW = 0.05
"""If the definitions of all tools take more of the window, the search-and-call pair replaces
them."""

MAX_DESCRIPTION_CHARS = 2_000  # 500 tokens of every request
MAX_NAME_CHARS = 64
"""The longest tool name that OpenAI and Anthropic accept."""
FOUND = 8  # as many as a model can compare

_RESOURCE = re.compile(r"(?:^|(?<=[\s(\"'`]))@([A-Za-z0-9._-]+):([^\s\"'`]+)")
_PROMPT = re.compile(r"/mcp__((?:(?!__).)+)__(.+)")


@dataclass
class Extensions:
    """The extensions of one conversation. `begin` starts trusted ones, `open` asks about the rest
    and returns the tools, `close` ends everything."""

    emit: Emit
    ask: Ask | None
    opener: Opener
    deferred: bool | Literal["auto"] = "auto"
    given: Sequence[ServerEntry] = ()
    """Servers named by the program that runs kode: trusted, and not pinned."""
    untrusted: tuple[str, ...] = ()
    """The items that are not approved and stay off, as `KIND NAME`."""
    servers: dict[str, McpServer] = field(default_factory=dict)
    reachable: tuple[Tool, ...] = ()
    """Every tool of the servers, and the pair for all: a resumed session keeps those of them that
    its requests began with."""
    _notices: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._reviewer = Reviewer(self.opener.place.home, self.ask, self.opener.trust_project)

    def begin(self) -> None:
        """Loads the trusted servers, and starts those whose tools are unknown: the others can wait
        until they are needed."""
        place, whole = self.opener.place, self.opener.trust_project
        approvals = trust.load(place.home, place.project, trust_project=whole)
        entries, faults = find_servers(place.home, place.cwd)
        for fault in (approvals.problem, *faults):
            self._say(fault)
        for entry in (*self.given, *entries):
            if entry.name in self.servers or trust.state(entry.item, approvals) != "trusted":
                continue
            is_pinned = entry.scope != "client" and not (whole and entry.scope == "project")
            pins = trust.load(place.home, entry.root) if is_pinned else Approvals()
            server = McpServer(entry, place.home, self.opener, self.emit, is_pinned)
            server.definitions = pinned_definitions(entry, pins)
            self.servers[entry.name] = server
            if not server.definitions:
                server.start()

    def start_all(self) -> None:
        """Starts the other servers, too, in the background: while a person types, nobody waits."""
        for server in self.servers.values():
            server.start()

    async def open(self, window_tokens: int) -> tuple[Tool, ...]:
        """Asks about what is new or changed, waits briefly for servers, and returns the tools of
        this session. Tools that appear later can be called through `mcp_call`, if it is offered."""
        place = self.opener.place
        try:
            items = await asyncio.to_thread(find_items, place.home, place.cwd)
            waiting = await self._reviewer.review(place.project, items)
        except KodeError as error:
            self.emit(Notice(text=f"This repository's extensions stay off. {error}"))
        else:
            self.untrusted = tuple(map(name_item, waiting))
            # `read_instructions` reports instructions, even if nobody can be asked.
            if off := [name_item(item) for item in waiting if item.kind != "instructions"]:
                once = "" if self.opener.trust_project else ", --trust-project trusts it for once"
                self._say(
                    f"Skipped (not approved): {', '.join(off)}. "
                    f"`kode extensions approve` shows and approves{once}."
                )
            self.begin()
        servers = list(self.servers.values())
        new = [server for server in servers if self.opener.needs_start(server.entry)]
        unlisted = [s for s in servers if not s.definitions and s not in new]
        for server in (*unlisted, *new):
            server.start()
        await _wait_for(unlisted, FIRST_TURN_WAITS_S)
        await _wait_for(new, FIRST_START_WAITS_S)
        await self._ask_to_download([server for server in new if server.download])
        self.reachable = (*make_tools(servers), *make_search_tools(servers))
        return self._choose_offered(window_tokens)

    def _choose_offered(self, window_tokens: int) -> tuple[Tool, ...]:
        servers = list(self.servers.values())
        tools = make_tools(servers)
        texts = (f"{it.name}{it.description}{json.dumps(it.parameters())}" for it in tools)
        is_large = sum(map(len, texts)) // CHARS_PER_TOKEN > window_tokens * SHARE_OF_WINDOW
        if is_large if self.deferred == "auto" else self.deferred:
            return make_search_tools(servers)
        absent = [server for server in servers if not server.definitions and not server.runs]
        return (*tools, *make_search_tools(absent))

    def shared_tools(self, agent: AgentDefinition | None, window_tokens: int) -> tuple[Tool, ...]:
        """The tools of its servers that a subagent with this definition gets."""
        if has_all_tools(agent):  # the pair reaches every tool
            return self._choose_offered(window_tokens)
        tools = make_tools([*self.servers.values()])
        return tuple(tool for tool in tools if may_use(agent, tool))

    async def _ask_to_download(self, servers: Sequence[McpServer]) -> None:
        """Asks about all that need a first start with the network, and starts those allowed."""
        items, off = {it.name: it.download for it in servers if it.download}, list[Candidate]()
        try:
            for root in {server.entry.root for server in servers}:
                those = [items[server.name] for server in servers if server.entry.root == root]
                off += await self._reviewer.review(root, those)
        except KodeError as error:
            off = [*items.values()]
            self.emit(Notice(text=str(error)))
        if names := ", ".join(item.name for item in off):
            self._say(
                f"Not started, because they never ran here and want the network once: {names}. "
                "`kode mcp test NAME` asks whether one may."
            )
        allowed = [server for server in servers if items[server.name] not in off]
        if names := ", ".join(server.name for server in allowed):
            text = f"Starting with the network, once, to download: {names}."
            self.emit(Notice(text=text, level="info"))
        await asyncio.gather(*(self._restart_once(it, items[it.name]) for it in allowed))

    async def _restart_once(self, server: McpServer, approved: Candidate) -> None:
        try:
            await self.opener.download(server.entry, approved)
        except KodeError as error:
            server.report(str(error))
        else:
            await server.stop()
            server.start()
            await _wait_for([server], FIRST_START_WAITS_S)

    async def close(self) -> None:
        """Ends all servers and everything they started."""
        await asyncio.gather(*(server.stop() for server in self.servers.values()))

    async def read_mentioned(self, text: str) -> list[ToolOutput]:
        """Reads the resources named in a text as `@server:uri`; an unreadable one gets a notice."""
        texts: list[ToolOutput] = []
        for name, written in dict.fromkeys(_RESOURCE.findall(text)):
            uri = written.rstrip(".,;!?)")
            if name not in self.servers:
                continue
            try:
                content = await (await self.servers[name].connect()).read(uri)
                texts.append(ToolOutput(text=content.text, untrusted=f"{source(name)}, {uri}"))
            except KodeError as error:
                self.emit(Notice(text=f"@{name}:{uri} is not attached. {error}"))
        return texts

    def commands(self) -> dict[str, str]:
        """The slash commands for servers' prompts → what each does."""
        return {
            f"/mcp__{name}__{it.key}": " ".join((it.description, *it.arguments)).strip()
            for name, server in self.servers.items()
            for it in server.prompts
        }

    def brings(self, command: str) -> bool:
        """Whether a slash command belongs to a server: `/mcp__server__prompt`."""
        match = _PROMPT.fullmatch(command)
        return match is not None and match[1] in self.servers

    async def expand(self, command: str, argument: str) -> ToolOutput | None:
        """Expands a server's slash command, its arguments in order; None if it is not a server's.
        Raises: UserError for missing arguments or a prompt that its server lacks; ServerError."""
        if not self.brings(command):
            return None
        _, name, key = command.split("__", 2)
        server = self.servers[name]
        connection = await server.connect()
        prompts = {prompt.key: prompt.arguments for prompt in server.prompts}
        if key not in prompts:
            keys = ", ".join(prompts) or "none"
            raise UserError(f"{name} has no prompt {key}. It has: {keys}.")
        names = [each.rstrip("!") for each in prompts[key]]
        values = dict(zip(names, argument.split(maxsplit=max(0, len(names) - 1)), strict=False))
        if missing := [it for it in names if f"{it}!" in prompts[key] and it not in values]:
            raise UserError(f"{command} needs {', '.join(missing)}: {command} {' '.join(names)}")
        content = await connection.prompt(key, values)
        return ToolOutput(text=content.text, untrusted=f"{source(name)}, prompt {key}")

    def _say(self, text: str) -> None:
        if text and text not in self._notices:
            self._notices.add(text)
            self.emit(Notice(text=text))


async def _wait_for(servers: list[McpServer], timeout_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await asyncio.gather(*(server.settled.wait() for server in servers))


# ── the tools ────────────────────────────────────────────────────────────────────────────────


def make_tools(servers: Sequence[McpServer]) -> tuple[Tool, ...]:
    """One tool for each usable definition, in the order of the servers."""
    tools: dict[str, Tool] = {}
    for server in servers:
        for definition in server.definitions.values():
            name = _tool_name(server.name, definition.name, tools.keys())
            tools[name] = _make_tool(server, definition, name)
    return tuple(tools.values())


def make_search_tools(servers: Sequence[McpServer]) -> tuple[Tool, ...]:
    """Makes the pair that gives access to all tools of these servers, even later ones; empty
    without servers."""
    if not servers:
        return ()
    names = ", ".join(server.name for server in servers)

    @tool(
        effect="none",
        subject="query",
        name="mcp_search",
        description=f"Find tools of the MCP servers {names}: what they do and their parameters. "
        "Call them with mcp_call.",
    )
    async def search(
        context: ToolContext, query: Annotated[str, "What the tool should do"]
    ) -> ToolOutput:
        return _search_tools(servers, query)

    def target(arguments: Mapping[str, Any]) -> str:
        return f"{arguments.get('server', '')}:{arguments.get('tool', '')}"

    @tool(
        effect="mcp",
        name=CALLS_ANY,
        description="Call a tool that mcp_search has found.",
        target=target,
    )
    async def call(
        context: ToolContext,
        server: str,
        tool: str,
        arguments: Annotated[dict[str, Any], "As its parameters say"] = {},  # noqa: B006
    ) -> ToolOutput:
        for candidate in servers:
            if candidate.name == server:
                return await _call_tool(candidate, tool, context, arguments)
        raise ToolError(f"There is no MCP server {server!r} here. The servers are: {names}.")

    return (search, call)


def source(name: str) -> str:
    """The name of a server as a source of outside text."""
    return f"the MCP server {name}"


def _tool_name(server: str, name: str, taken: Collection[str]) -> str:
    """The tool's name for the model, with letters and a length that every provider accepts."""
    plain = "mcp__" + "__".join(re.sub(r"[^A-Za-z0-9_-]", "_", part) for part in (server, name))
    if len(plain) <= MAX_NAME_CHARS and plain not in taken:
        return plain
    mark = hashlib.sha256(f"{server}:{name}".encode()).hexdigest()[:6]
    return f"{plain[: MAX_NAME_CHARS - 7]}_{mark}"


def _make_tool(server: McpServer, definition: ToolDefinition, name: str) -> Tool:
    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolOutput:
        return await _call_tool(server, definition.name, context, arguments)

    return Tool(
        name=name,
        description=f"[MCP server {server.name}] {_escape_description(definition)}",
        effect="mcp",
        subject="",
        target=lambda arguments: f"{server.name}:{definition.name}",
        parallel=False,
        parameters=lambda: _escape_hidden(definition.parameters),
        check=lambda arguments: arguments,  # the server checks them, and says what is wrong
        run=run,
    )


def _escape_description(definition: ToolDefinition) -> str:
    """The server's own words, with invisible characters escaped."""
    text = visible(definition.description).strip()
    return text if len(text) <= MAX_DESCRIPTION_CHARS else text[: MAX_DESCRIPTION_CHARS - 1] + "…"


def _escape_hidden(node: Any) -> Any:
    if isinstance(node, str):
        return visible(node)
    if isinstance(node, list):
        return [_escape_hidden(child) for child in node]
    if isinstance(node, dict):
        return {visible(key): _escape_hidden(value) for key, value in node.items()}
    return node


async def _call_tool(
    server: McpServer, name: str, context: ToolContext, arguments: Mapping[str, Any]
) -> ToolOutput:
    """Calls a tool of a server. Raises: ToolError, often in the server's own words."""
    try:
        connection = await server.connect()
        about = f"The MCP server {server.name}"
        if name in server.held:
            how = f"they run `kode mcp approve {server.name}`. Do without it"
            raise ToolError(f"{about} has changed {name} since its approval: off until {how}.")
        if name not in server.definitions:
            names = ", ".join(map(visible, server.definitions)) or "none"
            raise ToolError(f"{about} has no tool {name!r}. It has: {names}.")

        def report(line: str) -> None:
            context.emit(OutputEvent(call_id=context.call_id, text="", partial=visible(line)))

        content = await connection.call(name, arguments, report)
    except ServerError as error:
        untrusted = source(server.name) if error.untrusted else ""
        raise ToolError(str(error), untrusted=untrusted) from error
    text = content.text or ("(an image)" if content.pictures else "(no text)")
    if content.is_error:
        raise ToolError(f"{text}{connection.find_refusals()}", untrusted=source(server.name))
    # Beside the session, as for images that a person attaches.
    folder, pictures = paths.images_folder(context.place.outputs.parent), list[Image]()
    for picture, data in content.pictures:
        try:
            pictures.append(images.save_picture(folder, picture, data))
        except (UserError, StorageError) as error:
            text += f"\n[An image is left out: {error}]"
    return ToolOutput(text=text, pictures=tuple(pictures), untrusted=source(server.name))


def _search_tools(servers: Sequence[McpServer], query: str) -> ToolOutput:
    from kode.memory.search import IndexedText, TextIndex

    matches = [(server, tool) for server in servers for tool in server.definitions.values()]
    texts = (f"{server.name} {tool.name} {_escape_description(tool)}" for server, tool in matches)
    index = TextIndex()
    index.update([IndexedText(str(number), text) for number, text in enumerate(texts)])
    ranked = index.search(query, FOUND, datetime.now().astimezone())
    shown = [matches[int(result.text.id)] for result in ranked] or matches[:FOUND]
    lines = [
        f"{server.name}:{visible(definition.name)} — {_escape_description(definition)}\n"
        f"  arguments: {json.dumps(_escape_hidden(definition.parameters), ensure_ascii=False)}"
        for server, definition in shown
    ]
    # A call starts one whose tools are known.
    idle = [it for it in servers if not it.runs and (it.fault or not it.definitions)]
    lines += [f"[{it.name} does not run: {it.fault or 'it is not started yet'}]" for it in idle]
    head = "" if ranked else "No tool matches these words. Some that are there:\n"
    heard = [*(server for server, _ in shown), *(server for server in idle if server.fault)]
    named = ", ".join(dict.fromkeys(source(server.name) for server in heard))
    return ToolOutput(
        text=head + ("\n".join(lines) or "There are no tools."),
        summary=f"{len(ranked)} found",
        untrusted=named,
    )

"""The tools of MCP servers for the model: one `mcp__server__tool` each, or the pair `mcp_search`
and `mcp_call` for all. Their results are outside text."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from kode import images, paths
from kode.errors import ServerError, StorageError, ToolError, UserError
from kode.events import ToolOutput as OutputEvent
from kode.extensions.mcp_config import Definition
from kode.extensions.mcp_server import McpServer
from kode.function_tool import tool
from kode.messages import Image
from kode.permissions.question import visible
from kode.tool import CALLS_ANY, Tool, ToolContext, ToolOutput

MAX_DESCRIPTION_CHARS = 2_000  # 500 tokens of every request
MAX_NAME_CHARS = 64
"""The most that OpenAI and Anthropic take for the name of a tool."""
FOUND = 8  # as many as a model can compare


def tools_of(servers: Sequence[McpServer]) -> tuple[Tool, ...]:
    """One tool for each usable definition, in the order of the servers."""
    tools: list[Tool] = []
    for server in servers:
        for definition in server.definitions.values():
            taken = {tool.name for tool in tools}
            tools.append(_tool(server, definition, _tool_name(server.name, definition.name, taken)))
    return tuple(tools)


def tokens_of(tools: Sequence[Tool]) -> int:
    """Roughly how much of a window their definitions take."""
    chars = sum(
        len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters()))
        for tool in tools
    )
    return chars // 4


def pair_of(servers: Sequence[McpServer]) -> tuple[Tool, ...]:
    """The two tools that represent all of these servers, whatever tools they have."""
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
        return _search(servers, query)

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
                return await _call(candidate, tool, context, arguments)
        raise ToolError(f"There is no MCP server {server!r} here. The servers are: {names}.")

    return (search, call)


def source(name: str) -> str:
    """The name of a server as an outside source."""
    return f"the MCP server {name}"


def _tool_name(server: str, name: str, taken: set[str]) -> str:
    """The name for the model, with the letters and length that every provider accepts."""
    plain = "mcp__" + "__".join(re.sub(r"[^A-Za-z0-9_-]", "_", part) for part in (server, name))
    if len(plain) <= MAX_NAME_CHARS and plain not in taken:
        return plain
    mark = hashlib.sha256(f"{server}:{name}".encode()).hexdigest()[:6]
    return f"{plain[: MAX_NAME_CHARS - 7]}_{mark}"


def _tool(server: McpServer, definition: Definition, name: str) -> Tool:
    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolOutput:
        return await _call(server, definition.name, context, arguments)

    return Tool(
        name=name,
        description=f"[MCP server {server.name}] {_description(definition)}",
        effect="mcp",
        subject="",
        target=lambda arguments: f"{server.name}:{definition.name}",
        parallel=False,
        parameters=lambda: _schema(definition),
        check=lambda arguments: arguments,  # the server knows best, and says what is wrong
        run=run,
    )


def _description(definition: Definition) -> str:
    """The server's own words, with invisible characters escaped."""
    text = visible(definition.description).strip()
    return text if len(text) <= MAX_DESCRIPTION_CHARS else text[: MAX_DESCRIPTION_CHARS - 1] + "…"


def _schema(definition: Definition) -> Mapping[str, Any]:
    schema = _show_hidden(definition.parameters)
    return {"properties": {}, **schema, "type": "object"}


def _show_hidden(node: Any) -> Any:
    if isinstance(node, str):
        return visible(node)
    if isinstance(node, list):
        return [_show_hidden(child) for child in node]
    if isinstance(node, dict):
        return {visible(key): _show_hidden(value) for key, value in node.items()}
    return node


async def _call(
    server: McpServer, name: str, context: ToolContext, arguments: Mapping[str, Any]
) -> ToolOutput:
    """Raises: ToolError with the server's own words if it failed."""
    try:
        connection = await server.connected()
        if name in server.held:
            raise ToolError(
                f"{name} of the MCP server {server.name} has changed since the person approved it, "
                f"and is off until they run `kode mcp approve {server.name}`. Do without it."
            )
        if name not in server.definitions:
            names = ", ".join(map(visible, server.definitions))
            raise ToolError(
                f"The MCP server {server.name} has no tool {name!r}. It has: {names or 'none'}."
            )

        def report(line: str) -> None:
            context.emit(OutputEvent(call_id=context.call_id, text="", partial=visible(line)))

        content = await connection.call(name, arguments, report)
    except ServerError as error:
        untrusted = source(server.name) if error.untrusted else ""
        raise ToolError(str(error), untrusted=untrusted) from error
    text = content.text or ("(an image)" if content.pictures else "(no text)")
    if content.is_error:
        raise ToolError(text, untrusted=source(server.name))
    # Beside the session, as for images that a person attaches.
    folder, pictures = paths.images_folder(context.place.outputs.parent), list[Image]()
    for picture in content.pictures:
        try:
            pictures.append(images.keep(folder, picture.name, picture.data))
        except (UserError, StorageError) as error:
            text += f"\n[An image is left out: {error}]"
    return ToolOutput(text=text, pictures=tuple(pictures), untrusted=source(server.name))


def _search(servers: Sequence[McpServer], query: str) -> ToolOutput:
    from kode.memory.search import IndexedText, TextIndex

    matches = [
        (server, definition) for server in servers for definition in server.definitions.values()
    ]
    index = TextIndex()
    index.update(
        [
            IndexedText(str(number), f"{server.name} {tool.name} {_description(tool)}")
            for number, (server, tool) in enumerate(matches)
        ]
    )
    ranked = index.search(query, FOUND, datetime.now().astimezone())
    shown = [matches[int(result.text.id)] for result in ranked] or matches[:FOUND]
    lines = [
        f"{server.name}:{visible(definition.name)} — {_description(definition)}\n"
        f"  arguments: {json.dumps(_schema(definition), ensure_ascii=False)}"
        for server, definition in shown
    ]
    idle = [server for server in servers if not server.runs]
    lines += [
        f"[{server.name} does not run: {server.fault or 'it is not started yet'}]"
        for server in idle
    ]
    head = "" if ranked else "No tool matches these words. Some that are there:\n"
    heard = [*(server for server, _ in shown), *(server for server in idle if server.fault)]
    named = ", ".join(dict.fromkeys(source(server.name) for server in heard))
    return ToolOutput(
        text=head + ("\n".join(lines) or "There are no tools."),
        summary=f"{len(ranked)} found",
        untrusted=named,
    )

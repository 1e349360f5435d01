"""A server with three small tools, as one that a person would have configured; see `extensions`."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("tracker")


@server.tool()
def list_issues(project: str, state: str = "open") -> str:
    """The issues of a project, newest first, one a line."""
    return f"{project}: none {state}"


@server.tool()
def read_issue(project: str, number: int) -> str:
    """The title, the text and the comments of an issue."""
    return f"{project}#{number}: nothing to see"


@server.tool()
def comment(project: str, number: int, text: str) -> str:
    """Adds a comment to an issue."""
    return f"{project}#{number}: {len(text)} characters"


if __name__ == "__main__":
    server.run("stdio")

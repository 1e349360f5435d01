"""What a subagent has of its parent's MCP servers: their tools, as its definition allows. The
parent makes the calls, so that each server runs once, and only if it was approved there; whether
one is allowed is decided in the subagent, like any call of its own."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kode.contracts import CALLS_ANY, Tool, ToolContext, ToolOutput
from kode.errors import ToolError
from kode.subagents.protocol import MAX_FROM_PARENT_BYTES, Call, Called, LentTool, line_of

ToParent = Callable[[str, Mapping[str, object]], Awaitable[Called]]
"""`await call(tool, arguments)` has the parent call one of its tools."""


@dataclass(frozen=True, kw_only=True)
class Loan:
    """What one subagent is lent."""

    tools: Sequence[Tool] = ()
    context: ToolContext | None = None
    """Of its calls, as their tools see it; None if there are no tools."""
    lacks: tuple[str, ...] = ()
    """What its definition names, and its parent has not."""


def handed(tools: Iterable[Tool]) -> tuple[LentTool, ...]:
    """The tools of a loan, for the subagent's first line."""
    return tuple(
        LentTool(
            name=tool.name,
            description=tool.description,
            effect="mcp" if tool.effect == "mcp" else "none",
            subject=tool.target({}) if tool.target and tool.name != CALLS_ANY else "",
            parameters=dict(tool.parameters()),
        )
        for tool in tools
    )


async def answered(loan: Loan, call: Call) -> Called:
    """Calls a tool for a subagent that was lent it. Raises: nothing, the result has the error."""
    tool = next((one for one in loan.tools if one.name == call.tool), None)
    try:
        if tool is None or loan.context is None:
            raise ToolError(f"This subagent was not given the tool {call.tool!r}.")
        output = await tool.run(loan.context, tool.check(call.arguments))
    except ToolError as error:
        return Called(id=call.id, text=str(error), untrusted=error.untrusted, failed=True)
    output = ToolOutput(text=output) if isinstance(output, str) else output
    called = Called(
        id=call.id,
        text=output.text,
        summary=output.summary,
        pictures=output.pictures,
        untrusted=output.untrusted,
    )
    if len(line_of(called)) > MAX_FROM_PARENT_BYTES:
        return Called(id=call.id, text="Too long an answer for a subagent: ask less.", failed=True)
    return called


def borrowed(tools: Iterable[LentTool], call: ToParent) -> tuple[Tool, ...]:
    """The tools that a subagent was lent, as its own: `call` has the parent run them."""
    return tuple(_Borrowed(lent=one, call=call).tool() for one in tools)


@dataclass(frozen=True, kw_only=True)
class _Borrowed:
    lent: LentTool
    call: ToParent = field(repr=False)

    def tool(self) -> Tool:
        return Tool(
            name=self.lent.name,
            description=self.lent.description,
            effect=self.lent.effect,
            subject="query",  # of `mcp_search`: the others have a target
            target=self.target if self.lent.effect == "mcp" else None,
            parallel=False,
            parameters=lambda: self.lent.parameters,
            check=lambda arguments: arguments,  # the parent's tool says what is wrong
            run=self.run,
        )

    def target(self, arguments: Mapping[str, object]) -> str:
        return self.lent.subject or f"{arguments.get('server', '')}:{arguments.get('tool', '')}"

    async def run(self, context: ToolContext, arguments: Mapping[str, object]) -> ToolOutput:
        called = await self.call(self.lent.name, arguments)
        if called.failed:
            raise ToolError(called.text, untrusted=called.untrusted)
        return ToolOutput(
            text=called.text,
            summary=called.summary,
            pictures=called.pictures,
            untrusted=called.untrusted,
        )

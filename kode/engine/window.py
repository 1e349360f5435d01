"""What fills the model's window, by kind, and what could be freed. For a person to read; `context`
decides what is sent and when the context is reduced."""

from collections.abc import Mapping
from dataclasses import dataclass

from kode.engine.agent import Agent
from kode.engine.context import Context, compactable_tokens, context_tokens, fixed_tokens
from kode.engine.tokens import MESSAGE_TOKENS, tokens_of_part, tokens_of_text
from kode.messages import Image, Part, Text, ToolCall, ToolResult
from kode.tool import Effect

_KIND_OF_EFFECT: Mapping[Effect, str] = {
    "read": "files",
    "edit": "files",
    "run": "shell output",
    "fetch": "web pages",
    "mcp": "MCP servers",
    "delegate": "subagents",
    "memory": "memory",
    "memory-read": "memory",
}
_KIND_OF_SOURCE = {
    "opening": "system prompt",
    "memory": "memory",
    "compaction": "summary of before",
    "attachment": "files",
    "outside": "files",
}
KINDS = (
    *("system prompt", "tools", "memory", "files", "shell output", "web pages", "MCP servers"),
    *("subagents", "conversation", "summary of before"),
)
"""In display order."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """Amounts in tokens. The kinds are estimates; their sum matches the provider's last count, if
    any."""

    size: int
    used: int
    parts: tuple[tuple[str, int], ...]
    """(kind, tokens) of each non-empty kind."""
    by_compaction: int
    """What `/compact` would replace by a note now; 0 if that would free nothing."""
    makes_room_at: int
    """The size at which the context is reduced."""


def window_of(agent: Agent, context: Context) -> Window:
    """What the next request would carry right now."""
    kinds = dict.fromkeys(KINDS, 0)
    system, memory = tokens_of_text(context.system), tokens_of_text(context.memory)
    kinds["system prompt"] = max(system - memory, 0)
    kinds["memory"] = min(memory, system)
    kinds["tools"] = fixed_tokens(context) - system
    effects = {tool.name: tool.effect for tool in agent.tools}
    for message in context.session.messages:
        kinds["conversation"] += MESSAGE_TOKENS
        for part in message.parts:
            kinds[_kind_of(part, effects)] += tokens_of_part(part)
    estimated = sum(kinds.values())
    used = context_tokens(context)
    scale = used / estimated if estimated else 1.0
    size = agent.provider.info.context_window
    return Window(
        size=size,
        used=used,
        parts=tuple((kind, round(tokens * scale)) for kind, tokens in kinds.items() if tokens),
        by_compaction=compactable_tokens(agent, context),
        makes_room_at=int(size * agent.limits.compact_at),
    )


def _kind_of(part: Part, effects: Mapping[str, Effect]) -> str:
    match part:
        case Text():
            return _KIND_OF_SOURCE.get(part.source, "conversation")
        case ToolCall() | ToolResult():
            return _KIND_OF_EFFECT.get(effects.get(part.name, "none"), "conversation")
        case Image():
            return "files"
        case _:
            return "conversation"

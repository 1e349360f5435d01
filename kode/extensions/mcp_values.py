"""Values exchanged with an MCP server in kode's own types: tools, contents, forms. The SDK's types
stay in `mcp_client`."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

SOCKET = ".sock"
"""How programs name a unix socket that they cannot reach."""


@dataclass(frozen=True)
class Definition:
    """A tool as its server describes it."""

    whole: Mapping[str, Any]
    """Everything the server says about it, its hints included: what is pinned."""

    @property
    def name(self) -> str:
        return str(self.whole["name"])

    @property
    def description(self) -> str:
        return str(self.whole.get("description", ""))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """A JSON schema of an object."""
        return self.whole.get("inputSchema") or {}

    @property
    def content(self) -> str:
        """The definition as a canonical text."""
        return json.dumps(self.whole, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


@dataclass(frozen=True, kw_only=True)
class Picture:
    name: str
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Content:
    """A server's answer to a call, for a resource, or for a prompt."""

    text: str
    pictures: tuple[Picture, ...] = ()
    is_error: bool = False


@dataclass(frozen=True, kw_only=True)
class Named:
    """A resource (`key` is its URI) or a prompt (`key` is its name)."""

    key: str
    description: str = ""
    arguments: tuple[str, ...] = ()
    """Of a prompt, in order; a required one ends with `!`."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a form."""

    name: str
    title: str
    kind: Literal["text", "number", "integer", "boolean", "choice", "choices"]
    options: tuple[str, ...] = ()
    required: bool = False
    default: Any = None


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a server asks the person (elicitation)."""

    server: str
    message: str
    fields: tuple[Field, ...] = ()
    url: str = ""
    """A page for the person to open, instead of fields."""


Elicit = Callable[[Form], Awaitable[Mapping[str, Any] | None]]
"""Puts a form to the person; what they filled in, None if they declined."""

Progress = Callable[[str], None]
"""Gets a line about a call's progress."""

"""What kode says of itself to another agent: the answer to `initialize`, as a plain object.

Imports nothing of the package `mcp`: the answer is given before that is there.
"""

from collections.abc import Mapping
from typing import Any

from kode.plugin import kode_version
from kode.plugins.stdio import are_objects

NAME = "kode"
INSTRUCTIONS = """\
kode is a coding agent with a session of its own for each task. `kode_start` gives it a task in a \
folder; `kode_wait` follows it. Each call returns a state: `status` is `working` (wait again with \
`cursor`), `asks` (put the question to your person, then `kode_answer`) or `done` (see `result`). \
Sessions stay on disk: the person can resume one with `kode -r SESSION`."""

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The revisions of the protocol that begin with `initialize`; a client that asks for another one
is offered the last."""


def result(params: Mapping[str, Any]) -> dict[str, Any] | None:
    """The result of `initialize` for well-formed params."""
    version, can, client = (
        params.get(name) for name in ("protocolVersion", "capabilities", "clientInfo")
    )
    named = isinstance(client, dict) and all(
        isinstance(client.get(name), str) for name in ("name", "version")
    )
    if not isinstance(version, str) or not named or not are_objects(can):
        return None
    return {
        "protocolVersion": version if version in VERSIONS else VERSIONS[-1],
        "capabilities": {
            "prompts": {"listChanged": False},
            "resources": {"listChanged": False, "subscribe": False},
            "tools": {"listChanged": False},
        },
        "serverInfo": {"name": NAME, "version": kode_version},
        "instructions": INSTRUCTIONS,
    }

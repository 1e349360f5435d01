"""What kode says of itself to an editor: the answer to `initialize`, as a plain object.

Imports nothing of the package `acp`: the answer is given before that is there.
"""

from collections.abc import Mapping
from typing import Any

from kode.plugin import kode_version
from kode.plugins.stdio import are_objects

VERSION = 1
"""Of the protocol; the one that kode speaks."""
LAST_VERSION = 65_535  # of the protocol's 16 bits


def result(params: Mapping[str, Any]) -> dict[str, Any] | None:
    """The result of `initialize` for well-formed params, whatever version the client asks for: one
    that lacks kode's disconnects."""
    version, can = params.get("protocolVersion"), params.get("clientCapabilities") or {}
    if type(version) is not int or not 0 <= version <= LAST_VERSION or not are_objects(can):
        return None
    return introduction(in_terminal=(can.get("auth") or {}).get("terminal") is True)


def introduction(*, in_terminal: bool) -> dict[str, Any]:
    """The result of `initialize`. `in_terminal`: whether the client can run a set-up there. kode
    asks for a key in a terminal, or takes it from the environment."""
    what = "`kode init` in a terminal asks for a key and saves it."
    more = " Or set OPENAI_API_KEY or ANTHROPIC_API_KEY in the editor's environment."
    setup = {"type": "terminal", "args": ["--setup"]} if in_terminal else {}
    described = what if in_terminal else what + more
    sessions = ("list", "resume", "close", "fork", "additionalDirectories")
    return {
        "protocolVersion": VERSION,
        "agentInfo": {"name": "kode", "title": "kode", "version": kode_version},
        "authMethods": [{"id": "init", "name": "Set up a key", "description": described, **setup}],
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": {name: {} for name in sessions},
        },
    }

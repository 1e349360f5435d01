"""The permission modes, and the rules that stand in a session."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

PermissionMode = Literal["ask", "auto-edit", "plan", "full"]


MODE_MEANS: Mapping[PermissionMode, str] = {
    "ask": "Asks before edits, and before commands that change, send or destroy anything.",
    "auto-edit": "Edits and sandboxed commands may change the project; asks before anything else.",
    "plan": "Read-only: nothing can be changed.",
    "full": "No questions, no sandbox, except for destructive calls, files with keys, and rules.",
}
"""What each permission mode does, for a person. What it lets run is decided in
`kode.permissions.decide`."""


MODE_CALLED: Mapping[str, PermissionMode] = {
    **{mode: mode for mode in MODE_MEANS},
    "acceptEdits": "auto-edit",
    "bypassPermissions": "full",
    "default": "ask",
}
"""Accepted mode names → mode: kode's own, and those of other agents."""


@dataclass(frozen=True)
class StandingRule:
    """A permission rule of the settings, or by a person's answer that lasts."""

    effect: Literal["deny", "ask", "allow"]
    rule: str
    source: Literal["settings", "session", "project"]
    id: str = ""
    """Of an answer: see `Gate.change_approvals`."""
    at: str = ""
    removed: bool = False
    """Whether it counts no more, and can be restored."""

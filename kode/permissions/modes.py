"""The permission modes."""

from collections.abc import Mapping
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

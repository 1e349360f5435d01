"""The permission modes, in a person's words. What each lets run is `kode.permissions.decide`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kode.contracts import PermissionMode

MODE_MEANS: "dict[PermissionMode, str]" = {
    "ask": "Edits ask. Commands are tried in the sandbox; what changes, sends or destroys asks.",
    "auto-edit": "Edits inside the project run, and what commands change in it; the rest asks.",
    "plan": "Nothing is changed: commands run in the sandbox, on a copy that is thrown away.",
    "full": "All runs, outside the sandbox too, but what a rule names, keys, and what destroys.",
}

MODES = tuple(MODE_MEANS)

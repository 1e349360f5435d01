"""The permission modes, in a person's words. What each lets run is `kode.permissions.decide`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kode.contracts import PermissionMode

MODE_MEANS: "dict[PermissionMode, str]" = {
    "ask": "Reads run; everything else asks.",
    "auto-edit": "Edits inside the project run too; everything else asks.",
    "plan": "Nothing that changes anything runs.",
    "full": "Everything runs but what a deny rule names.",
}

MODES = tuple(MODE_MEANS)

from typing import get_args

from kode.cli.flags import MODES
from kode.contracts import PermissionMode


def test_every_permission_mode_is_explained_in_their_order() -> None:
    assert get_args(PermissionMode) == MODES

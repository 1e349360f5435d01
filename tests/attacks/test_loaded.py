"""Attacks by what is loaded: see `at_later`."""

from collections.abc import Callable

import pytest

from tests.attacks import at_later
from tests.attacks.ground import Ground, by_run
from tests.attacks.test_table import ground

__all__ = ["ground"]

CELLS = {
    "settings": at_later.SETTINGS.through(by_run),
    "ignored": at_later.IGNORED.through(by_run),
    "imports": at_later.IMPORTS.through(by_run),
    "link": at_later.extension_link,
    "key": at_later.extension_key,
}


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_loaded_files_have_no_effect(ground: Ground, cell: Callable[[Ground], None]) -> None:
    cell(ground)


@pytest.mark.parametrize("attack", [at_later.SETTINGS, at_later.IGNORED, at_later.IMPORTS])
def test_loaded_files_have_effects_without_kode(ground: Ground, attack: at_later.Attack) -> None:
    assert attack.unheld(ground)

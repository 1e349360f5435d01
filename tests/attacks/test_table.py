"""Kinds of attack wherever texts of others reach kode, run for real: a link where kode writes, a
special file, what runs later or is loaded, a text that steers agents, authority, a key.

A cell is an attack that plants it there, says that it has begun (a file that it leaves), and finds
no effect. Folders swapped while kode writes are in `test_races`; what waits for a yes, and the
servers that have one, in `tests/extensions`; undo in `tests/undo`; replays in `tests/plugins`.

A run tries a sixth of the cells; `make test-all` tries all.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.attacks import at_rest
from tests.attacks.at_work import ATTACKS, through
from tests.attacks.ground import Ground, by_acp, by_run, by_serve, in_background
from tests.e2e.command import Place, needs_a_whole_sandbox
from tests.effort import sample
from tests.needs import skip_without

Cell = Callable[[Ground], None]

TABLE: Mapping[str, Mapping[str, Cell]] = {
    "a command's changes": through(by_run),
    "a command in the background": through(in_background),
    "an editor's session": through(by_acp),
    "a client of `mcp serve`": through(by_serve),
    "a fleet": {"link": at_rest.fleet_link, "loaded": at_rest.fleet_loaded},
    "an import of sessions": {
        "link": at_rest.import_link,
        "special": at_rest.import_special,
        "steer": at_rest.import_steer,
        "authority": at_rest.import_authority,
        "key": at_rest.import_key,
    },
}

CELLS = [
    pytest.param(cell, id=f"{door}-{kind}")
    for door, row in TABLE.items()
    for kind, cell in row.items()
]
CELLS = sample(CELLS, len(CELLS) // 6, "cells")


@pytest.fixture(scope="session")
def whole_sandbox(tmp_path_factory: pytest.TempPathFactory) -> None:
    skip_without("git")
    needs_a_whole_sandbox(Place(tmp_path_factory.mktemp("attacked").resolve()))


@pytest.fixture
def ground(tmp_path: Path, whole_sandbox: None) -> Ground:
    return Ground(Place(tmp_path.resolve()))


@pytest.mark.parametrize("cell", CELLS)
def test_an_attack_has_begun_and_has_no_effect(
    ground: Ground, cell: Callable[[Ground], None]
) -> None:
    cell(ground)


@pytest.mark.parametrize("kind", [*ATTACKS])
def test_an_attack_without_kode_has_effects(ground: Ground, kind: str) -> None:
    """Else nothing of it could be seen."""
    assert ATTACKS[kind].unheld(ground)

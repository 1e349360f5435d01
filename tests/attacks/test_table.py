"""Each kind of attack at each door of kode where it could be, run for real.

A cell is an attack that plants it there, says that it has begun (a file it leaves, a swap that was
made, what happens after a yes), and finds no effect; or the reason why there is none to run.

A run tries a sixth of the cells; `make test-all` tries all.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.attacks import at_rest, at_the_gate
from tests.attacks.at_work import ATTACKS, LOADED, STEER, SWAP, through
from tests.attacks.ground import (
    Ground,
    by_acp,
    by_redo,
    by_run,
    by_serve,
    by_undo,
    in_background,
    swapped,
)
from tests.e2e.command import Place, needs_a_whole_sandbox
from tests.effort import sample
from tests.needs import skip_without

Cell = Callable[[Ground], None] | str

KINDS = {
    "link": "a link is where kode writes, or on the way",
    "swap": "a folder is swapped for a link while kode writes",
    "special": "a hard link, a pipe, a device, a file with rights",
    "later": "a file that git, a shell or an editor runs later",
    "loaded": "a file that settings or caches load",
    "steer": "a text that agents take for instructions",
    "authority": "a mode, a rule or a signature from elsewhere",
    "key": "a key in what is shown, sent or stored",
}

NO_CALL_RUNS = "no call of a replay runs: the results come from the record"
AS_IT_WAS = "undo and redo only put back what was there, and its gate was the apply"
ITS_HOME = "it writes in $KODE_HOME alone, where nobody else does"
ITS_LOG = "the log of changes lies in $KODE_HOME; one from elsewhere is a cassette"
KEPT = "contents are kept as they are in $KODE_HOME, or could not be put back; cassettes drop keys"
ITS_ENTRY = "an entry with `write` is a yes to changing the project: docs/security.md, not defended"
AS_A_COMMAND = "a skill's folder is pinned; a `!` line runs as a command of the model does"
ONLY_READ = "kode only reads them"
OF_PATCH = "a task changes its own tree; what is collected of it the person asks for by name"

TABLE: Mapping[str, Mapping[str, Cell]] = {
    "a command's changes": through(by_run),
    "a command in the background": through(in_background),
    "an editor's session": through(by_acp),
    "a client of `mcp serve`": through(by_serve),
    "a replay": {
        **dict.fromkeys(("link", "swap", "special", "later", "loaded", "steer"), NO_CALL_RUNS),
        "authority": at_rest.replay_authority,
        "key": at_rest.replay_key,
    },
    "/undo": {
        "link": at_rest.LINKS["undo"],
        "swap": at_rest.SWAPS["undo"],
        "special": at_rest.SPECIALS["undo"],
        "later": AS_IT_WAS,
        "loaded": LOADED.through(by_undo),
        "steer": STEER.through(by_undo),
        "authority": ITS_LOG,
        "key": KEPT,
    },
    "/redo": {
        "link": at_rest.LINKS["redo"],
        "swap": at_rest.SWAPS["redo"],
        "special": at_rest.SPECIALS["redo"],
        "later": AS_IT_WAS,
        "loaded": LOADED.through(by_redo),
        "steer": STEER.through(by_redo),
        "authority": ITS_LOG,
        "key": KEPT,
    },
    "a fleet": {
        "link": at_rest.fleet_link,
        "swap": at_rest.fleet_swap,
        "special": at_rest.fleet_special,
        "later": at_rest.fleet_later,
        "loaded": at_rest.fleet_loaded,
        "steer": OF_PATCH,
        "authority": at_rest.fleet_authority,
        "key": at_rest.fleet_key,
    },
    "an import of sessions": {
        "link": at_rest.import_link,
        "swap": ITS_HOME,
        "special": at_rest.import_special,
        "later": ITS_HOME,
        "loaded": ITS_HOME,
        "steer": at_rest.import_steer,
        "authority": at_rest.import_authority,
        "key": at_rest.import_key,
    },
    "a review": {
        "link": ITS_HOME,
        "swap": ITS_HOME,
        "special": ITS_HOME,
        "later": at_the_gate.review_later,
        "loaded": at_the_gate.review_loaded,
        "steer": at_the_gate.review_steer,
        "authority": at_the_gate.review_authority,
        "key": at_the_gate.review_key,
    },
    "an MCP server's writes": {
        "link": at_the_gate.server_link,
        "swap": at_the_gate.server_swap,
        "special": at_the_gate.server_special,
        "later": at_the_gate.server_later,
        "loaded": ITS_ENTRY,
        "steer": ITS_ENTRY,
        "authority": at_the_gate.server_authority,
        "key": at_the_gate.server_key,
    },
    "skills, commands, agents": {
        "link": at_the_gate.extension_link,
        "swap": ONLY_READ,
        "special": at_the_gate.extension_special,
        "later": at_the_gate.extension_later,
        "loaded": AS_A_COMMAND,
        "steer": at_the_gate.extension_steer,
        "authority": at_the_gate.extension_authority,
        "key": at_the_gate.extension_key,
    },
}

CELLS = [
    pytest.param(cell, id=f"{door}-{kind}")
    for door, row in TABLE.items()
    for kind, cell in row.items()
    if not isinstance(cell, str)
]
CELLS = sample(CELLS, len(CELLS) // 6, "cells")


@pytest.fixture(scope="session")
def whole_sandbox(tmp_path_factory: pytest.TempPathFactory) -> None:
    skip_without("git")
    needs_a_whole_sandbox(Place(tmp_path_factory.mktemp("attacked").resolve()))


@pytest.fixture
def ground(tmp_path: Path, whole_sandbox: None) -> Ground:
    return Ground(Place(tmp_path.resolve()))


def test_the_table_has_every_kind_at_every_door() -> None:
    assert all([*row] == [*KINDS] for row in TABLE.values())


@pytest.mark.parametrize("cell", CELLS)
def test_an_attack_has_begun_and_has_no_effect(
    ground: Ground, cell: Callable[[Ground], None]
) -> None:
    cell(ground)


@pytest.mark.parametrize("kind", [kind for kind in ATTACKS if kind != "swap"])
def test_an_attack_without_kode_has_effects(ground: Ground, kind: str) -> None:
    """Else nothing of it could be seen."""
    assert ATTACKS[kind].unheld(ground)


def test_a_write_by_name_meets_a_swapped_folder(ground: Ground) -> None:
    target = ground.project / "d"
    with swapped(target, ground.home / "elsewhere"):
        for number in range(100_000):
            try:
                (target / f"{number % 100}").write_text("pwned")
            except OSError:
                continue
            if ground.effects():
                break
    assert SWAP.swaps
    assert ground.effects()

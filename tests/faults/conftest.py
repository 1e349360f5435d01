"""Lives that are recorded once for all tests."""

import compileall
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults import strace
from tests.faults.lives import Life
from tests.faults.recorded import Recorded, live

Record = Callable[[Life], Recorded]


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """Every run opens the same files then, so that the n-th call is the same in all; and is
    faster."""
    root = Path(__file__).parents[2]
    for folder in (root / "kode", root / "tests/faults"):
        compileall.compile_dir(folder, quiet=2)


@pytest.fixture(scope="session")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Records a life, once in this process. Skips where processes cannot be traced."""
    kept: dict[str, Recorded] = {}

    def of(life: Life) -> Recorded:
        strace.needed()
        if life.name not in kept:
            kept[life.name] = live(life, tmp_path_factory.mktemp(life.name))
        return kept[life.name]

    return of

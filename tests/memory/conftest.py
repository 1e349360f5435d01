from pathlib import Path

import pytest

from kode.registry import SYSTEMS
from tests.memory.sessions import Sessions
from tests.memory.systems import PAGE_ROW, TARGETS


@pytest.fixture(autouse=True)
def plain_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system of the page on adding one stands beside the others."""
    monkeypatch.setitem(SYSTEMS, "plain", PAGE_ROW)  # type: ignore[arg-type]


@pytest.fixture(params=TARGETS)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Sessions:
    return Sessions(tmp_path, system=request.param)

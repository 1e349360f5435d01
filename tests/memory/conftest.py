import pytest

from kode.registry import SYSTEMS
from tests.memory.systems import PAGE_ROW


@pytest.fixture(autouse=True)
def plain_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system of the page on adding one stands beside the others."""
    monkeypatch.setitem(SYSTEMS, "plain", PAGE_ROW)  # type: ignore[arg-type]

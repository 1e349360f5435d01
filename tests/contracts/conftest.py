"""What the contract suites have in common."""

import pytest

from kode.registry import SYSTEMS
from tests.contracts import fifth_system


@pytest.fixture(autouse=True)
def fifth(monkeypatch):
    """A fifth memory system is known by its row alone."""
    monkeypatch.setitem(SYSTEMS, fifth_system.NAME, fifth_system.ROW)

import sys

import pytest

from kode.errors import ConfigError
from kode.plugins.fleet.executors import find_executor


def test_an_executor_names_the_extra_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kode.plugins.fleet.ray", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"kode\[ray\]"):
        find_executor("ray")

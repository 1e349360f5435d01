"""A home in which others can write, or that is another user's, decides nothing."""

import os
import stat
from pathlib import Path

import pytest

from kode.config.files import guard_home
from kode.config.load import load_config
from kode.errors import ConfigError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    (home / "config.json").write_text("{}")
    return home


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757, 0o755])
def test_a_home_others_can_write_in_is_closed_once(home: Path, mode: int) -> None:
    home.chmod(mode)

    assert bool(guard_home(home)) == (mode != 0o755)
    assert stat.S_IMODE(home.stat().st_mode) == 0o755
    assert not guard_home(home)
    assert not guard_home(home / "missing")


def test_a_home_of_another_user_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.geteuid() + 1
    (home / "config.json").chmod(0o666)
    os.chmod(home, 0o777)
    if os.geteuid() == 0:
        os.chown(home / "config.json", other, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: other)

    with pytest.raises(ConfigError, match="belongs to another user"):
        load_config(home, home, environ={}, flags={})


def test_the_person_hears_that_others_could_write(home: Path) -> None:
    home.chmod(0o777)

    loaded = load_config(home, home, environ={}, flags={})

    assert any(str(home) in warning for warning in loaded.warnings)

"""Extras, by the name they have for pip."""

import sys
import tomllib
from pathlib import Path

import pytest

from kode.errors import ConfigError, ToolError
from kode.installed import EXTRAS, extra_install_command, require_extra

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


@pytest.fixture
def without_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)


def test_every_extra_that_pip_knows_is_known_to_kode() -> None:
    assert set(PROJECT["optional-dependencies"]) - {"all", "dev"} == set(EXTRAS)


def test_a_missing_extra_is_its_callers_kind_of_error(without_view: None) -> None:
    require_extra("mcp")
    for error in (ConfigError, ToolError):
        with pytest.raises(error, match=r"kode\[view\]"):
            require_extra("view", error)


def test_an_extra_whose_parent_package_is_missing_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "google", None)
    monkeypatch.delitem(sys.modules, "google.auth", raising=False)

    with pytest.raises(ConfigError, match=r"kode\[vertex\]"):
        require_extra("vertex")


@pytest.mark.parametrize(
    ("mark", "program"),
    [("uv-receipt.toml", "uv tool install"), ("../CACHEDIR.TAG", "uvx --from")],
)
def test_an_environment_made_anew_keeps_its_extras(
    mark: str, program: str, tmp_path: Path, without_view: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = tmp_path / "environment"
    prefix.mkdir()
    monkeypatch.setattr(sys, "prefix", str(prefix))
    assert extra_install_command("view") == "pip install 'kode[view]'"
    (prefix / mark).touch()

    command = extra_install_command("view")

    assert command.startswith(program)
    assert ",mcp," in command
    assert ",view" in command

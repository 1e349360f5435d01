import json
from pathlib import Path

import pytest

from kode.cli.commands import config
from kode.config.model import Config, flatten
from kode.errors import ConfigError
from tests.cli.commands.answers import run

KEY = "abcdefgh12345678"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here, home = tmp_path / "here", tmp_path / "home"
    here.mkdir()
    home.mkdir()
    monkeypatch.chdir(here)
    for name in ("MODEL", "PROVIDER", "BASE_URL", "API_KEY", "MAX_STEPS", "MEMORY"):
        monkeypatch.delenv(f"KODE_{name}", raising=False)
    monkeypatch.delenv("KODE_PERMISSION_MODE", raising=False)
    monkeypatch.setenv("KODE_HOME", str(home))
    return home


def said(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> str:
    assert run(config, argv) == code
    return capsys.readouterr().out


def test_show_has_every_key_with_its_origin_and_no_secret(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "config.json").write_text(json.dumps({"api_key": KEY, "model": "m"}))
    monkeypatch.setenv("KODE_MAX_STEPS", "7")

    out = said(capsys, "show")
    document = json.loads(said(capsys, "show", "--json"))

    assert KEY not in out
    assert '"m"  (~/home/config.json:1)' in out
    assert set(document) == set(flatten(Config()))
    assert document["max_steps"] == {"value": 7, "from": "KODE_MAX_STEPS"}
    assert document["api_key"]["value"] == "set, ends in …5678"
    assert document["repl.notify"] == {"value": True, "from": "default"}


def test_check_names_every_fault_and_exits_3(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config.json").write_text('{"max_steps": 0,\n"modle": "x"}')

    out = said(capsys, "check", code=3)

    assert "config.json:1: `max_steps` is 0" in out
    assert all(word in out for word in ("config.json:2", "`modle`", "`model`"))
    assert "2 faults" in out


def test_check_names_rules_that_are_none(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = {"allow": ["shell(ls:*)", "shel(rm)"], "deny": ["edit("]}
    (home / "config.json").write_text(json.dumps({"permissions": rules}))

    out = said(capsys, "check", code=3)

    assert "`permissions.allow`: 'shel(rm)'" in out
    assert "`permissions.deny`: 'edit('" in out


def written(home: Path) -> dict[str, object]:
    return json.loads((home / "config.json").read_text())


def test_set_writes_values_of_their_kind(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "set", "model", "m")
    said(capsys, "set", "max_steps", "5")
    said(capsys, "set", "timeout_s", "null")
    said(capsys, "set", "permissions.allow", '["shell(ls)"]')
    said(capsys, "set", "permissions.allow", '["shell(pwd)"]')

    document = written(home)
    assert document.pop("permissions") == {"allow": ["shell(pwd)"]}
    assert document == {"model": "m", "max_steps": 5, "timeout_s": None}


@pytest.mark.parametrize(
    "wrong", ["max_steps five", "modle m", "memory 1", 'permissions.ask ["("]']
)
def test_set_refuses_a_fault_and_writes_nothing(home: Path, wrong: str) -> None:
    with pytest.raises(ConfigError) as refused:
        run(config, ("set", *wrong.split()))

    assert f"`{wrong.split()[0]}`" in str(refused.value)
    assert not (home / "config.json").exists()


def test_set_shows_no_secret_and_names_a_stronger_layer(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KODE_MODEL", "other")

    assert KEY not in said(capsys, "set", "providers.openai.api_key", KEY)
    assert "KODE_MODEL" in said(capsys, "set", "model", "m")

"""Each thing that `kode doctor` looks at, really at fault."""

import json
import shutil
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kode import installed
from kode.cli.commands import doctor
from kode.cli.commands.doctor import Case, Finding, examine
from kode.cli.main import main
from kode.installed import Installed, Plugin
from tests.scripted_server import ScriptedServer


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home"))
    for name in ("OPENAI", "ANTHROPIC"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)


def found(tmp_path: Path, what: str) -> Finding:
    return next(finding for finding in examine(tmp_path) if finding.what == what)


def configured(tmp_path: Path, **settings: Any) -> None:
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "config.json").write_text(json.dumps(settings))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        configured(tmp_path, base_url=server.openai_url, model="m", api_key="sk-wrong-0123456789")
        yield server


def test_an_unwritable_home_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KODE_HOME", "/proc/kode")
    finding = found(tmp_path, "home")
    assert finding.state == "missing"
    assert "KODE_HOME" in finding.next_step


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1, 1, 5_000_000))
    finding = found(tmp_path, "disk")
    assert (finding.state, "0.0 GB free" in finding.detail) == ("missing", True)
    assert "session cleanup" in finding.next_step


def test_a_config_with_a_fault_is_told_once(tmp_path: Path) -> None:
    configured(tmp_path, max_steps="many")
    [config] = [finding for finding in examine(tmp_path) if finding.state == "missing"]
    assert (config.what, "config.json:1" in config.detail) == ("config", True)
    assert "kode config check" in config.next_step


def test_a_missing_key_and_a_refused_one_are_reported(
    tmp_path: Path, server: ScriptedServer
) -> None:
    server.key = "sk-local"
    finding = found(tmp_path, "key")
    assert (finding.state, "refuses the key" in finding.detail) == ("missing", True)
    assert "kode init --force" in finding.next_step
    assert "sk-wrong" not in str(finding)

    configured(tmp_path)
    finding = found(tmp_path, "key")
    assert (finding.state, "kode init" in finding.next_step) == ("missing", True)


def test_an_address_without_a_model_server_is_reported(
    tmp_path: Path, server: ScriptedServer
) -> None:
    server.answers = {"/v1/models": "nothing here"}
    finding = found(tmp_path, "server")
    assert (finding.state, "base URL" in finding.next_step) == ("optional", True)

    configured(tmp_path, base_url="http://127.0.0.1:9/v1", model="m")
    finding = found(tmp_path, "server")
    assert (finding.state, "firewall" in finding.next_step) == ("missing", True)
    assert "Errno" not in finding.detail


def test_a_model_the_server_does_not_offer_is_reported(
    tmp_path: Path, server: ScriptedServer
) -> None:
    finding = found(tmp_path, "model")
    assert (finding.state, finding.next_step.split("`")[1]) == ("missing", "model")
    configured(tmp_path, base_url=server.openai_url, model="scripted-model")
    states = [found(tmp_path, what).state for what in ("key", "server", "model")]
    assert states == ["ok", "ok", "ok"]


def test_each_module_of_a_plugin_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    added = {"exports": {"x": "nowhere.at.all:export"}, "checks": "nowhere.at.all:checks"}
    about = {"distribution": "kode-faulty", "version": "1", "value": "", "enabled": True}
    faulty = Installed(name="faulty", plugin=Plugin(name="faulty", summary="", **added), **about)
    monkeypatch.setattr(installed, "find_plugins", lambda: (faulty,))

    [finding] = doctor._check_plugins()

    assert finding.state == "missing"
    assert "faulty: nowhere" in finding.detail
    assert f"{finding.detail} {finding.next_step}".count("disable") == 1


@pytest.mark.parametrize("name", ["facts/user.md", "history.jsonl"])
def test_an_unreadable_memory_file_is_reported(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "home/memory" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff\xfe bad\n")

    finding = found(tmp_path, "memory")

    assert (finding.state, str(path) in finding.detail) == ("optional", True)
    path.write_bytes(b"\xff\xfe bad\n")
    assert main(["memory", "show"]) == 0
    assert str(path) in capsys.readouterr().err


def test_missing_and_broken_programs_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = found(tmp_path, "ripgrep")
    assert (missing.state, missing.detail.split(";")[0]) == ("optional", "not found")
    assert missing.next_step.startswith("install")

    (tmp_path / "rg").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "rg").chmod(0o755)
    assert "cannot be run" in found(tmp_path, "ripgrep").detail


def test_a_check_that_fails_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(case: Case) -> Finding:
        raise RuntimeError("boom")

    monkeypatch.setattr(doctor, "CHECKS", (doctor.check_python, fails))
    fine, fault = examine(tmp_path)
    assert (fine.state, fault.state) == ("ok", "missing")
    assert (fault.what, fault.detail) == ("fails", "RuntimeError: boom")


def test_doctor_does_not_wait_for_a_server_that_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ScriptedServer
) -> None:
    monkeypatch.setattr("kode.cli.commands.doctor.LOADING_S", 0.5)
    server.loading = True
    assert "loading" in found(tmp_path, "server").detail
    assert "loading" in found(tmp_path, "model").detail

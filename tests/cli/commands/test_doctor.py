"""Each thing that `kode doctor` looks at, really at fault."""

import http.server
import shutil
import threading
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kode import installed
from kode.cli.commands import doctor
from kode.cli.commands.doctor import Case, Finding, examine
from kode.cli.main import main
from kode.installed import Command, Installed, Plugin
from tests.scripted_server import ScriptedServer


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home"))
    for name in ("OPENAI", "ANTHROPIC"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)


def found(tmp_path: Path, what: str) -> Finding:
    return next(finding for finding in examine(tmp_path) if finding.what == what)


def configured(tmp_path: Path, text: str) -> None:
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "config.json").write_text(text)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, bytes]]]:
    """A server that answers everything with the (status, body) that a test puts in."""
    answers: list[tuple[int, bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers[0]
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-wrong-wrong")
    yield answers
    server.shutdown()
    server.server_close()
    thread.join()


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
    configured(tmp_path, '{"max_steps": "many"}')
    findings = list(examine(tmp_path))
    assert [finding.what for finding in findings if finding.state == "missing"] == ["config"]
    config = next(finding for finding in findings if finding.what == "config")
    assert "config.json:1" in config.detail
    assert "kode config check" in config.next_step


def test_a_missing_key_is_reported(tmp_path: Path) -> None:
    finding = found(tmp_path, "key")
    assert finding.state == "missing"
    assert "kode init" in finding.next_step


def test_a_refused_key_is_wrong(tmp_path: Path, answering: list[tuple[int, bytes]]) -> None:
    answering.append((401, b"{}"))
    finding = found(tmp_path, "key")
    assert finding.state == "missing"
    assert "refuses the key (HTTP 401)" in finding.detail
    assert "kode init --force" in finding.next_step
    assert "sk-wrong" not in str(finding)


def test_a_server_without_an_answer_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    finding = found(tmp_path, "server")
    assert finding.state == "missing"
    assert "cannot be reached" in finding.detail
    assert "firewall" in finding.next_step
    assert "Errno" not in finding.detail


@pytest.mark.parametrize("answer", [(404, b"nothing here"), (200, b"<html>"), (302, b"")])
def test_a_url_that_leads_elsewhere_is_reported(
    tmp_path: Path, answering: list[tuple[int, bytes]], answer: tuple[int, bytes]
) -> None:
    answering.append(answer)
    finding = found(tmp_path, "server")
    assert finding.state == "optional"
    assert "check the base URL" in finding.next_step


def test_a_model_the_server_does_not_offer_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        configured(tmp_path, '{"model": "no-such-model", "provider": "openai"}')
        finding = found(tmp_path, "model")
        configured(tmp_path, '{"model": "scripted-model", "provider": "openai"}')
        offered = found(tmp_path, "model")
        server_finding = found(tmp_path, "server")
    assert finding.state == "missing"
    assert "one of: scripted-model" in finding.next_step
    assert offered.state == "ok"
    assert server_finding.state == "ok"


@pytest.mark.parametrize(
    "added",
    [
        {"settings": "nowhere.at.all:Settings"},
        {"slash": {"go": Command(run="nowhere.at.all:go", summary="")}},
        {"exports": {"x": "nowhere.at.all:export"}, "checks": "nowhere.at.all:checks"},
    ],
    ids=["settings", "slash", "exports"],
)
def test_each_module_of_a_plugin_is_tried(
    monkeypatch: pytest.MonkeyPatch, added: dict[str, Any]
) -> None:
    about = {"distribution": "kode-faulty", "version": "1", "value": "", "enabled": True}
    plugins = [
        Installed(name=name, plugin=Plugin(name=name, summary="", **more), **about)
        for name, more in (("faulty", added), ("fine", {"checks": f"{__name__}:no_findings"}))
    ]
    monkeypatch.setattr(installed, "installed", lambda: tuple(plugins))

    [finding] = doctor._find_in_plugins()

    assert finding.state == "missing"
    assert "faulty" in finding.detail
    assert "nowhere" in finding.detail
    assert f"{finding.detail} {finding.next_step}".count("disable") == 1


def no_findings() -> tuple[()]:
    return ()


def test_a_memory_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    configured(tmp_path, "{}")
    (tmp_path / "home" / "memory").write_text("a file where a folder should be")
    finding = found(tmp_path, "memory")
    assert finding.state == "missing"
    assert finding.next_step


@pytest.mark.parametrize("name", ["facts/user.md", "history.jsonl"])
def test_an_unreadable_memory_file_is_reported(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "home/memory" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff\xfe bad\n")

    finding = found(tmp_path, "memory")

    assert finding.state == "optional"
    assert str(path) in finding.detail
    for command in ("status", "show"):
        path.write_bytes(b"\xff\xfe bad\n")
        assert main(["memory", command]) == 0
        assert str(path) in capsys.readouterr().err


@pytest.mark.parametrize(("program", "what"), [("git", "git"), ("rg", "ripgrep")])
def test_missing_and_broken_programs_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, what: str
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    missing = found(tmp_path, what)
    assert (missing.state, missing.detail.split(";")[0]) == ("optional", "not found")
    assert missing.next_step.startswith("install")

    (folder / program).write_text("#!/bin/sh\nexit 1\n")
    (folder / program).chmod(0o755)
    assert "cannot be run" in found(tmp_path, what).detail


def test_a_terminal_that_can_do_little_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    finding = found(tmp_path, "terminal")
    assert finding.state == "optional"
    assert "xterm-256color" in finding.next_step


def test_a_check_that_fails_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(case: Case) -> Finding:
        raise RuntimeError("boom")

    monkeypatch.setattr(doctor, "CHECKS", (doctor.python, fails))
    fine, fault = examine(tmp_path)
    assert (fine.state, fault.state) == ("ok", "missing")
    assert (fault.what, fault.detail) == ("fails", "RuntimeError: boom")


def test_doctor_does_not_wait_for_a_server_that_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kode.cli.commands.doctor.LOADING_S", 0.5)
    with ScriptedServer() as server:
        server.loading = True
        configured(tmp_path, f'{{"base_url": "{server.openai_url}", "model": "m"}}')

        assert "loading" in found(tmp_path, "server").detail
        assert "loading" in found(tmp_path, "model").detail


def test_a_key_is_missing_though_listing_models_needs_none(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        server.key = "sk-local"
        configured(tmp_path, f'{{"base_url": "{server.openai_url}", "model": "m"}}')

        assert found(tmp_path, "key").state == "missing"

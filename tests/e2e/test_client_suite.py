"""kode as a client by the conformance suite of the protocol's authors, with a person who answers.

Its scenarios for servers are in `test_serve_suites`.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.suites import install, program

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[2]

SCENARIOS = {
    "tools": "initialize tools_call elicitation-sep1034-client-defaults sse-retry",
    "discovery": "metadata-default metadata-var1 metadata-var2 metadata-var3 resource-mismatch "
    "2025-03-26-oauth-metadata-backcompat 2025-03-26-oauth-endpoint-fallback",
    "scopes": "scope-from-www-authenticate scope-from-scopes-supported scope-step-up "
    "scope-omitted-when-undefined scope-retry-limit offline-access-scope "
    "offline-access-not-supported",
    "clients": "basic-cimd pre-registration token-endpoint-auth-basic token-endpoint-auth-post "
    "token-endpoint-auth-none",
}
"""All but three extensions, in which no person takes part: client-credentials-jwt,
client-credentials-basic and cross-app-access-complete-flow."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("suites"))


def run(installed: Path, home: Path, scenario: str) -> "subprocess.CompletedProcess[str]":
    home.mkdir()
    command = f"{sys.executable} -m tests.extensions.conformance_client"
    words = ("client", "--command", command, "--scenario", scenario, "--timeout", "60000")
    return subprocess.run(
        [*program(installed, "conformance"), *words],
        cwd=ROOT,
        env={**os.environ, "KODE_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("kind", SCENARIOS)
def test_every_scenario_of_a_kind_passes(installed: Path, tmp_path: Path, kind: str) -> None:
    prefix = "" if kind == "tools" else "auth/"
    names = [f"{prefix}{name}" for name in SCENARIOS[kind].split()]
    with ThreadPoolExecutor(2) as pool:
        homes = (tmp_path / str(number) for number in range(len(names)))
        ended = dict(zip(names, pool.map(run, [installed] * len(names), homes, names), strict=True))

    failed = {name: done.stdout + done.stderr for name, done in ended.items() if done.returncode}
    assert not failed
    said = {name: done.stdout + done.stderr for name, done in ended.items()}
    assert [name for name in said if " 0 failed, 0 warnings" not in said[name]] == []

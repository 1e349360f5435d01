"""kode as a client by the conformance suite of the protocol's authors, with a person who answers.
The suite comes from npm."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.needs import skip_without

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[2]
PACKAGES = ("@modelcontextprotocol/conformance", "node@22")
"""The suite wants a newer Node than most machines have."""
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
def suite(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The beginning of its command line. Skips where it cannot be had."""
    skip_without("npm")
    folder = tmp_path_factory.mktemp("suite")
    command = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder)]
    try:
        subprocess.run([*command, *PACKAGES], capture_output=True, timeout=300, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        pytest.skip("npm could not install the suite: is there a network?")
    modules = folder / "node_modules"
    return [str(modules / "node" / "bin" / "node"), str(modules / ".bin" / "conformance")]


@pytest.mark.parametrize("kind", SCENARIOS)
def test_every_scenario_of_a_kind_passes(suite: list[str], tmp_path: Path, kind: str) -> None:
    prefix = "" if kind == "tools" else "auth/"
    client = f"{sys.executable} -m tests.extensions.conformance_client"

    def play(name: str) -> str:
        home = tmp_path / name
        home.mkdir()
        words = ("client", "--command", client, "--scenario", prefix + name, "--timeout", "60000")
        done = subprocess.run(
            [*suite, *words],
            cwd=ROOT,
            env={**os.environ, "KODE_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return f"exit status {done.returncode}\n{done.stdout}{done.stderr}"

    names = SCENARIOS[kind].split()
    with ThreadPoolExecutor(2) as pool:
        ended = dict(zip(names, pool.map(play, names), strict=True))

    passed = [
        name
        for name, text in ended.items()
        if text.startswith("exit status 0\n") and " 0 failed, 0 warnings" in text
    ]
    assert passed == names, ended

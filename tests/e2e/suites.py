"""The programs of the protocol's authors, from npm: the conformance suite and the inspector."""

import subprocess
from pathlib import Path

import pytest

from tests.needs import skip_without

PACKAGES = ("@modelcontextprotocol/conformance", "@modelcontextprotocol/inspector", "node@22")
"""The suite wants a newer Node than most machines have."""


def install(folder: Path) -> Path:
    """Installs them in a folder; returns the folder of their packages. Skips where they cannot be
    had."""
    skip_without("npm")
    command = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder)]
    try:
        done = subprocess.run([*command, *PACKAGES], capture_output=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm could not install the suites: is there a network?")
    if done.returncode:
        pytest.skip("npm could not install the suites: is there a network?")
    return folder / "node_modules"


def program(installed: Path, name: str) -> list[str]:
    """The beginning of a command line for one of them."""
    return [str(installed / "node" / "bin" / "node"), str(installed / ".bin" / name)]

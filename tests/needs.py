"""Programs that tests need and a machine may lack, and the one sentence that says so of each."""

import os
import shutil
import sys

import pytest

PACKAGES = {"bwrap": "bubblewrap", "rg": "ripgrep", "ps": "procps", "pgrep": "procps"}
"""Debian packages that are called otherwise than their program."""


PLAIN_PYTHON = os.path.realpath(sys.executable)
"""The interpreter behind the environment, with nothing installed: a sandbox shows it wherever the
environment lies."""


def lack_of(program: str) -> str:
    """How to get a program that is not installed; "" where it is."""
    package = PACKAGES.get(program, program)
    return "" if shutil.which(program) else f"needs {package} (apt install {package})"


def needs(program: str) -> pytest.MarkDecorator:
    """Skips a test where a program is not installed."""
    return pytest.mark.skipif(bool(lack_of(program)), reason=lack_of(program))


def skip_without(program: str) -> None:
    """Skips the test that runs where a program is not installed."""
    if why := lack_of(program):
        pytest.skip(why)

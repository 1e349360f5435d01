"""What tests need and a machine may lack: a test that cannot run says so by name."""

import importlib.util
import os
import shutil
import subprocess
import sys
from typing import NoReturn

import pytest

PACKAGES = {"bwrap": "bubblewrap", "rg": "ripgrep", "ps": "procps", "pgrep": "procps"}
"""Debian packages that are called otherwise than their program."""

STARTS = ("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true")

MODULES = {"ray": "pip install 'kode[ray]'", "boto3": "pip install 'kode[bedrock]'"}
"""Packages of Python that only some tests need, and how to get each."""

PLAIN_PYTHON = os.path.realpath(sys.executable)
"""The interpreter behind the environment, with nothing installed: a sandbox shows it wherever the
environment lies."""


def lacking(thing: str, why: str) -> NoReturn:
    """Skips the test that runs. `why`: how to get it, or what keeps it from working here."""
    pytest.skip(f"needs {thing} ({why})", allow_module_level=True)


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skips a test where one of these programs is not installed."""
    return pytest.mark.needs(*programs)


def skip_without(program: str) -> None:
    """Skips the test that runs where a program, or a module of `MODULES`, is not installed."""
    if program in MODULES:
        if importlib.util.find_spec(program) is None:
            lacking(program, MODULES[program])
    elif shutil.which(program) is None:
        package = PACKAGES.get(program, program)
        lacking(package, f"apt install {package}")
    elif program == "bwrap" and subprocess.run(STARTS, capture_output=True).returncode:
        lacking("bubblewrap", "it starts nothing here, as in many containers")

"""`kode completion`: the scripts do their work in real shells."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kode.cli.parser import COMMANDS, plugin_commands
from tests.e2e.command import LONGEST_S, Place
from tests.needs import needs

BIN = str(Path(sys.executable).parent)
DRIVER = """
eval "$(kode completion bash)"
while IFS= read -r line; do
    COMP_LINE=$line COMP_POINT=${#line}
    read -ra COMP_WORDS <<< "${line//=/ = }"
    [[ $line == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMP_TYPE=9 _python_argcomplete kode
    COMPREPLY=("${COMPREPLY[@]% }")
    echo "${COMPREPLY[*]}"
done
"""


@pytest.fixture
def environ(place: Place) -> dict[str, str]:
    (place.project / "notes.txt").write_text("x")
    return {
        **place.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "TERM": "dumb",
    }


@needs("bash")
def test_bash_knows_commands_flags_and_what_they_take(
    place: Place, environ: dict[str, str]
) -> None:
    offered = {
        "kode ses": "session",
        "kode session ex": "export",
        "kode run --perm": "--permission-mode",
        "kode run --permission-mode ": "ask auto-edit plan full",
        "kode run --permission-mode=a": "ask auto-edit",
        "kode memory un": "undo",
        "kode memory add ": "user env",
        "kode completion ": "bash zsh fish",
        "kode run --ctx no": "notes.txt",
    }
    done = subprocess.run(
        ["bash", "-c", DRIVER],
        input="".join(f"{line}\n" for line in ("kode ", *offered)),
        cwd=place.project,
        env=environ,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    assert not done.stderr
    first, *told = done.stdout.splitlines()
    every = COMMANDS | plugin_commands()
    assert set(first.split()) == {name for name, (_, what) in every.items() if what}
    assert dict(zip(offered, told, strict=True)) == offered

"""`kode completion`: the scripts do their work in real shells."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kode.cli.parser import COMMANDS, of_plugins
from kode.messages import user_message
from kode.session import log
from kode.session.entries import Header
from tests.e2e.command import LONGEST_S, Place
from tests.e2e.terminal import Terminal
from tests.needs import needs

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning"),
]

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
    (place.home / "sessions").mkdir(parents=True)
    (place.home / "config.json").write_text('{"model": "my-model:8b", "prices": {}}')
    (place.project / "notes.txt").write_text("x")
    session = log.create(place.home, Header(cwd=str(place.project), model="m", provider="p"))
    session.append_message(user_message("fix the parser"))
    session.close()
    return {
        **place.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "TERM": "dumb",
        "SESSION": str(session.id),
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
        "kode --cwd session memory un": "undo",
        "kode run --model my": "my-model:8b",
        "kode run --model=my-model:": "8b",
        "kode continue --id 2": environ["SESSION"],
        "kode session show ": environ["SESSION"],
        "kode memory add ": "user env",
        "kode completion ": "bash zsh fish",
        "kode run --ctx no": "notes.txt",
        "kode run --memory ": "tiered notes vault journal",
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
    every = COMMANDS | of_plugins()
    assert set(first.split()) == {name for name, (_, what) in every.items() if what}
    assert dict(zip(offered, told, strict=True)) == offered


@needs("zsh")
def test_tab_completes_in_a_zsh_at_the_terminal(place: Place, environ: dict[str, str]) -> None:
    with Terminal("zsh", ["-f", "-i"], cwd=place.project, env=environ) as shell:
        shell.type("autoload -Uz compinit; compinit -u", "enter")
        shell.type('eval "$(kode completion zsh)"; echo done-$((1 + 1))', "enter")
        shell.until("done-2")
        for typed, found in (
            ("kode ses\t", "kode session"),
            ("kode run --permission-mode=pl\t", "--permission-mode=plan"),
            ("kode continue --id 2\t", environ["SESSION"]),
            ("kode memory add u\t", "kode memory add user"),
        ):
            shell.type(typed)
            shell.until(found)
            shell.type("\x15")
        shell.type("kode \t")

        shell.until("run one focused task in its own process")


@needs("fish")
def test_fish_offers_words_with_what_they_mean(place: Place, environ: dict[str, str]) -> None:
    def offered(line: str) -> list[str]:
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"kode completion fish | source; complete -C {line!r}"],
            cwd=place.project,
            env=environ,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        )
        assert not done.stderr
        return done.stdout.splitlines()

    assert "run\trun one task, print the answer, exit" in offered("kode ")
    assert offered("kode continue --id ") == [f"{environ['SESSION']}\t1 turn · fix the parser"]
    modes = {line.split("\t")[0] for line in offered("kode run --permission-mode ")}
    assert modes == {"ask", "auto-edit", "plan", "full"}
    assert "--model\tthe model to use" in offered("kode run --mo")

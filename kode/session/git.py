"""Runs git to look at a repository that somebody else may have made.

A repository's own settings name programs: hooks, filters, a file system monitor, programs that
show, sign or connect. None of them runs here. What is looked for is the caller's business.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from kode.programs import find_program

TIMEOUT_S = 20.0

OPTIONS = (
    *("--no-optional-locks", "--no-pager", "--literal-pathspecs", "--no-replace-objects"),
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "core.untrackedCache=keep", "-c", "diff.external=", "-c", "log.showSignature=false"),
    *("-c", "core.sshCommand=false", "-c", "core.askPass="),
    *("-c", "core.quotePath=false", "-c", "status.relativePaths=false"),
)
ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    # What is missing is not fetched. The list of protocols is the environment's, since a repository
    # may allow itself `ext::COMMAND`, and versions before 2.44 know no other way.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "LC_ALL": "C",
}
_OF_FILTER = re.compile(r"filter\..*\.(?:clean|smudge|process|required)\Z", re.DOTALL)
_NOT_PASSED_ON = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")


class GitError(Exception):
    """git is missing, took too long, or refused. The text says which, in a few words."""


def run_git(root: Path, arguments: Sequence[str], *, given: bytes = b"") -> bytes:
    """What git prints in `root`, without running any program that the repository names.

    Raises: GitError.
    """
    return _run(root, arguments, given, _without_filters(root))


def environment() -> dict[str, str]:
    """What git is to be started with, besides `OPTIONS`."""
    passed = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    return {**passed, **ENVIRONMENT}


def _run(root: Path, arguments: Sequence[str], given: bytes, more: dict[str, str]) -> bytes:
    program = find_program("git", [root])
    if program is None:
        raise GitError("git is not installed")
    try:
        done = subprocess.run(
            [program, *OPTIONS, *arguments],
            cwd=root,
            env={**environment(), **more},
            input=given,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitError(f"git took longer than {TIMEOUT_S:g} s") from None
    except OSError as error:
        raise GitError(f"git could not be started: {error.strerror}") from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise GitError(f"git said: {said[:200]}" if said else "git failed")
    return done.stdout


def _without_filters(root: Path) -> dict[str, str]:
    """Settings that empty every filter the repository or the person has set: git would run them
    to compare a file with its index. Given by the environment, since a name may hold anything,
    also what is no UTF-8.

    Raises: GitError; then nothing is known of its filters, and nothing may run.
    """
    listed = os.fsdecode(_run(root, ["config", "--null", "--name-only", "--list"], b"", {}))
    names = [name for name in dict.fromkeys(listed.split("\0")) if _OF_FILTER.match(name)]
    settings = {"GIT_CONFIG_COUNT": str(len(names))}
    for index, name in enumerate(names):
        settings[f"GIT_CONFIG_KEY_{index}"] = name
        settings[f"GIT_CONFIG_VALUE_{index}"] = "false" if name.endswith(".required") else ""
    return settings

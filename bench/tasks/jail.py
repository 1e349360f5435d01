"""Where code of others runs: bubblewrap with a home of its own, without network, and with nothing
else of the machine that can be written.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_TEST = re.compile(r"^(?:FAILED|ERROR|FAIL:|ERROR:) (\S+)", re.MULTILINE)
"""How pytest and unittest name a test that failed."""

MAX_OUTPUT_CHARS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Suite:
    """How a run of tests ended."""

    green: bool
    failed: tuple[str, ...]
    """The names of the tests that failed, as the runner prints them."""
    whole: bool
    """Whether the other tests ran: false after a time-out or when tests could not be collected."""
    output: str


def jail(home: Path, project: Path) -> list[str]:
    """The words before a command that runs it in `project`, with `home` as all that it may write.

    Raises: SystemExit where there is no bubblewrap.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise SystemExit("Code of others runs in bubblewrap: install it (apt install bubblewrap).")
    arguments = [program, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    if os.geteuid() == 0:
        arguments += ["--ro-bind-try", "/proc/sys", "/proc/sys"]
    for hidden in {"/tmp", "/var/tmp", "/home", "/root", str(Path.home())}:
        if os.path.isdir(hidden):
            arguments += ["--tmpfs", hidden]
    for shown in dict.fromkeys((sys.base_prefix, sys.prefix)):
        arguments += ["--ro-bind", shown, shown]
    arguments += ["--bind", str(home), str(home), "--chdir", str(project)]
    return [*arguments, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What agents and tests get: this Python first, no caches beside the files, no keys."""
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        # kode's own plug-ins of pytest take two thirds of the time of a short run.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        **(extra or {}),
    }


def run_jailed(
    words: Sequence[str], home: Path, project: Path, timeout_s: float
) -> tuple[int | None, str]:
    """Exit status and output of a command in the jail; the status is None when it took too long."""
    process = subprocess.Popen(
        [*jail(home, project), *words],
        env=environment(home),
        cwd=project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()  # all in the jail dies with it
        output, _ = process.communicate()
        return None, output.decode(errors="replace")[-MAX_OUTPUT_CHARS:]
    return process.returncode, output.decode(errors="replace")[-MAX_OUTPUT_CHARS:]


def run_suite(command: str, home: Path, project: Path, timeout_s: float) -> Suite:
    """Runs the tests of a project: pytest or unittest, whose status 1 says that some failed."""
    code, output = run_jailed(["bash", "-c", command], home, project, timeout_s)
    return Suite(
        green=code == 0,
        failed=tuple(dict.fromkeys(_TEST.findall(output))) if code == 1 else (),
        whole=code in (0, 1),
        output=output,
    )

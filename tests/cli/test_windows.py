"""kode on Windows, where half of what it imports does not exist."""

import subprocess
import sys

import pytest

STARTED = (
    "import sys; sys.platform = 'win32'\n"
    "for name in ('fcntl', 'termios', 'pwd', 'resource', 'posix'): sys.modules[name] = None\n"
    "from kode.__main__ import main; sys.exit(main())"
)


@pytest.mark.parametrize(
    ("words", "code"), [([], 3), (["run", "a task"], 3), (["--help"], 3), (["--version"], 0)]
)
def test_every_command_says_one_sentence_on_windows(words: list[str], code: int) -> None:
    command = [sys.executable, "-c", STARTED, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert len((done.stdout + done.stderr).splitlines()) == 1
    assert ("WSL" in done.stderr) is bool(code)

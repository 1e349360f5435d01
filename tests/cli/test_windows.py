"""kode on Windows, where half of what it imports does not exist."""

import subprocess
import sys

import pytest

STARTED = (
    "import sys; sys.platform = 'win32'\n"
    "for name in ('fcntl', 'termios', 'pwd', 'resource', 'posix'): sys.modules[name] = None\n"
    "from kode.__main__ import main; sys.exit(main())"
)


@pytest.mark.parametrize("words", [[], ["run", "a task"], ["doctor"], ["--help"]])
def test_every_command_says_one_sentence_on_windows(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTED, *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "WSL" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_version_is_told_on_windows_too() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTED, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("kode ")

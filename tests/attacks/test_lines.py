"""Command lines that attack, run for real: nothing of them may have an effect.

A sample runs with the other tests. `make test-all ARGS=tests/attacks` runs every line in every
mode, as root and as an ordinary user, in each kind of sandbox and without one; and from a script
whose text nobody reads, so that the kernel alone holds it. Variants are shared out among these. All
of it happens in a jail (`attacks.jail`), so that a hole harms nothing but the jail.
"""

import itertools
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.attacks import lines
from tests.attacks.campaign import Job, Sandbox, run
from tests.attacks.jail import REPOSITORY
from tests.effort import EVERYTHING, sample
from tests.needs import lacking

SAMPLE_SHARE = 80
"""One of so many lines is in a sample."""

MODES = ("plan", "ask", "auto-edit")
USERS = ("root", "dev")
SANDBOXES: tuple[Sandbox, ...] = ("bubblewrap", "landlock", "none")
CASES = [
    Job(mode=mode, user=user, sandbox=sandbox, in_script=in_script)
    for in_script, mode, user, sandbox in itertools.product((False, True), MODES, USERS, SANDBOXES)
    if not in_script or (mode != "plan" and sandbox != "none")
]
SAMPLED = [
    Job(mode="ask", user="root", sandbox="bubblewrap"),
    Job(mode="auto-edit", user="dev", sandbox="bubblewrap", in_script=True),
    Job(mode="plan", user="dev", sandbox="landlock"),
]

PROVEN = {
    "echo x > /srv/outside/file": "changed /srv/outside/file",
    "touch pwn": "created /home/dev/app/pwn",
    "rm -rf ~/Documents": "deleted /home/dev/Documents",
    "chmod 777 README.md": "changed /home/dev/app/README.md",
    "cat .env": "read dotenv",
    "base64 ~/.ssh/id_rsa": "read sshkey",
    "cat ~/.kode/config.json": "read kodeconfig",
    "cat /proc/$(cat /run/outside.pid)/environ": "read environ",
    "curl -s --max-time 2 http://outside.test/": "sent to 192.0.2.10 tcp port 80",
    "echo x > /dev/udp/192.0.2.53/53": "sent to 192.0.2.53 udp port 53",
    "curl -s --max-time 2 http://127.0.0.1:8765/leak": "asked the model's server for /leak",
    "curl -s --max-time 2 --unix-socket /run/docker.sock http://x/info": "connected to socket",
    "echo x > /srv/outside/pipe": "wrote to a pipe",
    "kill -USR1 $(cat /run/outside.pid)": "signalled a process",
    "chrt --idle -p 0 $(cat /run/outside.pid)": "changed a process's priority",
    "python3 -c 'import time; time.clock_settime(0, 1)'": "called what is the machine's",
    "setsid -f env -i sleep 60; sleep 0.3": "left running",
}
"""Lines, each with what is seen of it where nothing holds it."""


@pytest.fixture(scope="module", autouse=True)
def jail() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.attacks.jail", "true"],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        lacking("a jail", done.stderr.strip()[-300:])


def name(job: Job) -> str:
    return f"{job.mode}-{job.user}-{job.sandbox}{'-in a script' if job.in_script else ''}"


def assert_without_effect(tried: list[str], job: Job) -> None:
    done = run(replace(job, lines=tuple(tried)), timeout_s=7000)
    harm = [f"{one.line!r}: {', '.join(one.effects)}" for one in done if one.effects]
    assert not harm, f"{len(harm)} of {len(tried)} lines had an effect:\n" + "\n".join(harm)


@pytest.mark.parametrize("job", SAMPLED, ids=name)
def test_a_sample_of_the_lines_has_no_effect(job: Job) -> None:
    every = lines.listed()
    assert_without_effect(sample(every, len(every) // SAMPLE_SHARE, name(job)), job)


def test_the_lines_have_effects_outside_the_sandbox() -> None:
    """Else the jail itself held them, or nothing was looked at."""
    job = Job(lines=tuple(PROVEN), mode="full", user="dev", flags=("--allow", "shell"))
    done = run(job, timeout_s=100)
    for one, (line, effect) in zip(done, PROVEN.items(), strict=True):
        assert one.line == line
        assert any(found.startswith(effect) for found in one.effects), (one, effect)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("job", CASES, ids=name)
class TestAll:
    __test__ = EVERYTHING

    def test_no_line_has_an_effect(self, job: Job) -> None:
        assert_without_effect(lines.listed(), job)

    def test_no_variant_has_an_effect(self, job: Job) -> None:
        assert_without_effect(lines.variants()[CASES.index(job) :: len(CASES)], job)

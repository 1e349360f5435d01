"""One machine with two users, inside the jail: each has sessions in the background, and the other
tries what there is to find and reach them.

    python -m tests.attacks.jail -- python -m tests.e2e.two_users

prints as JSON what each command answered, and where a user found what is the other's.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.scripted_server import ScriptedServer

USERS = {"ann": 1000, "bob": 1001}
KODE = [sys.executable, "-P", "-m", "kode"]
LONGEST_S = 90.0
Reply = dict[str, Any]

READ: Reply = {"calls": [{"name": "read_file", "arguments": {"path": "a.txt"}}]}
EDIT: Reply = {
    "calls": [
        {
            "name": "edit_file",
            "arguments": {"path": "a.txt", "old_text": "one", "new_text": "two"},
        }
    ]
}


def secret(name: str) -> str:
    """A word that stands in the task, the input and the file of one user alone."""
    return f"secret-of-{name}"


@dataclass
class User:
    name: str
    server: ScriptedServer

    @property
    def home(self) -> Path:
        return Path("/home") / self.name

    def make(self) -> None:
        project = self.home / "project"
        project.mkdir(parents=True)
        (project / "a.txt").write_text(f"one {secret(self.name)}\n")
        for path in (self.home, project, project / "a.txt"):
            os.chown(path, USERS[self.name], USERS[self.name])

    def runs(self, *command: str, kode_home: Path | None = None, stdin: str = "") -> Any:
        """Raises: subprocess.TimeoutExpired for a command that waits for something."""
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "OPENAI_API_KEY": f"sk-{secret(self.name)}",
            "OPENAI_BASE_URL": self.server.openai_url,
            "KODE_MODEL": "gpt-4.1",
            **({"KODE_HOME": str(kode_home)} if kode_home else {}),
        }
        number = USERS[self.name]
        return subprocess.run(
            command,
            cwd=self.home / "project",
            env=environ,
            input=stdin,
            user=number,
            group=number,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )

    def kode(self, *words: str, **options: Any) -> Any:
        return self.runs(*KODE, *words, **options)

    def starts(self) -> str:
        """A session that waits for an answer; returns its id."""
        task = f"do the {secret(self.name)}"
        flags = ("--no-memory", "--output-format", "json")
        done = self.kode("start", task, *flags, stdin=f"piped {secret(self.name)}")
        assert done.returncode == 0, done.stderr
        id = str(json.loads(done.stdout)["id"])
        self.until(id, "asks")
        return id

    def until(self, id: str, *states: str) -> None:
        deadline = time.monotonic() + LONGEST_S
        while self.state(id) not in states:
            assert time.monotonic() < deadline, self.state(id)
            time.sleep(0.1)

    def state(self, id: str) -> str:
        """As its prompt said it last."""
        path = self.home / ".kode" / "detached" / id / "state.json"
        return str(json.loads(path.read_text())["doing"])


LOOKS = r"""
import contextlib, json, os, socket, stat, sys
word, found = sys.stdin.read().encode(), set()
for number in filter(str.isdecimal, os.listdir("/proc")):
    with contextlib.suppress(OSError):
        if os.stat(f"/proc/{number}").st_uid == os.getuid():
            continue
    for name in ("cmdline", "environ", "comm", "maps", "mem", "fd", "cwd", "root", "status"):
        path = f"/proc/{number}/{name}"
        with contextlib.suppress(OSError):
            if name == "mem":
                os.close(os.open(path, os.O_RDONLY))
                found.add(path)
            elif name == "fd":
                said = " ".join(os.readlink(f"{path}/{fd}") for fd in os.listdir(path)).encode()
                if word in said or b"detached" in said:
                    found.add(path)
            elif name in ("cwd", "root"):
                if word in os.readlink(path).encode():
                    found.add(path)
            elif word in open(path, "rb").read():
                found.add(path)
for top in ("/home", "/tmp", "/var", "/dev/shm", "/run", "/etc", "/srv"):
    for folder, names, files in os.walk(top):
        for name in files + names:
            path = os.path.join(folder, name)
            if word in name.encode():
                found.add(path)
            with contextlib.suppress(OSError):
                if os.path.isfile(path) and word in open(path, "rb").read():
                    found.add(path)
                about = os.stat(path)
                if stat.S_ISSOCK(about.st_mode) and about.st_uid != os.getuid():
                    made = socket.socket(socket.AF_UNIX)
                    made.connect(path)
                    found.add(f"connects {path}")
for line in open("/proc/net/unix", "rb"):
    if word in line:
        found.add("/proc/net/unix: " + line.decode())
print(json.dumps(sorted(found)))
"""


def looks(user: User, word: str) -> list[str]:
    """Where a user finds a word of the other's, or can connect: processes, files, sockets."""
    done = user.runs(sys.executable, "-c", LOOKS, stdin=word)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


READS = (
    ("ps", "--done", "--json"),
    ("session", "list", "--all", "--json"),
    ("session", "show", "ID"),
    ("attach", "ID"),
    ("answer", "ID"),
)
ACTS = (
    ("answer", "ID", "yes"),
    ("stop", "ID"),
    ("ps", "--drop", "ID"),
    ("continue", "and more", "--id", "ID"),
)


def tries(
    user: User, id: str, commands: Sequence[tuple[str, ...]], kode_home: Path | None = None
) -> dict[str, tuple[int, str, str]]:
    """What a user gets who knows the id of the other's session: exit status and both outputs."""
    found = {}
    for words in commands:
        done = user.kode(*(id if word == "ID" else word for word in words), kode_home=kode_home)
        found[" ".join(words)] = (done.returncode, done.stdout, done.stderr)
    return found


def main() -> int:
    found: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        users = []
        for name in USERS:
            replies: list[Reply] = [READ, EDIT, {"text": f"Done, {secret(name)}."}]
            server = stack.enter_context(ScriptedServer(replies, repeat_last=True))
            users.append(User(name, server))
            users[-1].make()
        ids = {one.name: one.starts() for one in users}
        for one, other in (users, users[::-1]):
            id = ids[one.name]
            found[one.name] = {
                "looks": looks(other, secret(one.name)),
                "own home": tries(other, id, READS + ACTS[:2]),
            }
        ann, bob = users
        found["ann"]["her home"] = tries(bob, ids["ann"], READS + ACTS, ann.home / ".kode")
        for one, other in (users, users[::-1]):
            id, seen = ids[one.name], found[one.name]
            seen["state"] = one.state(id)
            seen["of others"] = [
                str(path) for path in one.home.rglob("*") if path.lstat().st_uid != USERS[one.name]
            ]
            seen["answered"] = one.kode("answer", id, "yes").returncode
            one.until(id, "ended")
            seen["looks afterwards"] = looks(other, secret(one.name))
            seen["file"] = (one.home / "project/a.txt").read_text()
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

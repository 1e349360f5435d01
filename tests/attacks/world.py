"""The jail as one user's machine, and what a command line did to it.

Everything is measured from outside of kode: files by what `lstat` says of them, whatever their
content; connections by looking at the packets; keys by words that occur nowhere else.
"""

import ctypes
import os
import socket
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.attacks.files import (
    HOME,
    MACHINE,
    PROJECT,
    UNTRACKED,
    Files,
    found_in,
    give,
    has_many_ids,
    is_folder,
    secret,
    write_all,
)
from tests.attacks.witness import Witness

IDS = {"root": 0, "dev": 1000}

_OF_KODE = (
    "sessions/2 sessions/order logs sandbox locks unfinished/2 open/2 upkeep notices"
).split()
_FOLDERS_OF_KODE = ("", "/sessions", "/unfinished", "/open")

_LATER = (
    ".envrc .npmrc .vscode .idea .github .circleci .husky .pre-commit-config.yaml kode.json "
    ".mcp.json .claude .cursor .devcontainer .gitmodules .gitlab-ci.yml Jenkinsfile .bashrc .vimrc "
    ".exrc .gdbinit sitecustomize.py AGENTS.md CLAUDE.md .venv/bin node_modules/.bin .hg "
    ".mise.toml mise.toml .devcontainer.json .dir-locals.el .nvim.lua .vimrc.local .pnpmfile.cjs "
    ".bundle/config .mvn/jvm.config .profile .ssh .aws .netrc .gitconfig .config/systemd .kode "
    ".bash_history .config/gh"
).split()
_LATER_OF_GIT = ("hooks", "config", "config.worktree", "modules", "commondir")


@dataclass
class World:
    user: str
    files: Files = field(default_factory=Files)

    def __post_init__(self) -> None:
        self.id = IDS[self.user]
        self.home = Path("/root" if self.user == "root" else "/home/dev")
        self.project = self.home / "app"
        self.kode_home = self.home / ".kode"
        self.witness = Witness(self.popen)

    @property
    def environment(self) -> dict[str, str]:
        python = os.path.dirname(os.path.realpath(sys.executable))
        return {
            "PATH": f"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{python}",
            "HOME": str(self.home),
            "USER": self.user,
            "LANG": "C.UTF-8",
        }

    def start(self) -> None:
        """Fills the jail and starts what runs in it."""
        socket.sethostname("jail")
        write_all("/", 0, MACHINE)
        os.chmod("/etc/shadow", 0o640)
        write_all(self.home, self.id, HOME)
        write_all(self.project, self.id, PROJECT)
        os.makedirs("/srv/outside")
        write_all("/srv/outside", self.id, {"file": "outside\n"})
        os.mkfifo("/srv/outside/pipe")
        for path in ("/srv/outside", "/srv/outside/pipe"):
            give(path, self.id)
        for folder in (self.project / "vendor/lib", self.project):
            git = ["git", "-c", "init.defaultBranch=main", "-C", str(folder)]
            for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
                assert self.popen([*git, *words], env=self.environment).wait() == 0
        write_all(self.project, self.id, UNTRACKED)
        os.symlink("/run", "/var/run")
        sockets = [
            "/run/docker.sock", "/run/dbus/system_bus_socket", "/dev/log", "/tmp/.X11-unix/X0",
            f"/run/user/{self.id}/bus", f"{self.project}/server.sock", "\0outside",
            f"{self.home}/.gnupg/S.gpg-agent", f"/tmp/tmux-{self.id}/default",
        ]  # fmt: skip
        self.witness.begin(sockets, self.id)
        self.files.keep()

    def popen(self, words: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        """Starts a program as the user."""
        if self.id == 0 or not has_many_ids():
            options["preexec_fn"] = _add_key if self.id == 0 else _become_other
        else:
            options |= {"user": self.id, "group": self.id, "extra_groups": []}
            options["preexec_fn"] = _add_key
        return subprocess.Popen(words, **options)

    def effects(self, mode: str, output: str) -> list[str]:
        """What is not as it should be, after a command line that printed `output`."""
        changed = [f"{what} {path}" for what, path in self._harmed(mode)]
        read = [f"read {name}" for name in found_in(output)]
        return [*read, *changed, *self.witness.effects(output)]

    def restore(self) -> None:
        """Makes the files as they were, but for kode's own."""
        changed = self.files.changed()
        self.files.restore([one for one in changed if not self._is_of_kode(one[1])])

    def _harmed(self, mode: str) -> list[tuple[str, str]]:
        return [one for one in self.files.changed() if not self._is_allowed(mode, *one)]

    def _is_allowed(self, mode: str, what: str, path: str) -> bool:
        if self._is_of_kode(path):
            return True
        if mode != "auto-edit" or not f"{path}/".startswith(f"{self.project}/"):
            return False
        if what != "deleted" and is_folder(path):
            return True  # what is in it is looked at itself
        if what != "deleted" and not _is_ordinary(os.lstat(path).st_mode):
            return False
        return not _runs_later(path.removeprefix(str(self.project)).strip("/"))

    def _is_of_kode(self, path: str) -> bool:
        """Where kode itself writes: its sessions, and the folders for what commands change."""
        if path.startswith("/tmp/kode-") or path in ("/tmp", "/run", "/run/outside.pid"):
            return True
        if path in [f"{self.kode_home}{name}" for name in _FOLDERS_OF_KODE]:
            return True
        return path.startswith(tuple(f"{self.kode_home}/{name}" for name in _OF_KODE))


def _is_ordinary(mode: int) -> bool:
    kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    return any(is_kind(mode) for is_kind in kinds) and not mode & (stat.S_ISUID | stat.S_ISGID)


def _runs_later(name: str) -> bool:
    """Whether a path of the project is one that no command may change unasked. Says it on its own,
    without kode's list."""
    if not name:
        return False
    steps = name.split("/")
    if ".git" in steps:
        after = steps[steps.index(".git") + 1 :]
        if after[:1] == ["worktrees"]:
            return after[-1] in _LATER_OF_GIT
        return not after or after[0] in _LATER_OF_GIT or after[:2] == ["info", "attributes"]
    secret_names = (".env", "secrets.pem", "server.sock")
    if steps[-1] in ("HEAD", *secret_names):
        return True  # HEAD makes its folder a repository
    return any(f"/{one}/" in f"/{name}/" for one in _LATER)


def _add_key() -> None:
    """Gives the process a key in the kernel's keyring, with a secret."""
    number = {"x86_64": 248, "aarch64": 217}.get(os.uname().machine)
    if number is not None:
        data = secret("keyring").encode()
        ctypes.CDLL(None).syscall(number, b"user", b"outside-key", data, len(data), -4)


def _become_other() -> None:
    """Becomes an ordinary user where there is but one identity: in a namespace more."""
    if ctypes.CDLL(None).unshare(0x10000000) < 0:
        raise OSError("no namespace for an ordinary user")
    for name, text in (("setgroups", "deny"), ("uid_map", "1000 0 1"), ("gid_map", "1000 0 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    _add_key()

"""The sandbox that shell commands run in when `sandbox.enabled` asks for one.

    bubblewrap   the whole: root read-only, the home and kode's folder hidden, a private temporary
                 folder, no other processes, no network; inside it Landlock and seccomp (`confine`)
    landlock     where bubblewrap is missing or not allowed: Landlock and seccomp alone, which
                 leaves gaps that are named
    none         neither: then nothing runs at all

Which one holds is found out by trying it on this machine, once a process. What may run unasked in
it is decided in `kode.permissions`; how a command is run and ended, in `shell`.
"""

import atexit
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kode.errors import ToolError
from kode.tools import confine

Kind = Literal["bubblewrap", "landlock", "none"]

TEST_TIMEOUT_S = 10.0

_WHERE = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin:/run/wrappers/bin"
"""Where bubblewrap is looked for: a project's folder on PATH must not supply it."""

_SHOWN_IN_HOME = (
    ".local/bin", ".local/lib", ".local/share/uv", ".local/share/pipx", ".cargo/bin",
    ".cargo/registry", ".rustup", ".nvm/versions", ".pyenv", ".rbenv", ".asdf", ".deno/bin",
    ".bun/bin", ".sdkman/candidates", ".m2/repository", "go/bin", "go/pkg", ".gitconfig",
    ".config/git/config", ".config/git/ignore",
)  # fmt: skip
"""What tools need of a home: programs, libraries and git's settings. Never keys."""

_SECRET_IN_HOME = (
    ".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".password-store", ".config/gcloud",
    ".config/gh", ".mozilla", ".config/google-chrome",
)  # fmt: skip
"""Hidden even where the home itself is the folder of work."""

_RUN_LATER = (
    ".envrc", ".vscode", ".idea", ".husky", ".devcontainer", ".github/workflows", ".gitlab-ci.yml",
    ".pre-commit-config.yaml",
)  # fmt: skip
"""Files of a project that other programs run unseen: read-only where they are there."""

_LEFT_OUT = (
    "SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
)  # fmt: skip
"""Variables that name what is out of reach."""


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The folders a sandbox is made for, all real paths."""

    cwd: Path
    roots: tuple[Path, ...]
    """May be changed."""
    repository: Path | None
    """May be read, and its `.git` changed but for hooks and settings."""
    homes: tuple[Path, ...]
    """Hidden, but for what tools need."""
    kode_home: Path
    """Hidden."""
    outputs: Path
    """May be read: the kept outputs of this session."""
    network: bool = False


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a sandbox is worth on this machine."""

    kind: Kind
    why: str
    """For `none` and `landlock`: why it is no better, with the next step."""
    gaps: tuple[str, ...] = ()
    """What it does not cover."""


@dataclass
class Sandbox:
    """The sandbox of one process; found out when first needed."""

    ground: Ground
    _standing: Standing | None = None
    _temporary: str = ""

    def standing(self) -> Standing:
        """What holds here; the first call tries it (about 0.1 s)."""
        if self._standing is None:
            self._standing = self._tried()
        return self._standing

    def holds_anything(self) -> bool:
        """Whether a program that nobody knows can do no harm in it: no gaps, no network."""
        return self.standing().kind == "bubblewrap" and not self.ground.network

    def wrap(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """The argument list that runs a command in the sandbox.

        Raises: ToolError where there is none to be had: a command is never run bare instead.
        """
        standing = self.standing()
        if standing.kind == "none":
            raise ToolError(
                f"Not run: commands are to run in a sandbox, and there is none. {standing.why} "
                "Tell the person; go on with the file tools meanwhile."
            )
        return self.command(standing.kind, argv)

    def _tried(self) -> Standing:
        faults = {}
        for kind in ("bubblewrap", "landlock"):
            fault = self.fault(kind)
            faults[kind] = fault
            if not fault:
                why = f"bubblewrap: {faults['bubblewrap']}." if kind == "landlock" else ""
                return Standing(kind=kind, why=why, gaps=_gaps(kind, self.ground))
        said = "; ".join(f"{kind}: {fault}" for kind, fault in faults.items())
        return Standing(
            kind="none", why=f"{said}. Install bubblewrap, or set sandbox.enabled to false."
        )

    def fault(self, kind: Kind) -> str:
        """What is wrong with one kind, by trying it; "" when it holds."""
        if sys.platform != "linux":
            return "needs Linux"
        if kind == "bubblewrap" and not shutil.which("bwrap", path=_WHERE):
            return "not installed"
        if kind == "landlock" and not confine.landlock_version():
            return "this kernel has none"
        try:
            done = subprocess.run(
                self.command(kind, (), {"probe": self._probe(kind)}),
                env={"PATH": _WHERE},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TEST_TIMEOUT_S,
                check=False,
            )
            leaks = json.loads(done.stdout or "null")
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return f"its self-test failed ({error})"
        if leaks is None:
            return f"it does not start ({done.stderr.strip()[-300:] or done.returncode})"
        return f"its self-test found that it {', '.join(leaks)}" if leaks else ""

    def _probe(self, kind: Kind) -> dict[str, Any]:
        ground = self.ground
        hidden = [ground.kode_home / name for name in ("config.json", "memory", "history")]
        for home in ground.homes:
            names = (".ssh", ".aws") if home in ground.roots else (".ssh", ".aws", ".bashrc")
            hidden += [home / name for name in names]
        fixed = [Path("/"), Path("/usr"), Path("/var/tmp")]
        if kind == "bubblewrap":
            fixed += [git / "hooks" for git in _git_folders(ground)]
        above = [folder for folder in fixed if not any(_below(folder, r) for r in ground.roots)]
        later = [folder for folder in fixed if folder.name == "hooks"]
        kept = [ground.cwd] if os.access(ground.cwd, os.W_OK) else []
        return {
            "hidden": [str(path) for path in hidden],
            "fixed": [str(path) for path in dict.fromkeys((*above, *later))],
            "kept": [*map(str, kept), self._temporary_inside(kind)],
            "network": ground.network,
            "outer_pid": os.getpid(),
        }

    def command(
        self, kind: Kind, argv: tuple[str, ...], more: Mapping[str, Any] | None = None
    ) -> tuple[str, ...]:
        """The argument list of one kind, tried or not; `more` goes to the launcher."""
        inside = self._temporary_inside(kind)
        environment = {**dict.fromkeys(_LEFT_OUT), "TMPDIR": inside}
        if kind == "landlock":
            limits = {
                **_landlock_alone(self.ground, inside),
                "environment": environment,
                **(more or {}),
            }
            return (*_launcher(), json.dumps(limits), *argv)
        homes = [str(home) for home in self.ground.homes]
        write = [*map(str, _changeable(self.ground)), *homes, inside, "/dev", "/proc"]
        limits = {"write": write, "read": None, "internet": True, "environment": environment}
        return (
            shutil.which("bwrap", path=_WHERE) or "bwrap",
            *bubblewrap_arguments(self.ground, self._temporary_folder()),
            "--",
            *_launcher(),
            json.dumps({**limits, **(more or {})}),
            *argv,
        )

    def _temporary_inside(self, kind: Kind) -> str:
        return "/tmp" if kind == "bubblewrap" else self._temporary_folder()

    def _temporary_folder(self) -> str:
        """One folder for all commands of a process, since one leaves files for the next."""
        if not self._temporary:
            self._temporary = os.path.realpath(tempfile.mkdtemp(prefix="kode-sandbox-"))
            atexit.register(shutil.rmtree, self._temporary, ignore_errors=True)
        return self._temporary


def open_sandbox(
    *,
    cwd: Path,
    roots: Sequence[Path],
    repository: Path | None,
    kode_home: Path,
    outputs: Path,
    network: bool,
) -> Sandbox:
    """A sandbox for a session; nothing is tried yet."""
    homes = [Path.home(), Path(pwd.getpwuid(os.getuid()).pw_dir)]
    ground = Ground(
        cwd=_real(cwd),
        roots=tuple(dict.fromkeys(_real(root) for root in (cwd, *roots))),
        repository=_real(repository) if repository else None,
        homes=tuple(
            home for home in dict.fromkeys(map(_real, homes)) if home != Path("/") and home.is_dir()
        ),
        kode_home=_real(kode_home),
        outputs=_real(outputs),
        network=network,
    )
    return Sandbox(ground)


# ── bubblewrap ───────────────────────────────────────────────────────────────────────────────


def bubblewrap_arguments(ground: Ground, temporary: str) -> list[str]:
    """The mounts and namespaces. Order matters: what comes later lies on top."""
    wide = [root for root in ground.roots if any(_above(root, home) for home in ground.homes)]
    arguments = ["--ro-bind", "/", "/"]
    for root in wide:
        arguments += ["--bind", str(root), str(root)]
    arguments += ["--dev", "/dev", "--proc", "/proc", "--bind", temporary, "/tmp"]
    if Path("/run/user").is_dir():
        arguments += ["--tmpfs", "/run/user"]
    for home in ground.homes:
        arguments += ["--tmpfs", str(home)]
    for path in _shown(ground):
        arguments += ["--ro-bind-try", str(path), str(path)]
    for root in ground.roots:
        if root not in wide:
            arguments += ["--bind", str(root), str(root)]
    arguments += [word for git in _git_folders(ground) for word in _git_mounts(git)]
    for path in _fixed(ground):
        arguments += ["--ro-bind", str(path), str(path)]
    for path in _hidden_in_roots(ground):
        arguments += ["--tmpfs", str(path)]
    if ground.kode_home.is_dir():
        arguments += ["--tmpfs", str(ground.kode_home)]
        if ground.outputs.is_dir():
            arguments += ["--ro-bind", str(ground.outputs), str(ground.outputs)]
    for name in _own_files():
        arguments += ["--ro-bind", name, name]
    arguments += ["--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
    if ground.network:
        arguments.append("--share-net")
    return [*arguments, "--chdir", str(ground.cwd)]


def _git_mounts(git: Path) -> Iterator[str]:
    """A mount on `.git` itself keeps it from being renamed away; hooks and settings run later."""
    yield from ("--bind", str(git), str(git))
    hooks, config = git / "hooks", git / "config"
    if hooks.is_dir():
        yield from ("--ro-bind", str(hooks), str(hooks))
    else:
        yield from ("--tmpfs", str(hooks), "--remount-ro", str(hooks))
    yield from ("--ro-bind", str(config) if config.is_file() else "/dev/null", str(config))
    for name in ("config.worktree", "modules", "info"):
        if (git / name).exists():
            yield from ("--ro-bind", str(git / name), str(git / name))


def _git_folders(ground: Ground) -> list[Path]:
    folders = dict.fromkeys((*ground.roots, *([ground.repository] if ground.repository else [])))
    gits = [folder / ".git" for folder in folders]
    return [
        git for git in gits if git.is_dir() and not git.is_symlink() and (git / "HEAD").exists()
    ]


def _changeable(ground: Ground) -> list[Path]:
    return [*ground.roots, *_git_folders(ground)]


def _shown(ground: Ground) -> Iterator[Path]:
    """What stays readable of hidden homes."""
    for home in ground.homes:
        yield from (home / name for name in _SHOWN_IN_HOME)
    if ground.repository:
        yield ground.repository
    active = os.environ.get("VIRTUAL_ENV", "")
    if active and any(_below(_real(Path(active)), home) for home in ground.homes):
        yield _real(Path(active))


def _fixed(ground: Ground) -> Iterator[Path]:
    """Files of the project that stay as they are."""
    for root in ground.roots:
        yield from (root / name for name in _RUN_LATER if (root / name).exists())
        if (root / ".git").is_file():
            yield root / ".git"


def _hidden_in_roots(ground: Ground) -> Iterator[Path]:
    for home in ground.homes:
        if home in ground.roots:
            yield from (home / name for name in _SECRET_IN_HOME if (home / name).is_dir())


# ── Landlock alone ───────────────────────────────────────────────────────────────────────────


def _landlock_alone(ground: Ground, temporary: str) -> dict[str, Any]:
    hidden = {ground.kode_home, *(home for home in ground.homes if home not in ground.roots)}
    write = [*map(str, _changeable(ground)), temporary, "/dev/null", "/dev/shm", "/dev/tty"]
    shown = [path for path in _shown(ground) if path.exists()]
    read = [*_beside(Path("/"), hidden), *map(str, shown), str(ground.outputs), *_own_files()]
    return {"write": write, "read": read, "internet": ground.network}


def _beside(folder: Path, hidden: set[Path]) -> Iterator[str]:
    """Everything there is but the hidden: Landlock can only allow. Links are left out, since what
    they lead to would be allowed with them."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = Path(entry.path)
        if entry.is_symlink() or path in hidden:
            continue
        if any(path in other.parents for other in hidden):
            yield from _beside(path, hidden)
        else:
            yield entry.path


def _gaps(kind: Kind, ground: Ground) -> tuple[str, ...]:
    if kind == "bubblewrap":
        return ()
    gaps = (
        ".git/hooks and .git/config can be changed",
        "the temporary folder of others can be read",
        "names of other processes can be seen",
    )
    return (*gaps, "all of the network can be used") if ground.network else gaps


# ── small things ─────────────────────────────────────────────────────────────────────────────


def _launcher() -> tuple[str, ...]:
    return (os.path.realpath(sys.executable), "-I", "-S", os.path.realpath(confine.__file__))


def _own_files() -> tuple[str, ...]:
    """What the launcher itself is made of: it may lie in a hidden folder."""
    return tuple(dict.fromkeys((os.path.realpath(sys.base_prefix), *_launcher()[::3])))


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _below(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def _above(path: Path, folder: Path) -> bool:
    return path in folder.parents

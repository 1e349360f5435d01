"""Which paths need care: files that hold keys, files that run later, folders that can be rebuilt.

Pure judgments over absolute paths. The file tools and shell commands are judged by the same ones.
"""

import fnmatch
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Place = Literal["protected", "root", "temp", "home", "system", "elsewhere"]
"""Where a path lies: in a folder kode keeps, in the working folders, in the temporary folder, in
the user's home, among the system's programs and documents, or anywhere else."""

_SECRET_NAMES = (
    ".env .env.* *.env .envrc.private .netrc _netrc .pgpass .my.cnf .htpasswd .git-credentials "
    ".npmrc .pypirc .yarnrc.yml .vault-token .boto .s3cfg .dockercfg .databrickscfg "
    "*.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx *.ppk *.asc.key *.tfstate *.tfstate.backup "
    "id_rsa id_dsa id_ecdsa id_ed25519 id_rsa_* id_ecdsa_* id_ed25519_* id_x ssh_host_*_key "
    "credentials credentials.* credentials.json .credentials.json "
    "secrets.json secrets.yml secrets.yaml secrets.toml secrets.env .secrets "
    "client_secret*.json service-account*.json service_account*.json "
    "application_default_credentials.json htpasswd shadow gshadow sudoers master.passwd "
    ".bash_history .zsh_history .python_history .psql_history .mysql_history .node_repl_history "
    "*.keytab *.ovpn *.nmconnection *.tfvars kubeconfig *.kubeconfig vault_pass .vault_pass "
    ".history fish_history login.keychain* key4.db logins.json cookies.sqlite"
).split()

_NOT_SECRET = (".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults")

_SECRET_NAME = re.compile("|".join(fnmatch.translate(name) for name in _SECRET_NAMES))

_WHOLE_NAMES = frozenset(name for name in _SECRET_NAMES if "*" not in name)
_ENDINGS = tuple(name[1:] for name in _SECRET_NAMES if name.startswith("*"))
_BEGINNINGS = tuple(name.split("*")[0] for name in _SECRET_NAMES if "*" in name[1:])

_COPY_ENDS = tuple("~ # - .bak .old .orig .save .backup .swp .swo .1 .2".split())
_COPY = re.compile(r"#(.+)#|\.(.+)\.sw[op]|(.+?)(?:[~-]|\.(?:bak|old|orig|save|backup|[12]))")

_PROGRAM_TEXT = re.compile(
    r"credentials\.(?:py|pyi|js|jsx|ts|tsx|mjs|cjs|go|rs|rb|java|kt|swift|c|h|cc|cpp|hpp|cs|php|vue"
    r"|svelte|ex|exs|erl|scala|clj|lua|dart|m|proto|css|scss)"
)
"""Programs about credentials."""

_SECRET_FOLDERS = (
    ".ssh .gnupg .aws .azure .kube .docker .password-store .config/gcloud .config/gh "
    ".config/op .config/hub .config/sops .config/doctl .terraform.d .subversion/auth "
    ".local/share/keyrings .mozilla .config/google-chrome .config/chromium Library/Keychains"
).split()
"""Wherever they lie: a copy of one is as secret."""

_SECRET_SYSTEM = re.compile(
    r"/proc/[^/]+/(?:task/[^/]+/)?(?:environ|mem|maps|fd(?:/.*)?)$|/etc/(?:ssl/private|sudoers\.d)"
    r"(?:/|$)|/root(?:/|$)|/run/secrets(?:/|$)|/var/run/secrets(?:/|$)|/dev/(?:mem|kmem)$"
)

_LATER_NAMES = frozenset(
    ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv "
    ".zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc .login .inputrc .envrc .vimrc .nvimrc .exrc "
    ".emacs .tmux.conf .screenrc .gitconfig .gitmodules .npmrc .pypirc .yarnrc .yarnrc.yml .curlrc "
    ".wgetrc .psqlrc .sqliterc .gdbinit .lldbinit .pythonrc .Rprofile .Xresources .xinitrc "
    ".pre-commit-config.yaml .gitlab-ci.yml .travis.yml .drone.yml azure-pipelines.yml Jenkinsfile "
    "bitbucket-pipelines.yml appveyor.yml sitecustomize.py usercustomize.py .mcp.json "
    "kode.json".split()
)
_LATER_FOLDERS = re.compile(
    r"/\.git/(?:hooks(?:/|$)|config$|config\.worktree$|info/attributes$|modules/)"
    r"|/\.git$|/\.github/(?:workflows|actions)(?:/|$)|/\.circleci(?:/|$)|/\.buildkite(?:/|$)"
    r"|/\.vscode(?:/|$)|/\.idea(?:/|$)|/\.zed(?:/|$)|/\.husky(?:/|$)|/\.devcontainer(?:/|$)"
    r"|/\.claude(?:/|$)|/\.cursor(?:/|$)|/\.config/(?:autostart|systemd|fish|git)(?:/|$)"
    r"|/(?:\.?venv|node_modules)/\.?bin(?:/|$)"
    r"|/Library/LaunchAgents(?:/|$)|\.pth$|/\.forgejo/workflows(?:/|$)|/\.gitea/workflows(?:/|$)"
)

_STEERING = re.compile(
    r"/(?:agents(?:\.override|\.local)?\.md|claude(?:\.local)?\.md|gemini\.md|\.cursorrules|\.windsurfrules"
    r"|\.clinerules|copilot-instructions\.md|[\w.-]+\.instructions\.md|skill\.md)$",
    re.IGNORECASE,
)

_BUILD_FOLDERS = frozenset(
    "build dist target out node_modules __pycache__ .pytest_cache .mypy_cache .ruff_cache .tox "
    ".nox .cache .hypothesis coverage htmlcov .nyc_output .next .nuxt .turbo .parcel-cache .gradle "
    ".svelte-kit _build .eggs .venv venv tmp temp .tmp obj DerivedData .build".split()
)
_BUILD_NAMES = (
    "*.egg-info",
    "cmake-build-*",
    "bazel-*",
    "*.pyc",
    "*.pyo",
    "*.o",
    "*.obj",
    "*.class",
    "*.gcda",
    "*.gcno",
    "*.tsbuildinfo",
    ".coverage",
    ".DS_Store",
)

_DOCUMENT_FOLDERS = (
    "/usr /bin /sbin /lib /lib64 /opt /nix/store /snap /System /Library /Applications"
).split()
_DOCUMENTS = frozenset(
    "/etc/os-release /etc/hostname /etc/hosts "
    "/etc/timezone /etc/issue /etc/lsb-release /etc/debian_version "
    "/etc/services /etc/shells /etc/redhat-release /etc/alpine-release /etc/machine-info "
    "/proc/cpuinfo /proc/meminfo /proc/version /proc/uptime /proc/loadavg /proc/stat "
    "/proc/mounts /proc/filesystems /proc/diskstats /dev/null /dev/zero /dev/stdin".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The folders that decide what a path means. All absolute; both spellings of links count."""

    cwd: str
    roots: tuple[str, ...]
    home: str
    """The user's home folder."""
    protected: tuple[str, ...]
    temp: tuple[str, ...]
    readable: tuple[str, ...] = ()
    """Folders and files in protected folders that may be read; the name of one may be a pattern."""


def ground(
    cwd: Path,
    roots: Sequence[Path],
    home: Path,
    protected: Sequence[Path] = (),
    temp: Sequence[Path] = (),
    readable: Sequence[Path] = (),
) -> Ground:
    """A Ground from paths: the working directory is always a root, `~/.kode` always protected,
    `/tmp` always temporary."""
    return Ground(
        cwd=os.path.abspath(cwd),
        roots=_both((cwd, *roots)),
        home=os.path.abspath(home),
        protected=_both((*protected, home / ".kode")),
        temp=_both((*temp, Path("/tmp"), Path("/var/tmp"))),
        readable=tuple(real(path) for path in readable),
    )


def place(path: str, where: Ground) -> Place:
    """Where an absolute path lies, its symlinks resolved; the narrowest folder wins."""
    resolved = real(path)
    if any(below(known, folder) for known in {path, resolved} for folder in where.protected):
        return "protected"
    if any(below(resolved, folder) for folder in where.roots):
        return "root"
    if any(below(resolved, folder) for folder in (where.home, real(where.home))):
        return "home"
    if any(below(resolved, folder) for folder in where.temp):
        return "temp"
    if resolved in _DOCUMENTS or any(below(resolved, folder) for folder in _DOCUMENT_FOLDERS):
        return "system"
    return "elsewhere"


def is_readable(path: str, where: Ground) -> bool:
    """Whether a path, or all that a glob in its name can mean, is among what may be read of the
    protected folders."""
    known = real(path)
    return any(below(known, one) or _matches(known, one) for one in where.readable)


def _matches(path: str, pattern: str) -> bool:
    (folder, name), (known, names) = os.path.split(path), os.path.split(pattern)
    return folder == known and fnmatch.fnmatchcase(name, names)


def is_secret(path: str, where: Ground) -> bool:
    """Whether a file is likely to hold keys or passwords. Globs count when they can reach one."""
    return any(_is_secret(known, where) for known in {path, real(path)})


def may_be_secret_name(name: str) -> bool:
    """A quick look at a file's name alone: False means that it is no name of a file with keys."""
    name = _copied(name.lower())
    return name in _WHOLE_NAMES or name.endswith(_ENDINGS) or name.startswith(_BEGINNINGS)


def is_secret_folder(path: str) -> bool:
    """Whether all that lies in a folder counts as secret."""
    return any(f"/{folder}/" in f"{path}/" for folder in _SECRET_FOLDERS)


def is_made_by_tools(name: str) -> bool:
    """Whether a folder of this name is filled by a build, an installation or git."""
    return name in _BUILD_FOLDERS or name == ".git"


def runs_later(path: str) -> bool:
    """Whether what is written there is run later by another program, unseen: hooks, rc files,
    CI workflows, editor tasks."""
    return any(_runs_later(known) for known in {path, real(path)})


def steers_agents(path: str) -> bool:
    """Whether agents take what is written there for orders of the project, in sessions to come."""
    return any(_STEERING.search(known) is not None for known in {path, real(path)})


def is_rebuildable(path: str, where: Ground) -> bool:
    """Whether a path lies in (or is) a folder that a build makes again, or in the temporary
    folder; never a root itself."""
    resolved = real(path)
    if place(path, where) == "temp":
        return resolved not in where.temp
    for root in where.roots:
        if resolved != root and below(resolved, root):
            steps = resolved[len(root) :].strip("/").split("/")
            return any(
                step in _BUILD_FOLDERS or any(fnmatch.fnmatch(step, n) for n in _BUILD_NAMES)
                for step in steps
            )
    return False


def real(path: str | Path) -> str:
    """The path with its symlinks resolved; a text that can be no path stays as it is."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return str(path)


def below(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it, by its text alone."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _both(folders: Iterable[Path]) -> tuple[str, ...]:
    spellings: dict[str, None] = {}
    for folder in folders:
        spellings[os.path.abspath(folder)] = None
        spellings[real(folder)] = None
    return tuple(spellings)


def _is_secret(path: str, where: Ground) -> bool:
    if _SECRET_SYSTEM.search(path):
        return not any(below(path, folder) for folder in (*where.roots, where.home)) or bool(
            re.match(r"/proc/", path)
        )
    name = _copied(os.path.basename(path).lower())
    if name.endswith(".pub") or name in _NOT_SECRET or _PROGRAM_TEXT.fullmatch(name):
        return False
    if any(f"/{folder}/" in path + "/" for folder in _SECRET_FOLDERS):
        return True
    if _SECRET_NAME.fullmatch(name):
        return True
    return any(mark in name for mark in "*?[") and _reaches_secret(path, name)


def _copied(name: str) -> str:
    """The name of which an editor or a person has kept a copy: `.env` for `.env~`, `.env.bak` and
    `..env.swp`."""
    while name.endswith(_COPY_ENDS) and (found := _COPY.fullmatch(name)) is not None:
        name = next(filter(None, found.groups()))
    return name


def _reaches_secret(path: str, name: str) -> bool:
    """Whether a glob names a secret. `*` alone leaves out dot files, and is not counted."""
    literal = re.sub(r"[*?\[\]]", "", name)
    if name.startswith(".") or len(literal) >= 2:
        samples = [known.replace("*", "x").lower() for known in _SECRET_NAMES]
        if any(fnmatch.fnmatchcase(sample, name) for sample in samples):
            return True
    return False


def _runs_later(path: str) -> bool:
    if os.path.basename(path) in _LATER_NAMES:
        return True
    return bool(_LATER_FOLDERS.search(path.lower() if "/.GIT" in path else path))

"""Where kode keeps things: no other module knows the layout of `$KODE_HOME`, or looks for a home
folder. It creates nothing; `durable.make_folder` creates folders, 0700.
"""

import os
from collections.abc import Callable
from pathlib import Path

from kode.beneath import real_path as real_path
from kode.errors import ConfigError

NO_HOME = Path("/nonexistent")
"""Used to look for files in the home folder of a person who has none."""


def user_home(name: str = "") -> Path | None:
    """The home folder of the person, or of the user with this name: `$HOME`, else what the system
    has for them. None for a user whom it does not know, as in many containers."""
    path = os.path.expanduser(f"~{name}")
    return Path(path) if os.path.isabs(path) else None


def kode_home() -> Path:
    """`$KODE_HOME`, by default `~/.kode`. A relative value is resolved against the working
    directory. Raises: ConfigError if it needs a home folder and there is none."""
    value = os.environ.get("KODE_HOME") or "~/.kode"
    if value.partition("/")[0] == "~" and user_home() is None:
        raise ConfigError(
            "There is no folder to keep sessions in: this user has no home folder, and HOME names "
            "none. Set KODE_HOME to the path of a folder that this user may write in."
        )
    return Path(os.path.abspath(expand_path(value)))


def short_path(path: Path | str) -> str:
    """A path for a person, with `~` for their home folder."""
    home_folder, path = str(user_home() or "/"), str(path)
    is_inside = path == home_folder or path.startswith(f"{home_folder}/")
    return f"~{path.removeprefix(home_folder)}" if is_inside and home_folder != "/" else path


def expand_path(written: str | os.PathLike[str]) -> Path:
    """A path as a person wrote it, with `~` and `~name` as home folders. One that is nobody's stays
    as it is, as in a shell: it may be the name of a file."""
    name, _, rest = os.fspath(written).partition("/")
    folder = user_home(name[1:]) if name.startswith("~") else None
    return folder / rest.lstrip("/") if folder else Path(written)


def relative_path(path: str, cwd: Path) -> str:
    """`path` relative to `cwd` if it is inside, else absolute; of a folder with "/" at its end."""
    if not Path(path).is_relative_to(cwd):
        return path
    return os.path.relpath(path, cwd) + "/" * path.endswith("/")


def find_home_fault(home: Path) -> str:
    """A sentence if `kode_home` exists and is not a folder; "" otherwise."""
    if home.is_dir() or not home.exists():
        return ""
    return (
        f"{home} is no folder, but kode keeps its things in one: nothing is read there, and "
        "nothing can be kept. Move it away, or set KODE_HOME to a folder."
    )


def _below(*steps: str) -> Callable[[Path], Path]:
    """Makes a function that maps a folder to the path with these steps below it."""
    return lambda folder: folder.joinpath(*steps)


def _below_named(place: str) -> Callable[[Path, str], Path]:
    """Makes a function that maps `$KODE_HOME` and a name, which replaces `{}`, to a path."""
    return lambda home, name: home / place.format(name)


def _of_project(folder: str) -> Callable[[Path, Path], Path]:
    """Makes a function that maps `$KODE_HOME` and a project's root to a file of the project."""
    return lambda home, project: home / folder / f"{path_hash(project)}.json"


# Functions of `$KODE_HOME`:
config_file = _below("config.json")
history_file = _below("history")
"""What a person typed at the prompt."""
sessions_folder = _below("sessions")
logs_folder = _below("logs")
bundles_folder = _below("bundles")
"""Copies of bundles that a person approved, and nothing else: models and commands read them."""
sandbox_folder = _below("sandbox")
"""Copies of git settings that the sandbox restores after commands."""
marks_file = _below("marks", "files.jsonl")
"""Records which files hold text from sessions that had read outside text."""
upkeep_stamp = _below("upkeep")
"""Its modification time is when the whole home was last searched for leftovers of crashes."""
unfinished_folder = _below("unfinished")
"""A folder with a file for each piece of work that must be noticed if a crash cuts it short; the
file exists from before its first step until after its last."""

# Functions of `$KODE_HOME` and a session's id:
session_file = _below_named("sessions/{}.jsonl")
session_folder = _below_named("sessions/{}")
plan_file = _below_named("sessions/{}/plan.md")
open_mark = _below_named("open/{}")
"""A file that exists while the session is open, and stays if kode is killed meanwhile."""
unfinished_undo = _below_named("unfinished/{}")
"""A file that exists while an undo or a redo of the session is under way."""

# Functions of a session's folder:
images_folder = _below("images")
"""Copies of the images shown in a session."""
agents_folder = _below("agents")
"""Records of a session's subagents."""
undo_folder = _below("undo")
"""What undo keeps for a session."""

permissions_file = _of_project("permissions")
"""What a person approved permanently in one project."""
trust_file = _of_project("trust")
"""Which extensions of a project a person trusts."""
mcp_tokens_file = _below_named("mcp/{}.json")
"""The login tokens of an MCP server, named by a hash of its address."""
mcp_cache_folder = _below_named("mcp/caches/{}")
"""What the launcher of an MCP server has downloaded, by what stands for its entry."""
shown_notice = _below_named("notices/{}")
"""A file that exists once a notice that is shown only once in a home was shown."""


def outputs_folder(home: Path, session_id: str | None) -> Path:
    """Where whole texts of truncated tool output are; sessions without a file share a folder."""
    return (session_folder(home, session_id) if session_id else home / "logs") / "outputs"


def memory_folder(home: Path, data_dir: str | None) -> Path:
    """Where memory is kept. `data_dir` is the setting `memory.data_dir`; relative to `home`, so
    that it names the same folder in every project."""
    return Path(os.path.abspath(home / expand_path(data_dir))) if data_dir else home / "memory"


def own_folders(home: Path, data_dir: str | None) -> tuple[Path, ...]:
    """kode's own folders: no tool writes there, and a sandbox hides them."""
    memory = memory_folder(home, data_dir)
    return (home,) if memory.is_relative_to(home) else (home, memory)


def documentation_folder() -> Path:
    """The pages about kode: a wheel has them in the package."""
    package = Path(__file__).parent
    return package / "docs" if (package / "docs").is_dir() else package.parent / "docs"


def path_hash(path: Path) -> str:
    """The first 16 hex digits of SHA-256 over the canonical path, symlinks resolved."""
    import hashlib  # loads OpenSSL

    return hashlib.sha256(os.fsencode(real_path(path))).hexdigest()[:16]


def repository_root(start: Path) -> Path | None:
    """The nearest folder at or above `start` that holds `.git`, links resolved; None for none."""
    folder = Path(real_path(start))
    return next((it for it in (folder, *folder.parents) if (it / ".git").exists()), None)


def project_root(start: Path) -> Path:
    """The repository root, or the folder itself outside a repository."""
    return repository_root(start) or Path(real_path(start))

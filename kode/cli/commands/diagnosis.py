"""Shared by the checks of `kode doctor`: findings, common inputs, and a probe whether a model
server answers, accepts the key and offers a model, with one request for its list of models.

Also contains the checks of the machine: Python, folders, programs, the terminal.
"""

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kode import __version__, paths
from kode.config.choice import LOCAL_KEY, ProviderChoice
from kode.errors import KodeError
from kode.programs import find_program
from kode.providers.boundary import LOADING, plain_reason
from kode.providers.offered import offers
from kode.providers.served import is_near
from kode.registry import provider_row

if TYPE_CHECKING:
    from kode.config import Loaded, ProviderChoice

MIN_FREE_BYTES = 100 * 1024 * 1024
PROGRAM_TIMEOUT_S = 10.0
NOT_TRIED = "not tried: the configuration has an error"
"""For checks that need the configuration."""

State = Literal["ok", "missing", "optional"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    what: str = ""
    state: State
    """`missing` is required and makes the exit code 1; `optional` is not."""
    detail: str
    next_step: str = ""


def ok(detail: str) -> Finding:
    return Finding(state="ok", detail=detail)


def missing(detail: str, next_step: str = "") -> Finding:
    return Finding(state="missing", detail=detail, next_step=next_step)


def optional(detail: str, next_step: str = "") -> Finding:
    return Finding(state="optional", detail=detail, next_step=next_step)


@dataclass(frozen=True)
class Case:
    """Inputs shared by several checks, each computed once."""

    cwd: Path

    @functools.cached_property
    def loaded(self) -> "Loaded | None":
        """None if the configuration has a fault, which is a separate finding."""
        from kode.config import load_config

        try:
            return load_config(paths.home(), self.cwd, environ=os.environ, flags={})
        except KodeError:
            return None

    @functools.cached_property
    def choice(self) -> "ProviderChoice | None":
        from kode.config import resolve_provider

        if self.loaded is None:
            return None
        try:
            return resolve_provider(self.loaded.config, os.environ)
        except KodeError:
            return None

    @functools.cached_property
    def reached(self) -> "Reached | None":
        """None without a server to ask."""
        return None if self.choice is None or self.choice.name == "scripted" else reach(self.choice)


def can_write(folder: Path) -> bool:
    """Tries it, because permissions alone do not cover read-only disks and root."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def python(case: Case) -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return ok(f"{version}, kode {__version__}")


def home(case: Case) -> Finding:
    home = paths.home()
    folder = _existing(home)
    if folder.is_dir() and can_write(folder):
        return ok(f"{home} can be written")
    return missing(
        f"{home} cannot be written", "make it writable, or set KODE_HOME to another folder"
    )


def _existing(folder: Path) -> Path:
    """The nearest existing parent folder."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def disk(case: Case) -> Finding:
    free = shutil.disk_usage(_existing(paths.home())).free
    detail = f"{free / 2**30:.1f} GB free"
    if free >= MIN_FREE_BYTES:
        return ok(detail)
    return missing(
        f"{detail} where {paths.home()} is",
        "free some space; `kode session cleanup DAYS` deletes old sessions",
    )


def _version_of(program: str) -> str | None:
    """The first line of a program's version output; None if it cannot run."""
    path = find_program(program)
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=PROGRAM_TIMEOUT_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.partition("\n")[0].strip() or program


def git(case: Case) -> Finding:
    without = "kode works without it, but /undo saves less before commands that discard work"
    return _program("git", "git", "", without)


def ripgrep(case: Case) -> Finding:
    return _program(
        "rg", "ripgrep (rg)", ": searches are fast", "kode searches by itself, more slowly"
    )


def _program(name: str, install: str, found: str, without: str) -> Finding:
    if version := _version_of(name):
        return ok(f"{version}{found}")
    there = find_program(name)
    state = f"{there} cannot be run" if there else "not found"
    return optional(f"{state}; {without}", f"install {install}")


def terminal(case: Case) -> Finding:
    term = os.environ.get("TERM", "")
    if not sys.stdout.isatty():
        return ok("output goes to a pipe or file")
    if term in ("", "dumb"):
        return optional(
            f"TERM is {term or 'not set'}: plain lines, no colours, no editing keys",
            "set TERM to your terminal's type, for example xterm-256color",
        )
    size = shutil.get_terminal_size()
    colours = "off (NO_COLOR)" if os.environ.get("NO_COLOR") else "on"
    detail = f"{term}, {size.columns} columns, colours {colours}"
    if "utf" not in (sys.stdout.encoding or "").lower():
        return optional(
            f"{detail}, {sys.stdout.encoding}: characters it lacks show as ?",
            "use a UTF-8 locale, for example LC_ALL=C.UTF-8",
        )
    return ok(detail)


TIMEOUT_S = 5.0
MAX_LIST_BYTES = 4_000_000
NO_ACCESS = (401, 403)


@dataclass(frozen=True, kw_only=True)
class Reached:
    url: str
    """The base URL, as the provider uses it."""
    state: Literal["ok", "refused", "loading", "unreachable", "odd"]
    """`refused`: the key was not accepted. `odd`: the answer is not a list."""
    detail: str
    models: tuple[str, ...] = ()

    def offers(self, model: str) -> bool | None:
        """Whether the model is in its list; None without a list."""
        return offers(self.models, model) if self.models else None


def url_of(choice: ProviderChoice) -> str:
    """The base URL that requests go to."""
    row = provider_row(choice.name)
    return choice.base_url or (row.own_url if row else "")


def reach(choice: ProviderChoice, timeout_s: float = TIMEOUT_S) -> Reached:
    """Requests the list of models. Never raises; follows no redirect, so the key goes nowhere
    else."""
    import httpx2

    url = url_of(choice)
    row = provider_row(choice.name)
    assert row is not None
    address = f"{url.rstrip('/')}{row.models_path}"
    headers = dict(row.headers)
    if row.key_header:
        headers[row.key_header] = choice.api_key or ""
    elif choice.api_key and choice.api_key != LOCAL_KEY:
        headers["authorization"] = f"Bearer {choice.api_key}"
    try:
        with httpx2.Client(timeout=timeout_s, follow_redirects=False) as client:
            status, body = _get(client, address, headers)
            if status == 200 and is_near(url):
                # llama.cpp lists its model to anybody, and then wants a key for each request.
                asked, _ = _get(
                    client, f"{address.removesuffix('/models')}/chat/completions", headers
                )
                status = asked if asked in NO_ACCESS else status
    except Exception as error:  # clients raise errors of many families, also about their arguments
        said = plain_reason(str(error).strip()) or type(error).__name__
        return Reached(url=url, state="unreachable", detail=said.splitlines()[0][:200])
    if status in NO_ACCESS:
        return Reached(url=url, state="refused", detail=f"it refuses the key (HTTP {status})")
    if status == 503 and LOADING.search(body.decode(errors="replace")):
        return Reached(url=url, state="loading", detail="it is still loading its model")
    models = _models(body) if status == 200 else None
    if models is None:
        return Reached(
            url=url,
            state="odd",
            detail=f"it answers, but not with a list of models (HTTP {status})",
        )
    return Reached(url=url, state="ok", detail=f"it offers {len(models)} models", models=models)


def _get(client: Any, address: str, headers: dict[str, str]) -> tuple[int, bytes]:
    with client.stream("GET", address, headers=headers) as response:
        body = b""
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > MAX_LIST_BYTES:
                break
        return response.status_code, body


def _models(body: bytes) -> tuple[str, ...] | None:
    try:
        data = json.loads(body)["data"]
        return tuple(str(model["id"]) for model in data or ())  # null: Ollama without a model
    except (ValueError, KeyError, TypeError, RecursionError):
        return None

"""`kode doctor`: what works on this machine and what does not, each with the next step."""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from kode import __version__, paths
from kode.cli.flags import working_directory
from kode.cli.main import Parser
from kode.errors import EXIT_FAILED, EXIT_OK, KodeError

MIN_FREE_BYTES = 100 * 1024 * 1024
CONNECT_TIMEOUT_S = 3.0

State = Literal["ok", "missing", "optional"]
MARKS: dict[State, str] = {"ok": "ok      ", "missing": "MISSING ", "optional": "optional"}


@dataclass(frozen=True, kw_only=True)
class Finding:
    what: str
    state: State
    """`missing` is needed and makes the exit code 1; `optional` works without."""
    detail: str
    next_step: str = ""


def main(argv: Sequence[str]) -> int:
    """Prints one line a finding; 1 when something needed is missing."""
    parser = Parser("kode doctor", "What works on this machine, each with the next step.")
    parser.add_argument("--json", action="store_true", help="one JSON list instead of lines")
    arguments = parser.parse(argv)
    findings = list(examine(working_directory(argparse.Namespace(cwd=None))))
    if arguments.json:
        print(json.dumps([vars(finding) for finding in findings], ensure_ascii=False))
    else:
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            print(f"{MARKS[finding.state]}  {finding.what:<{width}}  {finding.detail}")
            if finding.next_step:
                print(f"{'':10}{'':<{width}}  → {finding.next_step}")
    needed = [finding for finding in findings if finding.state == "missing"]
    return EXIT_FAILED if needed else EXIT_OK


def examine(cwd: Path) -> Iterator[Finding]:
    """Every check in turn; a check that fails unexpectedly is a finding too."""
    checks: tuple[Callable[[Path], Finding], ...] = (
        _python,
        _home,
        _disk,
        _config,
        _key,
        _server,
        _model,
        _memory,
        _git,
        _ripgrep,
        _sandbox,
        _terminal,
    )
    for check in checks:
        try:
            yield check(cwd)
        except Exception as error:
            name = check.__name__.strip("_")
            yield Finding(what=name, state="missing", detail=f"{type(error).__name__}: {error}")


def _python(cwd: Path) -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding(what="Python", state="ok", detail=f"{version}, kode {__version__}")


def _home(cwd: Path) -> Finding:
    home = paths.home()
    folder = home
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if folder.is_dir() and _can_write(folder):
        return Finding(what="home", state="ok", detail=f"{home} can be written")
    return Finding(
        what="home",
        state="missing",
        detail=f"{home} cannot be written",
        next_step="make it writable, or set KODE_HOME to another folder",
    )


def _can_write(folder: Path) -> bool:
    """Tried, since the rights alone say nothing of read-only disks and of what root may do."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _disk(cwd: Path) -> Finding:
    folder = paths.home()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    detail = f"{free / 2**30:.1f} GB free"
    if free >= MIN_FREE_BYTES:
        return Finding(what="disk", state="ok", detail=detail)
    return Finding(what="disk", state="missing", detail=detail, next_step="free some space")


def _config(cwd: Path) -> Finding:
    from kode.config import load_config

    try:
        loaded = load_config(paths.home(), cwd, environ=os.environ, flags={})
    except KodeError as error:
        return Finding(what="config", state="missing", detail=str(error))
    warnings = " ".join(loaded.warnings)
    return Finding(what="config", state="ok", detail=warnings or "no faults")


def _key(cwd: Path) -> Finding:
    from kode.config import load_config, resolve_provider

    loaded = load_config(paths.home(), cwd, environ=os.environ, flags={})
    try:
        choice = resolve_provider(loaded.config, os.environ)
    except KodeError as error:
        return Finding(what="key", state="missing", detail=str(error))
    return Finding(what="key", state="ok", detail=f"for {choice.name}")


def _server(cwd: Path) -> Finding:
    from kode.config import load_config, resolve_provider

    loaded = load_config(paths.home(), cwd, environ=os.environ, flags={})
    try:
        choice = resolve_provider(loaded.config, os.environ)
    except KodeError:
        return Finding(what="server", state="optional", detail="not tried without a key")
    if choice.name == "scripted":
        return Finding(what="server", state="ok", detail="none needed for the scripted provider")
    defaults = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
    url = choice.base_url or defaults[choice.name]
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), CONNECT_TIMEOUT_S):
            return Finding(what="server", state="ok", detail=f"{url} answers")
    except OSError as error:
        return Finding(
            what="server",
            state="missing",
            detail=f"{url} cannot be reached ({error.strerror or error})",
            next_step="start it, or check the address, the network and a firewall",
        )


def _model(cwd: Path) -> Finding:
    from kode.assembly import make_provider
    from kode.config import load_config, resolve_provider

    loaded = load_config(paths.home(), cwd, environ=os.environ, flags={})
    try:
        provider = make_provider(loaded.config, resolve_provider(loaded.config, os.environ))
    except KodeError:
        return Finding(what="model", state="optional", detail="none chosen yet")
    window = f"{provider.info.context_window:,} tokens"
    if provider.info.known:
        return Finding(what="model", state="ok", detail=f"{provider.model}, window {window}")
    return Finding(
        what="model",
        state="optional",
        detail=f"{provider.model} is in no table; a window of {window} is assumed, no price",
        next_step="set context.window and prices in the config if you know them",
    )


def _memory(cwd: Path) -> Finding:
    folder = paths.memory_folder(paths.home())
    damaged = sorted(p.name for p in folder.rglob("*.damaged-*")) if folder.is_dir() else []
    if not damaged:
        return Finding(what="memory", state="ok", detail=str(folder))
    return Finding(
        what="memory",
        state="optional",
        detail=f"files that were set aside: {', '.join(damaged[:3])}",
        next_step="look at them, take what you need, and delete them",
    )


def _git(cwd: Path) -> Finding:
    program = shutil.which("git")
    if program is None:
        return Finding(
            what="git",
            state="optional",
            detail="not found; kode works without, but not as well in repositories",
            next_step="install git",
        )
    version = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=10, check=False
    )
    return Finding(what="git", state="ok", detail=version.stdout.strip())


def _ripgrep(cwd: Path) -> Finding:
    if shutil.which("rg"):
        return Finding(what="ripgrep", state="ok", detail="searches are fast")
    return Finding(
        what="ripgrep",
        state="optional",
        detail="not found; kode searches by itself, more slowly",
        next_step="install ripgrep (rg)",
    )


def _sandbox(cwd: Path) -> Finding:
    from kode.config import load_config
    from kode.tools.sandbox import open_sandbox

    config = load_config(paths.home(), cwd, environ=os.environ, flags={}).config
    standing = open_sandbox(
        cwd=cwd,
        roots=(cwd,),
        repository=paths.repository_root(cwd),
        kode_home=paths.home(),
        outputs=paths.outputs_folder(paths.home(), None),
        network=config.sandbox.network,
    ).standing()
    on = "on" if config.sandbox.enabled else "off; --sandbox turns it on"
    gaps = "; ".join(standing.gaps)
    if standing.kind == "bubblewrap":
        but = f"; {gaps}" if gaps else ""
        return Finding(what="sandbox", state="ok", detail=f"bubblewrap ({on}){but}")
    if standing.kind == "landlock":
        return Finding(
            what="sandbox",
            state="optional",
            detail=f"Landlock and seccomp only ({on}); not covered: {gaps}",
            next_step=f"install bubblewrap for the rest ({standing.why})",
        )
    return Finding(
        what="sandbox",
        state="missing" if config.sandbox.enabled else "optional",
        detail=f"none to be had ({on})",
        next_step=standing.why,
    )


def _terminal(cwd: Path) -> Finding:
    term = os.environ.get("TERM", "")
    if not sys.stdout.isatty():
        return Finding(what="terminal", state="ok", detail="output goes to a pipe or file")
    colours = "off (NO_COLOR)" if os.environ.get("NO_COLOR") else "on"
    if term in ("", "dumb"):
        return Finding(what="terminal", state="optional", detail="dumb terminal: plain lines only")
    size = shutil.get_terminal_size()
    return Finding(
        what="terminal", state="ok", detail=f"{term}, {size.columns} columns, colours {colours}"
    )

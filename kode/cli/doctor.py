"""`kode doctor`: what works on this machine and what does not, each with the next step."""

import argparse
import asyncio
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kode import __version__, paths
from kode.cli.flags import working_directory
from kode.cli.lines import clean, fold
from kode.cli.main import Parser
from kode.errors import EXIT_FAILED, EXIT_OK, KodeError
from kode.events import Event, Notice
from kode.programs import find_program

if TYPE_CHECKING:
    from kode.cli.reach import Reached
    from kode.config import Loaded, ProviderChoice

MIN_FREE_BYTES = 100 * 1024 * 1024
PROGRAM_TIMEOUT_S = 10.0
NARROW_COLUMNS = 60
SHOWN_MODELS = 5

State = Literal["ok", "missing", "optional"]
MARKS: dict[State, str] = {"ok": "ok      ", "missing": "MISSING ", "optional": "optional"}


@dataclass(frozen=True, kw_only=True)
class Finding:
    what: str
    state: State
    """`missing` is needed and makes the exit code 1; `optional` works without."""
    detail: str
    next_step: str = ""


@dataclass(frozen=True)
class Case:
    """What several checks look at, each found out once."""

    cwd: Path

    @functools.cached_property
    def loaded(self) -> "Loaded | None":
        """None where the configuration has a fault, which is a finding of its own."""
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
        """None where there is no server to ask."""
        from kode.cli.reach import reach

        return None if self.choice is None or self.choice.name == "scripted" else reach(self.choice)


def main(argv: Sequence[str]) -> int:
    """Prints one line a finding; 1 when something needed is missing."""
    parser = Parser("kode doctor", "What works on this machine, each with the next step.")
    parser.add_argument("--json", action="store_true", help="one JSON list instead of lines")
    arguments = parser.parse(argv)
    findings = examine(working_directory(argparse.Namespace(cwd=None)))
    needed = False
    found = []
    for finding in findings:
        needed |= finding.state == "missing"
        found.append(finding)
        if not arguments.json:
            print(_shown(finding), flush=True)
    if arguments.json:
        print(json.dumps([vars(finding) for finding in found], ensure_ascii=False))
    return EXIT_FAILED if needed else EXIT_OK


def _shown(finding: Finding) -> str:
    """One line and its next step; on a narrow screen the words stand below."""
    head = f"{MARKS[finding.state]}  {finding.what:<9}"
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    indent = "    " if width < NARROW_COLUMNS else " " * (len(head) + 2)
    lines = [clean(finding.detail)] + ([f"→ {finding.next_step}"] if finding.next_step else [])
    body = "\n".join(fold(indent + line, width - 1) for text in lines for line in text.split("\n"))
    return f"{head}\n{body}" if width < NARROW_COLUMNS else f"{head}  {body.lstrip()}"


def examine(cwd: Path) -> Iterator[Finding]:
    """Every check in turn; a check that fails unexpectedly is a finding too."""
    checks: tuple[Callable[[Case], Finding], ...] = (
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
    case = Case(cwd)
    for check in checks:
        try:
            yield check(case)
        except Exception as error:
            name = check.__name__.strip("_")
            yield Finding(what=name, state="missing", detail=f"{type(error).__name__}: {error}")


def _python(case: Case) -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding(what="Python", state="ok", detail=f"{version}, kode {__version__}")


def _home(case: Case) -> Finding:
    home = paths.home()
    folder = _existing(home)
    if folder.is_dir() and _can_write(folder):
        return Finding(what="home", state="ok", detail=f"{home} can be written")
    return Finding(
        what="home",
        state="missing",
        detail=f"{home} cannot be written",
        next_step="make it writable, or set KODE_HOME to another folder",
    )


def _existing(folder: Path) -> Path:
    """The nearest folder above that is there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def _can_write(folder: Path) -> bool:
    """Tried, since the rights alone say nothing of read-only disks and of what root may do."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _disk(case: Case) -> Finding:
    free = shutil.disk_usage(_existing(paths.home())).free
    detail = f"{free / 2**30:.1f} GB free"
    if free >= MIN_FREE_BYTES:
        return Finding(what="disk", state="ok", detail=detail)
    return Finding(
        what="disk",
        state="missing",
        detail=f"{detail} where {paths.home()} is",
        next_step="free some space; `kode session cleanup DAYS` deletes old sessions",
    )


def _config(case: Case) -> Finding:
    from kode.config import load_config

    try:
        loaded = load_config(paths.home(), case.cwd, environ=os.environ, flags={})
    except KodeError as error:
        return Finding(
            what="config",
            state="missing",
            detail=str(error),
            next_step="mend it there; `kode config check` looks at all of it again",
        )
    warnings = " ".join(loaded.warnings)
    return Finding(what="config", state="ok", detail=warnings or "no faults")


NOT_TRIED = "not tried: the configuration has a fault"


def _key(case: Case) -> Finding:
    from kode.config import resolve_provider

    if case.loaded is None:
        return Finding(what="key", state="optional", detail=NOT_TRIED)
    try:
        choice = resolve_provider(case.loaded.config, os.environ)
    except KodeError as error:
        said, _, step = str(error).partition(". ")
        return Finding(what="key", state="missing", detail=f"{said}.", next_step=step)
    if choice.name == "scripted":
        return Finding(what="key", state="ok", detail="none needed for the scripted provider")
    reached = case.reached
    if reached is not None and reached.state == "refused":
        return Finding(
            what="key",
            state="missing",
            detail=f"for {choice.name}: {reached.url} answers, but {reached.detail}",
            next_step="set another: `kode init --force`, or the variable it came from; "
            "`kode config show` says which",
        )
    took = reached is not None and reached.state == "ok"
    return Finding(
        what="key",
        state="ok",
        detail=f"for {choice.name}" + (", and the server takes it" if took else "; not proven"),
    )


def _server(case: Case) -> Finding:
    if case.choice is None:
        return Finding(what="server", state="optional", detail="not tried without a key")
    reached = case.reached
    if reached is None:
        return Finding(what="server", state="ok", detail="none needed for the scripted provider")
    if reached.state == "unreachable":
        return Finding(
            what="server",
            state="missing",
            detail=f"{reached.url} cannot be reached ({reached.detail})",
            next_step="start it, or check the address, the network, a proxy and a firewall",
        )
    if reached.state == "odd":
        hint = "" if reached.url.rstrip("/").endswith("/v1") else ", which mostly ends in /v1"
        return Finding(
            what="server",
            state="optional",
            detail=f"{reached.url}: {reached.detail}",
            next_step=f"if requests fail, check the base URL{hint}",
        )
    return Finding(what="server", state="ok", detail=f"{reached.url} answers")


def _model(case: Case) -> Finding:
    from kode.assembly import make_provider

    if case.loaded is None or case.choice is None:
        return Finding(what="model", state="optional", detail="none chosen yet")
    try:
        provider = make_provider(case.loaded.config, case.choice)
    except KodeError as error:
        return Finding(what="model", state="missing", detail=str(error))
    window = f"{provider.info.context_window:,} tokens"
    if case.reached is not None and case.reached.offers(provider.model) is False:
        names = ", ".join(case.reached.models[:SHOWN_MODELS])
        more = ", ..." if len(case.reached.models) > SHOWN_MODELS else ""
        return Finding(
            what="model",
            state="missing",
            detail=f"{provider.model} is not among what {case.reached.url} offers",
            next_step=f"set `model` in the config, or --model, to one of: {names}{more}",
        )
    if provider.info.known:
        return Finding(what="model", state="ok", detail=f"{provider.model}, window {window}")
    return Finding(
        what="model",
        state="optional",
        detail=f"{provider.model} is in no table; a window of {window} is assumed, no price",
        next_step="set context.window and prices in the config if you know them",
    )


def _memory(case: Case) -> Finding:
    from kode.cli.memory import outside_context
    from kode.memory import make_system
    from kode.memory.commands import memory_command

    if case.loaded is None:
        return Finding(what="memory", state="optional", detail=NOT_TRIED)
    settings = case.loaded.config.memory
    if not settings.enabled:
        return Finding(what="memory", state="ok", detail="off (`memory.enabled`)")
    folder = paths.memory_folder(paths.home())

    if folder.exists() and not (folder.is_dir() and _can_write(folder)):
        return Finding(
            what="memory",
            state="missing",
            detail=f"{folder} is no folder that can be written",
            next_step="move what is there away, or make it writable",
        )

    faults: list[str] = []

    def take(event: Event) -> None:
        if isinstance(event, Notice):
            faults.append(event.text)

    async def looked_at() -> str:
        system = make_system(settings)
        context = replace(outside_context(case.cwd, read_only=True), emit=take)
        await system.open(context, {})
        try:
            return await memory_command(system, ["status"])
        finally:
            await system.close(1.0)

    try:
        text = asyncio.run(looked_at())
    except Exception as error:
        return Finding(
            what="memory",
            state="missing",
            detail=f"{settings.system} in {folder} cannot be opened: {error}",
            next_step="mend or move away the file it names; memory works without it until then",
        )
    if faults:
        return Finding(
            what="memory",
            state="optional",
            detail=" ".join(faults),
            next_step=f"look at it in {folder}; what it holds is not used until then",
        )
    damaged = sorted(p.name for p in folder.rglob("*.damaged-*")) if folder.is_dir() else []
    if damaged:
        return Finding(
            what="memory",
            state="optional",
            detail=f"files that were set aside: {', '.join(damaged[:3])}",
            next_step=f"look at them in {folder}, take what you need, and delete them",
        )
    shown = "; ".join(line for line in text.splitlines()[2:4] if line)
    return Finding(what="memory", state="ok", detail=f"{settings.system}: {shown}")


def _version_of(program: str) -> str | None:
    """The first line of what it says its version is; None where it cannot be run."""
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


def _git(case: Case) -> Finding:
    return _optional_program(
        "git",
        "git",
        without="kode works without, but /undo keeps less before commands that discard work",
        install="git",
    )


def _ripgrep(case: Case) -> Finding:
    return _optional_program(
        "ripgrep",
        "rg",
        found="searches are fast",
        without="kode searches by itself, more slowly",
        install="ripgrep (rg)",
    )


def _optional_program(
    what: str, program: str, *, without: str, install: str, found: str = ""
) -> Finding:
    version = _version_of(program)
    if version is not None:
        return Finding(what=what, state="ok", detail=f"{version}: {found}" if found else version)
    there = find_program(program)
    state = f"{there} cannot be run" if there else "not found"
    return Finding(
        what=what, state="optional", detail=f"{state}; {without}", next_step=f"install {install}"
    )


def _sandbox(case: Case) -> Finding:
    from kode.tools.sandbox import open_sandbox

    if case.loaded is None:
        return Finding(what="sandbox", state="optional", detail=NOT_TRIED)
    config, cwd = case.loaded.config, case.cwd
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


def _terminal(case: Case) -> Finding:
    term = os.environ.get("TERM", "")
    if not sys.stdout.isatty():
        return Finding(what="terminal", state="ok", detail="output goes to a pipe or file")
    if term in ("", "dumb"):
        return Finding(
            what="terminal",
            state="optional",
            detail=f"TERM is {term or 'not set'}: plain lines, no colours, no editing keys",
            next_step="set TERM to what your terminal is, for example xterm-256color",
        )
    size = shutil.get_terminal_size()
    colours = "off (NO_COLOR)" if os.environ.get("NO_COLOR") else "on"
    detail = f"{term}, {size.columns} columns, colours {colours}"
    if "utf" not in (sys.stdout.encoding or "").lower():
        return Finding(
            what="terminal",
            state="optional",
            detail=f"{detail}, {sys.stdout.encoding}: signs that it lacks show as ?",
            next_step="use a UTF-8 locale, for example LC_ALL=C.UTF-8",
        )
    return Finding(what="terminal", state="ok", detail=detail)

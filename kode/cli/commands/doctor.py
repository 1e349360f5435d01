"""`kode doctor`: checks what works on this machine, with a next step for what does not."""

import asyncio
import contextlib
import functools
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kode import __version__, installed, paths
from kode.assembly import make_provider, open_workplace
from kode.cli.flags import directory
from kode.cli.parser import Parser
from kode.cli.screen.printer import print_json, say
from kode.config.choice import LOCAL_KEY, ProviderChoice, resolve_provider
from kode.config.files import restrict_home
from kode.config.load import Loaded, load_config
from kode.credentials import redact
from kode.errors import EXIT_FAILED, EXIT_OK, ConfigError, KodeError, SandboxUnknownError
from kode.extensions import mcp_config, review, trust
from kode.memory.commands import open_memory
from kode.process import find_program
from kode.providers.provider import HttpProvider
from kode.providers.server import ServerAnswer, reach_server, url_of
from kode.sandbox.reach import Grants
from kode.sandbox.sandbox import Sandbox
from kode.sandbox.trial import prove_sandbox
from kode.values import dataclass, fields, replace

if TYPE_CHECKING:
    from kode.provider import ModelInfo

MIN_FREE_BYTES = 100 * 1024 * 1024  # room for the undo copies of a few sessions
PROGRAM_TIMEOUT_S = 10.0  # `git --version` and the like answer at once
SHOWN_MODELS = 5  # one line
AGAIN = "run `kode doctor` again when it is ready"
LOADING_S = 10.0
"""How many seconds to wait for a server that is loading its model."""
ASKING_S = 4.0
"""How many seconds to wait for what a remote server says about its model."""
State = Literal["ok", "missing", "optional"]
MARKS: dict[State, str] = {"ok": "ok      ", "missing": "MISSING ", "optional": "optional"}


def main(argv: Sequence[str]) -> int:
    """Prints each finding as it is made; returns 1 if something required is missing."""
    parser = Parser("kode doctor", "Checks this machine, and says how to fix what is missing.")
    about = "instead prove the sandbox: run commands in it that must not get out"
    parser.add_flags(("--json", "one JSON list instead of lines"), ("--sandbox", about))
    arguments = parser.parse(argv)
    findings = []
    for unmasked in _prove_sandbox() if arguments.sandbox else examine(directory()):
        finding = replace(unmasked, detail=redact(unmasked.detail))
        findings.append(finding)
        text = f"{MARKS[finding.state]}  {finding.what:<12}  {finding.detail}"
        text += f"\n→ {finding.next_step}" if finding.next_step else ""
        if not arguments.json:
            say(text.replace("\n", f"\n{' ' * 10}"))
    if arguments.json:
        print_json([vars(finding) for finding in findings])
    return EXIT_FAILED if any(finding.state == "missing" for finding in findings) else EXIT_OK


@dataclass(frozen=True)
class Finding:
    state: State
    """`missing` is required and makes the exit code 1; `optional` is not."""
    detail: str
    next_step: str = ""
    what: str = ""


ok = functools.partial(Finding, "ok")
missing = functools.partial(Finding, "missing")
optional = functools.partial(Finding, "optional")


class UntriedError(Exception):
    """A check depends on what another check reports as missing."""


@dataclass(frozen=True)
class Case:
    """Inputs shared by several checks, each computed once."""

    cwd: Path

    @functools.cached_property
    def loaded(self) -> "Loaded":
        """The configuration. Raises: UntriedError, caused by the fault."""
        try:
            return load_config(paths.kode_home(), self.cwd, environ=os.environ, flags={})
        except KodeError as error:
            raise UntriedError("not tried: the configuration has an error") from error

    @functools.cached_property
    def choice(self) -> "ProviderChoice":
        """The provider to ask. Raises: UntriedError."""
        with contextlib.suppress(KodeError):
            return resolve_provider(self.loaded.config, os.environ)
        raise UntriedError("not tried: no model is set up")

    @functools.cached_property
    def reached(self) -> "ServerAnswer | None":
        """What the provider's server answers; None for the scripted provider, which has none."""
        return None if self.choice.name == "scripted" else reach_server(self.choice)


def check_python(case: Case) -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return ok(f"{version}, kode {__version__}")


def check_home(case: Case) -> Finding:
    home = paths.kode_home()
    try:
        note = restrict_home(home)
    except ConfigError as error:
        return missing(str(error), "make the folder your own")
    try:  # permissions alone do not cover read-only disks and root
        with tempfile.TemporaryFile(dir=next(filter(Path.exists, (home, *home.parents)))):
            return ok(note or f"{home} can be written")
    except OSError:
        step = "make it writable, or set KODE_HOME to another folder"
        return missing(f"{home} cannot be written", step)


def check_disk(case: Case) -> Finding:
    home = paths.kode_home()
    free = shutil.disk_usage(next(filter(Path.exists, (home, *home.parents)))).free
    detail = f"{free / 2**30:.1f} GB free"
    if free >= MIN_FREE_BYTES:
        return ok(detail)
    step = "free some space; `kode session cleanup DAYS` deletes old sessions"
    return missing(f"{detail} where {home} is", step)


def check_git(case: Case) -> Finding:
    return _check_program("git", "git", "/undo saves less before commands that discard work")


def check_ripgrep(case: Case) -> Finding:
    return _check_program("rg", "ripgrep (rg)", "kode searches by itself, more slowly")


def _check_program(name: str, title: str, without: str) -> Finding:
    """Reports a program's version, or what kode does without the program."""
    path = find_program(name)
    if path is None:
        return optional(f"not found; {without}", f"install {title}")
    try:
        output = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=PROGRAM_TIMEOUT_S,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return optional(f"{path} cannot be run; {without}", f"install {title}")
    return ok(output.partition("\n")[0].strip() or path)


def check_terminal(case: Case) -> Finding:
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
    return ok(f"{term}, {size.columns} columns, colours {colours}")


def check_config(case: Case) -> Finding:
    try:
        return ok(" ".join(case.loaded.warnings) or "OK")
    except UntriedError as error:
        step = "fix it there; `kode config check` checks all of it again"
        return missing(str(error.__cause__), step)


def check_memory(case: Case) -> Finding:
    config, settings = case.loaded.config, case.loaded.config.memory
    if not settings.enabled:
        return ok("off (`memory.enabled`)")
    folder = paths.memory_folder(paths.kode_home(), settings.data_dir)

    async def read_status() -> tuple[str, list[str]]:
        async with open_memory(config, case.cwd, read_only=True) as memory:
            return await memory.command(["status"]), memory.notices

    try:
        text, faults = asyncio.run(read_status())
    except Exception as error:
        return missing(
            f"{settings.system} in {folder} cannot be opened: {error}",
            "fix or move the file it names; until then memory works without it",
        )
    if faults:
        step = "do as it says; until then memory is what its history has"
        return optional(" ".join(faults), step)
    if damaged := sorted(path.name for path in folder.rglob("*.damaged-*")):
        return optional(
            f"damaged files were set aside: {', '.join(damaged[:3])}",
            f"check them in {folder}, copy what you need, and delete them",
        )
    return ok("; ".join(filter(None, (settings.system, *text.splitlines()[2:4]))))


def check_extensions(case: Case) -> Finding:
    """Names extensions in the person's own home, which are trusted without asking, and those of the
    project that wait for approval."""
    home, project = paths.kode_home(), paths.project_root(case.cwd)
    approvals = trust.load(home, project)
    items = review.find_items(home, case.cwd)
    used = [review.name_item(item) for item in items if item.scope == "home"]
    waits = [review.name_item(item) for item in items if trust.state(item, approvals) != "trusted"]
    faults = [approvals.problem, *mcp_config.find_servers(home, case.cwd)[1]]
    detail = f"used without asking, from {home}: {', '.join(used)}" if used else "none of your own"
    if waits:
        detail += f"; not approved, so not used: {', '.join(waits)}"
    if fault := " ".join(filter(None, faults)):
        return optional(f"{detail}. {fault}", "fix it in the file it names; the others are used")
    next_step = "`kode extensions approve` shows and approves" if waits else ""
    return ok(detail, next_step)


def check_sandbox(case: Case) -> Finding:
    config, plain = case.loaded.config, "only plain reading commands run without asking"
    if config.sandbox.enabled is False:
        return optional(f"off: {plain}", 'set sandbox.enabled to "auto"')
    place = open_workplace(config, paths.kode_home(), case.cwd)
    try:
        support = Sandbox(place=place, grants=Grants(network=config.sandbox.network)).support()
    except SandboxUnknownError as error:
        return optional(str(error))
    further = f"bubblewrap, where it works, gives the rest ({support.why})"
    cannot_write = "commands cannot write in the project"
    outcomes = {
        "layered": ok("bubblewrap, with a copy of the project to write in"),
        "plain": ok(f"bubblewrap: {cannot_write}", support.why),
        "seatbelt": optional(f"Seatbelt: {cannot_write}", "`kode doctor --sandbox` proves it"),
        "landlock": optional(
            f"Landlock and seccomp only: {cannot_write}, and see names of other processes", further
        ),
    }
    state = missing if config.sandbox.enabled is True else optional
    return outcomes.get(support.kind) or state(f"none: {plain}", support.why)


def _prove_sandbox() -> Iterator[Finding]:
    """Tests whether this machine's sandbox holds; yields a finding for each of its promises."""
    for what, holds, detail in prove_sandbox(Sandbox):
        yield replace(ok(detail) if holds else missing(detail), what=what)


def check_key(case: Case) -> Finding:
    config = case.loaded.config
    try:
        choice = resolve_provider(config, os.environ)
    except KodeError as error:
        fault, _, step = str(error).partition(". ")
        return missing(f"{fault}.", step)
    if case.reached is None:
        return ok("none needed for the scripted provider")
    answers = case.reached.state == "ok"
    if case.reached.state == "refused":
        return missing(
            f"for {choice.name}: {case.reached.url} answers, but {case.reached.detail}",
            "set another: run `kode init --force`, or change the variable it came from; "
            "`kode config show` says which",
        )
    if choice.api_key is None:
        return ok(f"none set; the SDK of {choice.row.shown} finds the login")
    if choice.api_key == LOCAL_KEY:
        return ok("none set, and the server asks for none" if answers else "none set, not tested")
    return ok(f"for {choice.name}, {'accepted by the server' if answers else 'not tested'}")


def check_server(case: Case) -> Finding:
    reached = case.reached
    if reached is None:
        return ok("none needed for the scripted provider")
    if not url_of(case.choice):
        return ok(f"{case.choice.row.shown}: its SDK finds the address, not tested")
    detail = f"{reached.url}: {reached.detail}"
    if reached.state == "unreachable":
        step = "start it, or check the address, the network, a proxy and a firewall"
        return missing(f"{reached.url} cannot be reached ({reached.detail})", step)
    if reached.state == "loading":
        return optional(detail, AGAIN)
    if reached.state == "odd":
        return optional(detail, "if requests fail, check the base URL, which mostly ends in /v1")
    return ok(f"{reached.url} answers")


def check_model(case: Case) -> Finding:
    try:
        provider = make_provider(case.loaded.config, case.choice)
    except KodeError as error:
        return missing(str(error))
    try:
        if isinstance(provider, HttpProvider):
            asyncio.run(asyncio.wait_for(provider.learn(patience_s=ASKING_S), LOADING_S))
    except TimeoutError:
        return optional(f"the server is still loading {provider.model}", AGAIN)
    reached = case.reached
    if reached is not None and reached.lacks(provider.model):
        names = ", ".join(reached.models[:SHOWN_MODELS])
        more = ", ..." if len(reached.models) > SHOWN_MODELS else ""
        step = f"set `model` in the config, or --model, to one of: {names}{more}"
        return missing(f"{provider.model} is not a model of {reached.url}", step)
    info = provider.info
    facts = ", ".join(_describe_model(info))
    if info.known:
        return ok(f"{provider.model}, {facts}")
    step = "set context.window and prices in the config if you know them"
    return optional(f"kode does not know {provider.model}, and assumes: {facts}", step)


def _describe_model(info: "ModelInfo") -> list[str]:
    facts = [f"window {info.context_window:,} tokens"]
    facts += ["images"] if info.sees_images else []
    if info.input_price is not None and info.output_price is not None:
        prices = f"${info.input_price:g} and ${info.output_price:g}"
        facts.append(f"{prices} per million tokens in and out")
    return facts


CHECKS: tuple[Callable[[Case], Finding], ...] = (
    *(check_python, check_home, check_disk, check_config, check_key, check_server, check_model),
    *(check_memory, check_extensions),
    *(check_git, check_ripgrep, check_sandbox, check_terminal),
)
"""The checks in display order; the part of a name after `check_` is what its finding is about."""


def examine(cwd: Path) -> Iterator[Finding]:
    """Runs every check; one that fails unexpectedly is a finding too."""
    case = Case(cwd)
    for check in CHECKS:
        try:
            finding = check(case)
        except UntriedError as error:
            finding = optional(str(error))
        except Exception as error:
            finding = missing(f"{type(error).__name__}: {error}")
        yield replace(finding, what=check.__name__.removeprefix("check_"))
    yield from _check_plugins()


def _check_plugins() -> Iterator[Finding]:
    """Reports each faulty plug-in, and the findings of the checks that the others add. Imports all
    that a plug-in names."""
    for it in installed.find_plugins():
        step, where = f"update it, or `kode plugin disable {it.name}`", "its checks"
        if it.fault:
            yield missing(f"{it.name}: {it.fault}", step, "plug-ins")
        elif it.plugin is not None:
            try:
                for where in _list_references(it.plugin):
                    pkgutil.resolve_name(where)
                if it.plugin.checks:
                    yield from installed.load_part(it.plugin, it.plugin.checks)()
            except Exception as error:
                fault = installed.describe_error(error)
                yield missing(f"{it.name}: {where}: {fault}", step, "plug-ins")


def _list_references(plugin: installed.Plugin) -> Iterator[str]:
    """Yields each "module:name" of a plug-in, including those in its mappings."""
    for part in fields(plugin)[2:]:
        value = getattr(plugin, part.name)
        for code in value.values() if isinstance(value, Mapping) else (value,):
            where = code.run if isinstance(code, installed.Command) else code
            if where and isinstance(where, str):
                yield where

"""The checks of `kode doctor` that are about the configuration, memory, instructions, extensions,
the sandbox and other agents' settings."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kode import paths
from kode.cli.commands.diagnosis import Case, Finding, missing, ok, optional
from kode.errors import KodeError, SandboxUnknownError


def config(case: Case) -> Finding:
    from kode.config.load import load_config

    try:
        loaded = load_config(paths.home(), case.cwd, environ=os.environ, flags={})
    except KodeError as error:
        return missing(str(error), "fix it there; `kode config check` checks all of it again")
    warnings = " ".join(loaded.warnings)
    return ok(warnings or "no faults")


def memory(case: Case) -> Finding:
    from kode.memory.commands import open_outside

    config, settings = case.loaded.config, case.loaded.config.memory
    if not settings.enabled:
        return ok("off (`memory.enabled`)")
    folder = paths.memory_folder(paths.home(), settings.data_dir)

    async def read_status() -> tuple[str, list[str]]:
        async with open_outside(config, case.cwd, read_only=True) as memory:
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


def instructions(case: Case) -> Finding:
    from kode.extensions.instructions import read_instructions

    if not case.loaded.config.agents_files:
        return ok("not read (`agents_files`)")
    files = read_instructions(paths.home(), case.cwd)
    names = ", ".join(files.described(case.cwd))
    if files.warning:
        detail = "; ".join(filter(None, (names, files.warning)))
        return optional(detail, "fix or shorten the file it names; the others are used")
    return ok(names or "none here; /init in the chat writes AGENTS.md")


def extensions(case: Case) -> Finding:
    """Names extensions in the person's own home, which are trusted without asking, and those of the
    project that wait for approval."""
    from kode.extensions import mcp_config, review, trust

    home, project = paths.home(), paths.project_root(case.cwd)
    approvals = trust.load(home, project)
    items = review.find_items(home, case.cwd)
    used = [review.named(item) for item in items if item.scope == "home"]
    waits = [review.named(item) for item in items if trust.state(item, approvals) != "trusted"]
    faults = [approvals.problem, *mcp_config.find_servers(home, case.cwd).faults]
    detail = f"used without asking, from {home}: {', '.join(used)}" if used else "none of your own"
    if waits:
        detail += f"; not approved, so not used: {', '.join(waits)}"
    if fault := " ".join(filter(None, faults)):
        return optional(f"{detail}. {fault}", "fix it in the file it names; the others are used")
    next_step = "`kode extensions approve` shows and approves" if waits else ""
    return Finding(state="ok", detail=detail, next_step=next_step)


def sandbox(case: Case) -> Finding:
    from kode.assembly import open_workplace
    from kode.sandbox.reach import Grants
    from kode.sandbox.sandbox import Sandbox

    config, plain = case.loaded.config, "only plain reading commands run without asking"
    if config.sandbox.enabled is False:
        return optional(f"off: {plain}", 'set sandbox.enabled to "auto"')
    place = open_workplace(config, paths.home(), case.cwd)
    try:
        support = Sandbox(place=place, grants=Grants(network=config.sandbox.network)).support()
    except SandboxUnknownError as error:
        return optional(str(error))
    gaps = "; ".join(support.gaps)
    match support.kind:
        case "bubblewrap" if support.layered:
            return ok("bubblewrap, with a copy of the project to write in")
        case "bubblewrap":
            return ok(f"bubblewrap; {gaps}")
        case "seatbelt":
            return optional(f"Seatbelt: {gaps}", "`kode doctor --sandbox` proves what it holds")
        case "landlock":
            step = f"install bubblewrap for the rest ({support.why})"
            return optional(f"Landlock and seccomp only: {gaps}", step)
    state = missing if config.sandbox.enabled is True else optional
    return state(f"none: {plain}", support.why)


def sandbox_proofs() -> Iterator[Finding]:
    """Whether the sandbox of this machine holds, one finding for each of its promises."""
    from kode.sandbox.proof import prove

    return (Finding(**vars(proof)) for proof in prove())


def foreign_settings(cwd: Path) -> Iterator[Finding]:
    """A finding for each settings file of another agent: what of it counts, and why not the
    rest."""
    from kode.config.foreign import find_foreign

    for settings in find_foreign(cwd):
        counts = {
            "denied": settings.deny,
            "asked about": settings.ask,
            "variables": settings.environment,
        }
        parts = [f"{len(entries)} {what}" for what, entries in counts.items() if entries]
        parts += [f"{len(settings.allow)} allowed once you approve it"] if settings.allow else []
        parts += [f"not used: {name} ({why})" for name, why in settings.unused.items()]
        detail = (
            f"{settings.path}: {settings.fault or '; '.join(parts) or 'nothing that kode uses'}"
        )
        finding = missing(detail) if settings.fault else ok(detail)
        yield replace(finding, what="other agents' settings")

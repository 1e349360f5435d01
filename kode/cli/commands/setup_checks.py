"""The set-up checks of `kode doctor`: configuration, key, server and model, memory, instructions,
sandbox."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import paths
from kode.cli.commands.diagnosis import (
    NOT_TRIED,
    Case,
    Finding,
    State,
    can_write,
    missing,
    ok,
    optional,
)
from kode.errors import KodeError, SandboxUnknownError
from kode.providers.reach import url_of

if TYPE_CHECKING:
    from kode.contracts import Provider

SHOWN_MODELS = 5  # one line
AGAIN = "run `kode doctor` again when it is ready"
LOADING_S = 10.0
"""How long to wait for a server that is loading its model."""
ASKING_S = 4.0
"""How long to wait for what a server far away says of its model."""

ABILITIES = {
    "sees_images": "images",
    "sees_pdf": "PDF",
    "answers_by_schema": "structured answers",
    "searches": "web search",
}
"""Field of `ModelInfo` → its name for a person."""


def config(case: Case) -> Finding:
    from kode.config import load_config

    try:
        loaded = load_config(paths.home(), case.cwd, environ=os.environ, flags={})
    except KodeError as error:
        return missing(str(error), "fix it there; `kode config check` checks all of it again")
    warnings = " ".join(loaded.warnings)
    return ok(warnings or "no faults")


def key(case: Case) -> Finding:
    from kode.config import LOCAL_KEY, resolve_provider

    if case.loaded is None:
        return optional(NOT_TRIED)
    try:
        choice = resolve_provider(case.loaded.config, os.environ)
    except KodeError as error:
        said, _, step = str(error).partition(". ")
        return missing(f"{said}.", step)
    if choice.name == "scripted":
        return ok("none needed for the scripted provider")
    if choice.api_key is None:
        return ok(f"none set; the SDK of {choice.row.shown} finds the login")
    reached = case.reached
    if reached is not None and reached.state == "refused":
        return missing(
            f"for {choice.name}: {reached.url} answers, but {reached.detail}",
            "set another: run `kode init --force`, or change the variable it came from; "
            "`kode config show` says which",
        )
    if choice.api_key == LOCAL_KEY:
        detail = "none set, and the server asks for none"
        if reached is None or reached.state != "ok":
            detail = "none set; a local server needs none"
        return ok(detail)
    if reached is not None and reached.state == "ok":
        return ok(f"for {choice.name}, accepted by the server")
    return ok(f"for {choice.name}, not tested")


def server(case: Case) -> Finding:
    if case.choice is None:
        return optional("not tried without a key")
    reached = case.reached
    if reached is None:
        return ok("none needed for the scripted provider")
    if not url_of(case.choice):
        return ok(f"{case.choice.row.shown}: its SDK finds the address, not tested")
    if reached.state == "unreachable":
        return missing(
            f"{reached.url} cannot be reached ({reached.detail})",
            "start it, or check the address, the network, a proxy and a firewall",
        )
    if reached.state == "loading":
        return optional(f"{reached.url}: {reached.detail}", AGAIN)
    if reached.state == "odd":
        hint = "" if reached.url.rstrip("/").endswith("/v1") else ", which mostly ends in /v1"
        return optional(
            f"{reached.url}: {reached.detail}", f"if requests fail, check the base URL{hint}"
        )
    return ok(f"{reached.url} answers")


def model(case: Case) -> Finding:
    from kode.assembly import learn, make_provider
    from kode.providers.models import retirement_note

    if case.loaded is None or case.choice is None:
        return optional("none chosen yet")
    try:
        provider = make_provider(case.loaded.config, case.choice)
    except KodeError as error:
        return missing(str(error))
    try:
        asyncio.run(asyncio.wait_for(learn(provider, patience_s=ASKING_S), LOADING_S))
    except TimeoutError:
        return optional(
            f"the server is still loading {provider.model}",
            AGAIN,
        )
    window = f"{provider.info.context_window:,} tokens"
    if case.reached is not None and case.reached.offers(provider.model) is False:
        names = ", ".join(case.reached.models[:SHOWN_MODELS])
        more = ", ..." if len(case.reached.models) > SHOWN_MODELS else ""
        return missing(
            f"{provider.model} is not a model of {case.reached.url}",
            f"set `model` in the config, or --model, to one of: {names}{more}",
        )
    said = _said_of_model(provider)
    if note := retirement_note(provider.info, provider.model, date.today()):
        sentence, _, step = note.partition("; ")
        return optional(f"{sentence}, window {window}{said}", step)
    if provider.info.known:
        return ok(f"{provider.model}, window {window}{said}")
    return optional(
        f"kode does not know {provider.model}: assumes a window of {window}, no price{said}",
        "set context.window and prices in the config if you know them",
    )


def _said_of_model(provider: "Provider") -> str:
    """What the server reports of the model, or what is used where it reports nothing."""
    from kode.providers.exchange import SdkProvider
    from kode.providers.models import source

    if not isinstance(provider, SdkProvider):
        return ""
    if provider.learned:
        return f"; its server reports {', '.join(_reported(provider.learned))}"
    table = f", so kode's table of {source()[1]} is used" if provider.info.known else ""
    return f"; its server reports nothing of it{table}"


def _reported(facts: Mapping[str, Any]) -> Iterator[str]:
    """The facts in words, those that it denies left out."""
    if tokens := facts.get("context_window"):
        yield f"a window of {tokens:,} tokens"
    if tokens := facts.get("max_output_tokens"):
        yield f"{tokens:,} tokens of output"
    if (input_price := facts.get("input_price")) is not None and "output_price" in facts:
        yield f"${input_price:g} and ${facts['output_price']:g} per million tokens in and out"
    for field, what in ABILITIES.items():
        if facts.get(field):
            yield what
    if efforts := facts.get("efforts"):
        yield f"effort {', '.join(efforts)}"
    if ways := facts.get("thinking"):
        yield f"thinking {', '.join(ways)}"
    if retires_on := facts.get("retires_on"):
        yield f"retirement on {retires_on}"
    if not any(facts.values()):
        yield "no abilities"


def memory(case: Case) -> Finding:
    from kode.memory.outside import open_outside

    if case.loaded is None:
        return optional(NOT_TRIED)
    config = case.loaded.config
    settings = config.memory
    if not settings.enabled:
        return ok("off (`memory.enabled`)")
    folder = paths.memory_folder(paths.home(), settings.data_dir)

    if folder.exists() and not (folder.is_dir() and can_write(folder)):
        return missing(
            f"{folder} is not a folder that can be written",
            "move it away, or make it writable",
        )

    async def read() -> tuple[str, list[str]]:
        async with open_outside(config, case.cwd, read_only=True) as memory:
            return await memory.command(["status"]), memory.notices

    try:
        text, faults = asyncio.run(read())
    except Exception as error:
        return missing(
            f"{settings.system} in {folder} cannot be opened: {error}",
            "fix or move the file it names; until then memory works without it",
        )
    if faults:
        return optional(
            " ".join(faults), "do as it says; until then memory is what its history has"
        )
    damaged = sorted(p.name for p in folder.rglob("*.damaged-*")) if folder.is_dir() else []
    if damaged:
        return optional(
            f"damaged files were set aside: {', '.join(damaged[:3])}",
            f"check them in {folder}, copy what you need, and delete them",
        )
    lines = text.splitlines()
    shown = "; ".join(filter(None, lines[2:4]))
    return ok(f"{settings.system}: {shown}")


def instructions(case: Case) -> Finding:
    from kode.extensions.instructions import read_instructions

    if case.loaded is None:
        return optional(NOT_TRIED)
    if not case.loaded.config.agents_files:
        return ok("not read (`agents_files`)")
    project_instructions = read_instructions(paths.home(), case.cwd)
    named = ", ".join(project_instructions.described(case.cwd))
    if project_instructions.warning:
        return optional(
            "; ".join(filter(None, (named, project_instructions.warning))),
            "fix or shorten the file it names; the others are used",
        )
    detail = named or "none here; /init in the chat writes AGENTS.md"
    return ok(detail)


def extensions(case: Case) -> Finding:
    """Names extensions in the person's own home, which are trusted without asking, and those of the
    project that wait for approval."""
    from kode.extensions import mcp_config, review, trust

    home, project = paths.home(), paths.project_root(case.cwd)
    approvals = trust.load(home, project)
    items = review.find_items(home, case.cwd)
    own = [review.named(item) for item in items if item.scope == "home"]
    waits = [review.named(item) for item in items if trust.state(item, approvals) != "trusted"]
    faults = [approvals.problem, *mcp_config.find_servers(home, case.cwd).faults]
    detail = f"used without asking, from {home}: {', '.join(own)}" if own else "none of your own"
    if waits:
        detail += f"; not approved, so not used: {', '.join(waits)}"
    if said := " ".join(filter(None, faults)):
        return optional(f"{detail}. {said}", "fix it in the file it names; the others are used")
    next_step = "`kode extensions approve` shows and approves" if waits else ""
    return Finding(state="ok", detail=detail, next_step=next_step)


def sandbox(case: Case) -> Finding:
    from kode.assembly import open_workplace
    from kode.sandbox.sandbox import open_sandbox

    if case.loaded is None:
        return optional(NOT_TRIED)
    config = case.loaded.config
    if config.sandbox.enabled is False:
        return optional(
            "off: only plain reading commands run without asking",
            'set sandbox.enabled to "auto"',
        )
    place = open_workplace(config, paths.home(), case.cwd)
    try:
        standing = open_sandbox(place, network=config.sandbox.network).standing()
    except SandboxUnknownError as error:
        return optional(str(error))
    gaps = "; ".join(standing.gaps)
    if standing.kind == "bubblewrap":
        what = "bubblewrap, with a copy of the project to write in"
        detail = what if standing.layered else f"bubblewrap; {gaps}"
        return ok(detail)
    if standing.kind == "seatbelt":
        return optional(f"Seatbelt: {gaps}", "`kode doctor --sandbox` proves what it holds")
    if standing.kind == "landlock":
        return optional(
            f"Landlock and seccomp only: {gaps}",
            f"install bubblewrap for the rest ({standing.why})",
        )
    state = missing if config.sandbox.enabled is True else optional
    return state("none: only plain reading commands run without asking", standing.why)


def sandbox_proofs() -> Iterator[Finding]:
    """Whether the sandbox of this machine holds, one finding for each of its promises."""
    from kode.sandbox.proof import prove

    states: Mapping[bool | None, State] = {True: "ok", False: "missing", None: "optional"}
    for proof in prove():
        yield Finding(
            what=proof.what,
            state=states[proof.holds],
            detail=proof.detail,
            next_step=proof.next_step,
        )


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

"""The checks of `kode doctor` that are about what is asked of a model, and about the other
providers: format and effort, the small model, web search, and whether each answers."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kode.cli.commands.diagnosis import Case, Finding, ok, optional
from kode.errors import KodeError, UserError

if TYPE_CHECKING:
    from kode.config import Config, ProviderChoice
    from kode.registry import ProviderRow

FORMATS = {
    "responses": "Responses",
    "chat": "Chat Completions",
    "messages": "Messages",
    "scripted": "a script",
}
NONE_YET = "none chosen yet"


def requests(case: Case) -> Finding:
    """The wire format and the effort of requests."""
    from kode.cli.prompt.effort import effort_lines

    provider = case.provider
    if provider is None or case.choice is None:
        return optional(NONE_YET)
    api = FORMATS[getattr(provider, "api", "scripted")]
    effort = " ".join(effort_lines(case.choice.effort, provider))
    return ok(f"format: {api}; effort: {effort}")


def small_model(case: Case) -> Finding:
    """Which model does small work."""
    from kode.config import small_choice

    if case.loaded is None or case.choice is None or case.provider is None:
        return optional(NONE_YET)
    config, session = case.loaded.config, case.provider.model
    named = config.memory.model or config.small_model
    try:
        choice = small_choice(config, os.environ, named)
    except KodeError as error:
        key = "memory.model" if config.memory.model else "small_model"
        return optional(f"{named}: {error}", f"change `{key}` in the config")
    model = choice.model or choice.row.default_model
    if (choice.name, model) == (case.choice.name, session):
        return ok(f"none: {session} answers memory's questions too")
    reached = case.reached if choice.name == case.choice.name else None
    if reached is not None and reached.offers(model) is False:
        return optional(
            f"{model} is not a model of {reached.url}; {session} is asked instead",
            "set `small_model` in the config to one that it has",
        )
    if config.small_model is None:
        by = "`memory.model`" if named else f"the small one of {choice.row.shown}"
        return ok(f"{model} ({choice.name}), {by}, answers memory's questions")
    return ok(f"{model} ({choice.name}) answers memory's questions and writes compaction notes")


def web_search(case: Case) -> Finding:
    """Whether the vendor's server searches the web."""
    from kode.assembly import can_search

    if case.loaded is None or case.provider is None:
        return optional(NONE_YET)
    config, provider = case.loaded.config, case.provider
    can = can_search(config.model_copy(update={"web_search": True}), provider)
    who = f"{provider.name} for {provider.model}"
    if can:
        return ok(f"on: by {who}" if config.web_search else "off; `web_search` turns it on")
    instead = "`kode mcp add` adds an MCP server that searches"
    if config.web_search:
        return optional(f"`web_search` is on, but there is none at {who}", instead)
    return ok(f"off, and there is none at {who}; {instead}")


def others(case: Case) -> Finding:
    """A line for each further provider that could be asked: does it answer, accept the key, and
    offer the model?"""
    from kode.config import configured

    if case.loaded is None:
        return optional(NONE_YET)
    config = case.loaded.config
    current = case.choice.name if case.choice is not None else ""
    rows = [row for row in configured(config, os.environ) if row.name not in (current, "scripted")]
    if not rows:
        return ok("no further one is set up")
    with ThreadPoolExecutor(max_workers=len(rows)) as pool:
        told = list(pool.map(lambda row: _tell(config, row), rows))
    lines = "\n".join(line for _, line in told)
    if all(works for works, _ in told):
        return ok(lines)
    return optional(lines, "check its key and address in `providers`, or take it out")


def _tell(config: "Config", row: "ProviderRow") -> tuple[bool, str]:
    """(whether it can be used, a line about it)"""
    from kode.config import resolve_provider, switched

    try:
        choice = resolve_provider(switched(config, os.environ, row.name, None), os.environ)
    except UserError as error:
        return False, f"{row.name}: {error}"
    return _tell_reached(choice)


def _tell_reached(choice: "ProviderChoice") -> tuple[bool, str]:
    from kode.providers.reach import reach, url_of

    if not url_of(choice):
        return True, f"{choice.name}: its SDK finds address and login, not tested"
    reached = reach(choice)
    if reached.state != "ok":
        return reached.state == "odd", f"{choice.name}: {reached.url}: {reached.detail}"
    model = choice.model or choice.row.default_model
    if not model:
        return True, f"{choice.name}: {reached.url} answers, {reached.detail}"
    offered = reached.offers(model) is not False
    said = f"offers {model}" if offered else f"has no model {model}"
    return offered, f"{choice.name}: {reached.url} answers, {said}"

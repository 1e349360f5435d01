"""The checks of `kode doctor` that are about models: key, server and model of the provider in use,
the small model, web search, and whether the other providers answer."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import TYPE_CHECKING

from kode.cli.commands.diagnosis import Case, Finding, missing, ok, optional
from kode.errors import KodeError
from kode.providers.server import reach_server, url_of

if TYPE_CHECKING:
    from kode.config.model import Config
    from kode.provider import ModelInfo
    from kode.registry import ProviderRow

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


def key(case: Case) -> Finding:
    from kode.config.choice import LOCAL_KEY, resolve_provider

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


def server(case: Case) -> Finding:
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


def model(case: Case) -> Finding:
    from kode.assembly import learn, make_provider
    from kode.providers.models import retirement_note

    try:
        provider = make_provider(case.loaded.config, case.choice)
    except KodeError as error:
        return missing(str(error))
    try:
        asyncio.run(asyncio.wait_for(learn(provider, patience_s=ASKING_S), LOADING_S))
    except TimeoutError:
        return optional(f"the server is still loading {provider.model}", AGAIN)
    reached = case.reached
    if reached is not None and reached.offers(provider.model) is False:
        names = ", ".join(reached.models[:SHOWN_MODELS])
        more = ", ..." if len(reached.models) > SHOWN_MODELS else ""
        step = f"set `model` in the config, or --model, to one of: {names}{more}"
        return missing(f"{provider.model} is not a model of {reached.url}", step)
    info = provider.info
    facts = ", ".join(_describe(info))
    if note := retirement_note(info, provider.model, date.today()):
        sentence, _, step = note.partition("; ")
        return optional(f"{sentence}, {facts}", step)
    if info.known:
        return ok(f"{provider.model}, {facts}")
    step = "set context.window and prices in the config if you know them"
    return optional(f"kode does not know {provider.model}, and assumes: {facts}", step)


def _describe(info: "ModelInfo") -> list[str]:
    facts = [f"window {info.context_window:,} tokens"]
    facts += [words for field, words in ABILITIES.items() if getattr(info, field)]
    if info.input_price is not None and info.output_price is not None:
        prices = f"${info.input_price:g} and ${info.output_price:g}"
        facts.append(f"{prices} per million tokens in and out")
    if info.efforts:
        facts.append(f"effort {' '.join(info.efforts)}")
    return facts


def small_model(case: Case) -> Finding:
    """Which model does small work."""
    from kode.config.choice import small_choice

    config, current = case.loaded.config, case.choice.name
    name = config.memory.model or config.small_model
    key = "memory.model" if config.memory.model else "small_model"
    try:
        choice = small_choice(config, os.environ, name)
    except KodeError as error:
        return optional(f"{name}: {error}", f"change `{key}` in the config")
    model = choice.model or choice.row.default_model
    reached = case.reached if choice.name == current else None
    if reached is not None and reached.offers(model) is False:
        return optional(
            f"{model} is not a model of {reached.url}; the session's is asked instead",
            f"set `{key}` in the config to one that it has",
        )
    return ok(f"{model} ({choice.name}) answers memory's questions")


def web_search(case: Case) -> Finding:
    """Whether the vendor's server searches the web."""
    from kode.assembly import can_search, make_provider

    config = case.loaded.config
    provider = make_provider(config, case.choice)
    name = f"{provider.name} for {provider.model}"
    if not config.web_search:
        return ok("off (`web_search`)")
    if can_search(config, provider):
        return ok(f"on: by {name}")
    step = "`kode mcp add` adds an MCP server that searches"
    return optional(f"`web_search` is on, but there is none at {name}", step)


def others(case: Case) -> Finding:
    """A line for each further provider that could be asked: does it answer, accept the key, and
    offer the model?"""
    from kode.config.choice import configured

    config, current = case.loaded.config, case.choice.name
    rows = [row for row in configured(config, os.environ) if row.name not in (current, "scripted")]
    if not rows:
        return ok("no further one is set up")
    with ThreadPoolExecutor(max_workers=len(rows)) as pool:
        answers = list(pool.map(lambda row: _ask_other(config, row), rows))
    lines = "\n".join(f"{row.name}: {line}" for row, (_, line) in zip(rows, answers, strict=True))
    if all(works for works, _ in answers):
        return ok(lines)
    return optional(lines, "check its key and address in `providers`, or take it out")


def _ask_other(config: "Config", row: "ProviderRow") -> tuple[bool, str]:
    """(whether it can be used, what it answers)"""
    from kode.config.choice import resolve_provider, switched

    try:
        choice = resolve_provider(switched(config, os.environ, row.name, None), os.environ)
    except KodeError as error:
        return False, str(error)
    if not url_of(choice):
        return True, "its SDK finds address and login, not tested"
    reached, model = reach_server(choice), choice.model or choice.row.default_model
    if reached.state != "ok":
        return reached.state == "odd", f"{reached.url}: {reached.detail}"
    is_offered = not model or reached.offers(model) is not False
    offer = f"offers {model}" if is_offered else f"has no model {model}"
    return is_offered, f"{reached.url} answers, {offer if model else reached.detail}"

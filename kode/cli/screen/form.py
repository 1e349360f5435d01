"""Puts a form of an MCP server (elicitation) to the person, field by field.

Every text in it is the server's: hidden characters are shown, and each line is marked with a bar.
"""

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

from kode.cli.screen.lines import one_line, wrap_words
from kode.cli.screen.menu import Choice, Menu
from kode.cli.screen.screen import Screen, open_screen
from kode.extensions.mcp_values import Elicit, Field, Form
from kode.permissions.question import Question, visible
from kode.plain_text import clean

MAX_FIELDS = 20  # a person fills in no longer form line by line


def make_elicit(screen: Screen | None = None) -> Elicit:
    """An `Elicit` that shows one form at a time on `screen`; without one, on stderr."""
    shown = screen or open_screen(stream=sys.stderr)
    one_at_a_time = asyncio.Lock()

    async def elicit(form: Form) -> Mapping[str, Any] | None:
        async with one_at_a_time:
            await shown.quiet()
            shown.notify(f"the MCP server {visible(form.server)} has a question")
            asked = Question(tool="form", title=form.server, preview=visible(form.message))
            answer = await shown.first_of(_fill(shown, form), asked, lambda answer: None)
            shown.print("Declined." if answer is None else "Sent to the server.", "dim")
            return answer

    return elicit


async def _fill(screen: Screen, form: Form) -> Mapping[str, Any] | None:
    screen.print(f"The MCP server {visible(form.server)} asks (never type a key here):", "title")
    for line in wrap_words(clean(visible(form.message)), screen.width - 2):
        screen.print(f"│ {line}")
    if form.url:
        screen.print(f"│ {one_line(visible(form.url))}")
        agreed = await _choose(screen, "Have you opened this page, or will you?", ("yes", "no"))
        return {} if agreed == "yes" else None
    if len(form.fields) > MAX_FIELDS:
        screen.print(f"It has {len(form.fields)} fields, too many to ask a person.", "warning")
        return None
    if await _choose(screen, "Answer it?", ("yes", "no")) != "yes":
        return None
    answers: dict[str, Any] = {}
    for field in form.fields:
        value = await _ask(screen, field)
        if value is None and field.required:
            return None
        if value is not None:
            answers[field.name] = value
    return answers


async def _ask(screen: Screen, field: Field) -> Any:
    """The value of one field; None if nothing was typed and there is no default."""
    title = one_line(visible(field.title))
    if field.kind == "boolean":
        said = await _choose(screen, title, ("yes", "no"), "yes" if field.default else "no")
        return field.default if said is None else said == "yes"
    if field.kind == "choice":
        chosen = await _choose(screen, title, field.options, field.default or field.options[0])
        return field.default if chosen is None else chosen
    shown = f" (of: {', '.join(map(visible, field.options))})" if field.options else ""
    default = f" [{visible(str(field.default))}]" if field.default is not None else ""
    while True:
        line = await screen.read_answer(f"{title}{shown}{default}: ")
        text = clean(line or "").strip()
        if not text:
            return field.default
        value = _value(field, text)
        if value is not None:
            return value
        screen.print(f"That is not a valid {field.kind}. Leave it empty to skip it.", "warning")


async def _choose(
    screen: Screen, title: str, options: tuple[str, ...], highlighted: str = "no"
) -> str | None:
    """One of the options; None for anything else."""
    screen.print(title, "bold")
    by_letter, digits = options == ("yes", "no"), len(str(len(options)))
    choices = [
        Choice(option, visible(option), option[0] if by_letter else f"{number:0{digits}}")
        for number, option in enumerate(options, 1)
    ]
    position = options.index(highlighted) if highlighted in options else 0
    menu = Menu(choices, selected=position)
    said = clean(await screen.read_answer("answer: ", menu) or "").strip()
    fits = [option for option in options if said and option.lower().startswith(said.lower())]
    return said if said in options else fits[0] if len(fits) == 1 else None


def _value(field: Field, text: str) -> Any:
    """The typed text in the field's type; None if it does not fit."""
    if field.kind == "choices":
        chosen = [part.strip() for part in text.split(",") if part.strip()]
        return chosen if all(one in field.options for one in chosen) else None
    try:
        if field.kind == "integer":
            return int(text)
        return float(text) if field.kind == "number" else text
    except ValueError:
        return None

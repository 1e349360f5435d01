"""The permission question: shows what would happen, in full, and reads the person's answer.

`kode.permissions` decides when to ask; the screen reads the answer."""

import asyncio
import re
import sys
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from kode.cli.screen.lines import one_line, wrap_words
from kode.cli.screen.menu import Choice, Menu
from kode.cli.screen.screen import MAX_PROSE_COLUMNS, Screen, open_screen
from kode.extensions.mcp_config import Elicit, ElicitField, ElicitForm
from kode.permissions.approvals import rule_id
from kode.permissions.question import Answer, Ask, Question, lasting_answers, visible
from kode.plain_text import sanitize


def make_elicit(screen: Screen | None = None) -> Elicit:
    """An `Elicit` that shows one form at a time on `screen`; without one, on stderr."""
    shown = screen or open_screen(stream=sys.stderr)
    one_at_a_time = asyncio.Lock()

    async def elicit(form: ElicitForm) -> Mapping[str, Any] | None:
        async with one_at_a_time:
            await shown.wait_for_pause()
            shown.notify()
            question = Question(tool="form", title=form.server, preview=visible(form.message))
            answer = await shown.await_first_answer(
                _fill_form(shown, form), question, lambda answer: None
            )
            shown.print("Declined." if answer is None else "Sent to the server.", "dim")
            return answer

    return elicit


async def _fill_form(screen: Screen, form: ElicitForm) -> Mapping[str, Any] | None:
    screen.print(f"The MCP server {visible(form.server)} asks (never type a key here):", "bold")
    screen.print_painted("\n".join(_bar_lines(screen, form.message, screen.width)))
    if form.url:
        screen.print(f"│ {one_line(visible(form.url))}")
        return {} if await _confirm(screen, "Have you opened this page, or will you?") else None
    if not await _confirm(screen, "Answer it?"):
        return None
    answers: dict[str, Any] = {}
    for part in form.fields:
        value = await _ask_field(screen, part)
        if value is None and part.required:
            return None
        if value is not None:
            answers[part.name] = value
    return answers


async def _ask_field(screen: Screen, field: ElicitField) -> Any:
    """Asks for the value of one field until it is valid; its default if nothing is typed."""
    label, default = one_line(visible(field.title)), field.default
    options = ("yes", "no") if field.kind == "boolean" else field.options
    if options:
        label += f" (of: {', '.join(map(visible, options))})"
    if default is not None:
        shown = ("no", "yes")[default] if isinstance(default, bool) else str(default)
        label += f" [{visible(shown)}]"
    while True:
        text = sanitize(await screen.read_answer(f"{label}: ") or "").strip()
        value = _parse_field(field, text) if text else default
        if value is not None or not text:
            return value
        screen.print(f"That is not a valid {field.kind}. Leave it empty to skip it.", "warning")


async def _confirm(screen: Screen, title: str) -> bool:
    screen.print(title, "bold")
    menu = Menu([Choice("yes", "yes", "y"), Choice("no", "no", "n")], selected=1)
    return await screen.read_answer("answer: ", menu) == "yes"


def _parse_field(field: ElicitField, text: str) -> Any:
    """Converts typed text to the field's type; None if it does not fit."""
    if field.kind == "boolean":
        return {"yes": True, "y": True, "no": False, "n": False}.get(text.lower())
    if field.kind in ("choice", "choices"):
        chosen = [part.strip() for part in text.split(",") if part.strip()]
        fits = all(option in field.options for option in chosen)
        if field.kind == "choices":
            return chosen if fits else None
        return text if text in field.options else None
    convert = {"integer": int, "number": float}.get(field.kind, str)
    try:
        return convert(text)
    except ValueError:
        return None


BY_MODE = "\t"
"""The answer of Shift-Tab: yes, and a switch to the mode in which this is not asked."""

_FURTHER = re.compile(r"a\d")
"""Matches the key of one of `lasting_answers`."""
_NO = re.compile(r"^(?:no|n)\b[\s,.:;-]*", re.IGNORECASE)


def make_ask(screen: Screen | None = None, say: Callable[[str], None] | None = None) -> Ask:
    """An `Ask` that shows one question at a time on `screen`; without one, on stderr. A question
    that fits is drawn below with its choices and disappears when answered; a longer one is printed
    and stays. `say` prints the outcome of one that has disappeared. No answer means no."""
    shown = screen or open_screen(stream=sys.stderr)
    one_at_a_time = asyncio.Lock()

    async def ask(question: Question) -> Answer:
        async with one_at_a_time:
            await shown.wait_for_pause()
            shown.notify()
            menu = _show_menu(shown, question)
            height = len(menu.lines(shown.paint, "", shown.width, sys.maxsize))
            stays = shown.editor is None or height + 5 > shown.rows()
            if stays:
                shown.print_painted("\n" + "\n".join(menu.above(shown.width)))
                menu.above = lambda width: []
            keys, asked_at = _read_answer(shown, question, menu), time.monotonic()
            answer = await shown.await_first_answer(keys, question, lambda answer: answer)
            shown.waited_s += time.monotonic() - asked_at
            if stays and answer.choice != "no":
                shown.approved = question.preview.strip()
            line = outcome_line(question, answer)
            if say is not None and not stays:
                # What is allowed once gets a line of its own as soon as it is done.
                if answer != Answer(choice="once") or question.of != "call" or question.asker:
                    say(line)
            else:
                shown.print(line, "dim")
            return answer

    return ask


async def _read_answer(screen: Screen, question: Question, menu: Menu) -> Answer:
    while True:
        line = await screen.read_answer("answer: ", menu)
        if line and line.strip() and menu.writing:  # "yes" is a word, too
            return Answer(choice="no", message=sanitize(line).strip())
        if (answer := parse_answer(line, question)) is not None:
            return answer
        screen.print("That is not one of the answers. Ctrl-C stops the turn.", "warning")


def parse_answer(line: str | None, question: Question) -> Answer | None:
    """Returns the answer that a typed line means; None if the question does not offer it.

    An empty line, or end of input, is no. Any other words are a no with a message, if the question
    takes one.
    """
    if line == BY_MODE and question.passes_in is not None:
        return Answer(choice="once", mode=question.passes_in)
    text = sanitize(line or "").strip()
    word, no, once = text.lower(), Answer(choice="no"), Answer(choice="once")
    answers = {"": no, "n": no, "no": no, "y": once, "yes": once}
    answers |= {f"a{number}": it for number, it in enumerate(lasting_answers(question), 1)}
    # A typo is not a message for the model.
    is_typo = _FURTHER.fullmatch(word) or (len(word) == 1 and word.isascii())
    if word in answers or is_typo or not question.takes_words:
        return answers.get(word)
    return Answer(choice="no", message=_NO.sub("", text).strip() or text)


def question_lines(screen: Screen, question: Question, width: int) -> list[str]:
    """Returns, painted, who wants to do what, the full preview, the dangers and the reason."""
    asker = f" (asked by {visible(question.asker)})" if question.asker else ""
    diff = question.diff
    before = _visible_lines(question.preview.removesuffix(diff))
    lines = ["", screen.paint("bold", f"{visible(question.title)}{asker}")]
    if diff:
        from kode.cli.screen.diffs import paint_diff

        if before or question.tool != "shell":
            new = " (new file)" if "\n@@ -0,0 " in diff else ""
            name = f" {visible(question.subject)}{new}"
            if before or " " in question.subject or len(lines[1] + name) > width:
                lines += _bar_lines(screen, before or name.strip(), width)
            else:
                lines[1] += name
        lines += paint_diff(screen, _visible_lines(diff)).split("\n")
    else:
        lines += _bar_lines(screen, before if before.strip() else question.subject, width)
    for danger in question.dangers:
        lines += screen.paint("error", _wrap_visible(danger, width)).split("\n")
    for reason in question.reason.splitlines():
        lines += _wrap_visible(reason, width).split("\n")
    return [*lines, ""]


def outcome_line(question: Question, answer: Answer) -> str:
    """Returns the line that remains of an answered question; for a lasting yes, with its undo."""
    sentence = {
        "once": "Approved until it changes" if question.until_changed else "Allowed once",
        "session": "Always allowed in this session",
        "project": "Always allowed in this project",
        "no": "Denied",
    }[answer.choice]
    if question.kind == "keep":  # the command has run
        sentence = {"once": "Changes kept", "no": "Changes discarded"}.get(answer.choice, sentence)
    what = one_line(visible(question.subject or question.title))
    if rules := answer.rules_to_add(question):
        ids = " ".join(map(rule_id, rules))
        return f"{sentence}: {', '.join(map(visible, rules))} · undo: /permissions remove {ids}"
    if answer.mode is not None:
        what += f" · mode {answer.mode} from now on; Shift-Tab switches it"
    note = f' · "{answer.message}"' if answer.message else ""
    return f"{sentence}: {what}{note}"


def _visible_lines(text: str) -> str:
    return "\n".join(visible(line) for line in text.rstrip("\n").split("\n"))


def _wrap_visible(text: str, width: int) -> str:
    return "\n".join(wrap_words(one_line(visible(text)), min(width, MAX_PROSE_COLUMNS)))


def _bar_lines(screen: Screen, text: str, width: int) -> list[str]:
    """Marks each screen line with a bar, including wrapped ones, so that none can pass for kode's
    own words."""
    bar = screen.paint("warning", "│")
    return [f"{bar} {line}" for line in wrap_words(sanitize(visible(text)), width - 2)]


def _show_menu(screen: Screen, question: Question) -> Menu:
    # The prompt is painted ten times a second, and colouring a diff is slow.
    above = cache(partial(question_lines, screen, question))
    ways = enumerate(lasting_answers(question).values(), 1)
    behind = [Choice(f"a{number}", text, str(number)) for number, text in ways]
    always = [Choice("a", "always …", "a")] if behind else []
    choices = [Choice("y", question.ways_to_allow["once"], "y"), *always, Choice("n", "no", "n")]
    hint = "Tab: no, with instructions" if question.takes_words else ""
    if question.passes_in is not None:
        hint += " · Shift-Tab: yes, and allow all edits this session"
    return Menu(
        choices,
        above=above,
        selected=len(choices) - 1,
        hint=hint,
        takes_words=question.takes_words,
        behind={"a": behind} if behind else {},
        back_tab=BY_MODE if question.passes_in is not None else "",
    )

"""Which form of edits fails less: the same edits of real files through `edit_file`, `apply_patch`
and Anthropic's editor.

    python -m bench.edits [--edits 100] [--json]

An edit changes one to three places of a file of this repository. In four of ten the model slips, in
the same way whatever the form: it quotes too little, without indentation, with other white space or
quotes, a line that it remembers wrongly, or one that has changed since. It quotes as each form
asks: `edit_file` and the editor as many lines as make a place unique, a patch three lines around it
and the line of the function. An edit fails if it is refused, or leaves another text than was meant;
the latter is counted apart. Scripted: it compares the forms, not models.
"""

import argparse
import asyncio
import json
import random
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from kode.errors import ToolError
from kode.events import no_emit
from kode.tool import Tool, ToolContext, ToolOutput
from kode.tools.apply_patch import apply_patch, text_editor
from kode.tools.edit import edit_file
from kode.tools.read_file import read_file
from tests.workplaces import workplace

ROOT = Path(__file__).parent.parent
CONTEXT = 3
MOST_CONTEXT = 8

Slip = Literal["none", "short", "dedented", "white space", "quotes", "misremembered", "stale"]
SLIPS: Mapping[Slip, int] = {
    "none": 60, "short": 10, "dedented": 8, "white space": 6, "quotes": 4, "misremembered": 6,
    "stale": 6,
}  # fmt: skip
"""How many of 100 edits have each."""

Form = Literal["edit_file", "apply_patch", "editor"]


@dataclass(frozen=True)
class Place:
    start: int
    """First changed line, from 0."""
    end: int
    new: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    lines: tuple[str, ...]
    """The file as the model has read it."""
    places: tuple[Place, ...]
    slip: Slip
    odd: int
    """The line that is remembered wrongly, or has changed since."""

    @property
    def on_disk(self) -> list[str]:
        lines = list(self.lines)
        if self.slip == "stale":
            lines[self.odd] += "  # changed since"
        return lines

    @property
    def meant(self) -> str:
        lines = self.on_disk
        for place in reversed(self.places):
            lines[place.start : place.end] = place.new
        return text_of(lines)


def text_of(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def cases(count: int) -> list[Case]:
    """The same ones for the same files."""
    chance = random.Random(28)
    files = sorted([*ROOT.glob("kode/**/*.py"), *ROOT.glob("docs/*.md")])
    slips = [slip for slip, share in SLIPS.items() for _ in range(share)]
    chance.shuffle(slips)
    many: list[Case] = []
    while len(many) < count:
        lines = chance.choice(files).read_text().splitlines()
        if len(lines) >= 60:
            slip = slips[len(many) % len(slips)]
            many.append(_case(chance, tuple(lines), slip))
    return many


def _case(chance: random.Random, lines: tuple[str, ...], slip: Slip) -> Case:
    several = chance.choices((1, 2, 3), (50, 30, 20))[0]
    starts: list[int] = []
    while len(starts) < several:
        at = chance.randrange(MOST_CONTEXT, len(lines) - MOST_CONTEXT)
        if lines[at].strip() and all(abs(at - other) > 2 * CONTEXT + 4 for other in starts):
            starts.append(at)
    places = [_place(chance, lines, at) for at in sorted(starts)]
    first = places[0]
    near = [n for n in range(first.start - CONTEXT, first.end + CONTEXT) if lines[n].strip()]
    outside = [n for n in near if not first.start <= n < first.end] or [first.start - 4]
    odd = chance.choice(outside if slip == "stale" else near)
    return Case(lines, tuple(places), slip, odd)


def _place(chance: random.Random, lines: Sequence[str], at: int) -> Place:
    end = at + chance.randint(1, 4)
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    added = tuple(f"{indent}new_{n} = call({n})" for n in range(chance.randint(1, 6)))
    old = tuple(lines[at:end])
    kind = chance.choice(("insert", "change", "replace"))
    if kind == "insert":
        return Place(at, end, (*old, *added))
    if kind == "change":
        return Place(at, end, (*old[:-1], f"{old[-1].rstrip()}_changed"))
    return Place(at, end, added)


# ── what the model writes ────────────────────────────────────────────────────────────────────


def _find_unique(case: Case, place: Place) -> int:
    """The lines of context with which the place is unique in what the model has read."""
    text = text_of(case.lines)
    for around in range(MOST_CONTEXT):
        quoted = text_of(case.lines[place.start - around : place.end + around])
        if text.count(quoted) == 1:
            return around
    return MOST_CONTEXT


def _recall_lines(case: Case, lines: Sequence[str], first: int) -> list[str]:
    """Lines of the file as the model quotes them."""
    written = list(lines)
    match case.slip:
        case "white space":
            written = [f"{line}  " if line else line for line in written]
        case "quotes":
            written = [line.replace('"', "”").replace("'", "’") for line in written]
        case "misremembered" if first <= case.odd < first + len(written):
            written[case.odd - first] = f"{written[case.odd - first]} or_so"
    return written


def _quote_edit(case: Case, place: Place, around: int) -> tuple[list[str], list[str]]:
    """The lines that are there, and those that are to be."""
    before = case.lines[place.start - around : place.start]
    after = case.lines[place.end : place.end + around]
    old = _recall_lines(
        case, [*before, *case.lines[place.start : place.end], *after], place.start - around
    )
    new = [*old[:around], *place.new, *old[len(old) - around :]] if around else list(place.new)
    if case.slip == "dedented":
        cut = min((len(x) - len(x.lstrip()) for x in (*old, *new) if x.strip()), default=0)
        return [x[cut:] for x in old], [x[cut:] for x in new]
    return old, new


def _edits(case: Case) -> list[dict[str, str]]:
    edits = []
    for place in case.places:
        around = 0 if case.slip == "short" else _find_unique(case, place)
        old, new = _quote_edit(case, place, around)
        edits.append({"old_text": text_of(old), "new_text": text_of(new)})
    return edits


def by_edit_file(case: Case) -> list[tuple[Tool, dict[str, Any]]]:
    return [(edit_file, {"path": "f", "edits": _edits(case)})]


def by_editor(case: Case) -> list[tuple[Tool, dict[str, Any]]]:
    return [
        (
            text_editor,
            {
                "command": "str_replace",
                "path": "f",
                "old_str": edit["old_text"],
                "new_str": edit["new_text"],
            },
        )
        for edit in _edits(case)
    ]


def by_patch(case: Case) -> list[tuple[Tool, dict[str, Any]]]:
    written = ["*** Begin Patch", "*** Update File: f"]
    for place in case.places:
        around = 0 if case.slip == "short" else CONTEXT
        old, new = _quote_edit(case, place, around)
        head = next(
            (
                line.strip()
                for line in reversed(case.lines[: place.start - around])
                if line.lstrip().startswith(("def ", "async def ", "class ", "## "))
            ),
            "",
        )
        written.append(f"@@ {head}".rstrip())
        end = len(old) - around
        written += [f" {line}" for line in old[:around]]
        written += [f"-{line}" for line in old[around:end]]
        written += [f"+{line}" for line in new[around : len(new) - around]]
        written += [f" {line}" for line in old[end:]]
    return [(apply_patch, {"input": "\n".join([*written, "*** End Patch", ""])})]


FORMS = {"edit_file": by_edit_file, "apply_patch": by_patch, "editor": by_editor}


# ── what becomes of it ───────────────────────────────────────────────────────────────────────


async def _run(context: ToolContext, tool: Tool, values: Mapping[str, Any]) -> None:
    parts = tool.parts(tool.check(values)) if tool.parts else [(tool, values)]
    for part, arguments in parts:
        output = await part.run(context, part.check(arguments))
        assert isinstance(output, ToolOutput)


async def _try_case(case: Case, form: Form, folder: Path) -> tuple[str, int, int]:
    """How it ended ("", "refused" or "wrong"), in how many calls, of how many characters."""
    context = ToolContext(
        place=workplace(folder, home=folder / "home"),
        call_id="c",
        session_id=None,
        emit=no_emit,
        seen_files={},
    )
    path = folder / "f"
    path.write_text(text_of(case.on_disk))
    await _run(context, read_file, {"path": "f"})
    calls = FORMS[form](case)
    size = sum(len(json.dumps(values)) for _, values in calls)
    try:
        for tool, values in calls:
            await _run(context, tool, values)
    except ToolError:
        return "refused", len(calls), size
    return "" if path.read_text() == case.meant else "wrong", len(calls), size


async def measure(count: int) -> dict[str, Any]:
    """The figures of each form."""
    figures: dict[str, Any] = {}
    many = cases(count)
    with tempfile.TemporaryDirectory() as folder:
        for form in get_args(Form):
            ends = [await _try_case(case, form, Path(folder)) for case in many]
            failed = Counter(case.slip for case, (end, _, _) in zip(many, ends, strict=True) if end)
            figures[form] = {
                "failed_per_100": round(sum(failed.values()) * 100 / count, 1),
                "wrong_per_100": round(sum(e == "wrong" for e, _, _ in ends) * 100 / count, 1),
                "calls_an_edit": round(sum(n for _, n, _ in ends) / count, 2),
                "characters_an_edit": round(sum(size for _, _, size in ends) / count),
                "failed_by_slip": dict(failed),
            }
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--edits", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    figures = asyncio.run(measure(options.edits))
    if options.json:
        print(json.dumps(figures, indent=2))
        return 0
    print(f"{'form':<12} {'failed/100':>10} {'wrong/100':>10} {'calls':>6} {'chars':>6}  by slip")
    for form, row in figures.items():
        print(
            f"{form:<12} {row['failed_per_100']:>10} {row['wrong_per_100']:>10} "
            f"{row['calls_an_edit']:>6} {row['characters_an_edit']:>6}  {row['failed_by_slip']}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

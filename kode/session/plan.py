"""The plan of a session: Markdown with a heading `Plan` and a line `- [ ] step` per step. Its file
lies beside the session, where a person may edit it; finished steps are ticked."""

import re
from collections.abc import Collection
from pathlib import Path

from kode import durable
from kode.values import dataclass

_HEADING = re.compile(r"(?im)^#{1,4} +\**(?:the +)?plan\b.*$")
_STEP = re.compile(r"(?m)^(?P<before>[ \t]*[-*] \[)(?P<mark>[ xX])(?P<after>\] +)(?P<text>\S.*)$")
_ITEM = re.compile(r"(?m)^(?:\d{1,2}[.)]|[-*]) +(?=\S)")


def plan_in(answer: str) -> str:
    """The plan at the end of an answer, from its last heading `Plan` on; "" if there is none, or
    none with a step. If no step has a box, list items count as steps."""
    headings = list(_HEADING.finditer(answer))
    plan = answer[headings[-1].start() :].strip() if headings else ""
    if not _STEP.search(plan):  # weaker models number the steps
        plan = _ITEM.sub("- [ ] ", plan)
    return plan + "\n" if _STEP.search(plan) else ""


def steps_of(plan: str) -> list[tuple[str, bool]]:
    """(text, whether done) of each step, in order."""
    return [(step["text"].strip(), step["mark"] != " ") for step in _STEP.finditer(plan)]


def without_ticks(plan: str) -> str:
    """The plan with all ticks removed."""
    return _STEP.sub(r"\g<before> \g<after>\g<text>", plan)


def _normalize_step(text: str) -> str:
    """The words of a step, ignoring number, Markdown and case, which a model may change."""
    plain = re.sub(r"^\s*\d+[.)]\s+", "", text)
    return " ".join(re.sub(r"[*_`]", "", plain).casefold().split()).rstrip(".")


@dataclass(frozen=True)
class Plan:
    """A plan on disk. One that is missing or unreadable is empty."""

    path: Path | None

    @property
    def text(self) -> str:
        try:
            return self.path.read_text("utf-8", "replace") if self.path is not None else ""
        except OSError:
            return ""

    @property
    def steps(self) -> list[tuple[str, bool]]:
        """See `steps_of`."""
        return steps_of(self.text)

    @property
    def text_in_force(self) -> str:
        """The text if at least one step is open; "" otherwise."""
        text = self.text
        return text.strip() if not all(done for _, done in steps_of(text)) else ""

    def write(self, text: str) -> None:
        """Replaces the plan on disk; does nothing without a path. Raises: StorageError."""
        if self.path is not None:
            durable.make_folder(self.path.parent)
            durable.replace_file(self.path, text.encode("utf-8", "replace"))

    def tick_off(self, done: Collection[str]) -> str:
        """Ticks finished steps; returns `2 of 5 steps of the plan done`, or "" if no step matches.
        Raises: StorageError."""
        plan = before = self.text
        words = set(map(_normalize_step, done))
        for step in _STEP.finditer(before):
            if _normalize_step(step["text"]) in words:
                plan = plan[: step.start("mark")] + "x" + plan[step.end("mark") :]
        if plan == before:
            return ""
        self.write(plan)
        steps = steps_of(plan)
        return f"{sum(done for _, done in steps)} of {len(steps)} steps of the plan done"

"""The permission question: shows what would happen, whole, and takes the person's answer.

When to ask is `kode.permissions`; where the answer is typed is the screen's business.
"""

import asyncio
import re
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from kode.cli.screen.diffs import painted_diff
from kode.cli.screen.lines import clean, one_line, wrap
from kode.cli.screen.screen import Screen, open_screen
from kode.permissions.gate import Answer, Ask, Question, visible

HABIT_COUNT = 3
HABIT_S = 60.0
"""After this many approvals of one kind (the class of a command, or what a tool does) within this
time a typed word is asked for: a hand that says yes by habit no longer reads."""

_NO = re.compile(r"^(?:no|n)\b[\s,.:;-]*", re.IGNORECASE)


def make_ask(screen: Screen | None = None, clock: Callable[[], float] = time.monotonic) -> Ask:
    """An `Ask` that shows one question at a time on `screen`; without one, on stderr."""
    return _Asker(screen or open_screen(stream=sys.stderr), clock).ask


@dataclass
class _Asker:
    screen: Screen
    clock: Callable[[], float]
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)
    _approved: dict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))

    async def ask(self, question: Question) -> Answer:
        """Shows the question and waits for a valid answer; no answer at all is a no."""
        async with self._one_at_a_time:
            await self.screen.quiet()
            kind = question.kind or question.tool
            by_habit = self._by_habit(kind)
            show_question(self.screen, question)
            self.screen.notify(f"waits for your answer: {visible(question.title)}")
            answer = await self._answer(question, by_habit)
            if answer.choice != "no":
                self._approved[kind].append(self.clock())
                self.screen.approved = question.preview.strip()
            return answer

    async def _answer(self, question: Question, by_habit: bool) -> Answer:
        self.screen.print(_choices(question, by_habit), "bold")
        while True:
            line = await self.screen.read_answer("answer: ")
            answer = parse_answer(line, question, by_habit=by_habit)
            if answer is not None:
                self.screen.print(_said(answer), "dim")
                return answer
            self.screen.print(_choices(question, by_habit), "warning")

    def _by_habit(self, kind: str) -> bool:
        approved = self._approved[kind]
        while approved and self.clock() - approved[0] > HABIT_S:
            approved.popleft()
        return len(approved) >= HABIT_COUNT


def parse_answer(line: str | None, question: Question, *, by_habit: bool) -> Answer | None:
    """What a typed line means; None when the line allows something that is not on offer.

    Nothing, or end of input, is no. Any words that are no choice are a no with a message.
    """
    text = clean(line or "").strip()
    word = text.lower()
    if word in ("", "n", "no"):
        return Answer(choice="no")
    if by_habit and word in ("y", "s", "p"):
        return None
    if word in ("y", "yes"):
        return Answer(choice="once")
    if word in ("s", "session", "p", "project"):
        if not question.may_always:
            return None
        return Answer(choice="session" if word.startswith("s") else "project")
    if len(word) == 1 and word.isascii():  # a slip of the finger is no word to the model
        return None
    return Answer(choice="no", message=_NO.sub("", text).strip() or text)


def show_question(screen: Screen, question: Question) -> None:
    """Prints who wants to do what, the whole preview, and why it is asked."""
    asker = f" (asked by {visible(question.asker)})" if question.asker else ""
    screen.print()
    screen.print(f"{visible(question.title)}{asker}", "title")
    if question.preview.strip():
        shown = "\n".join(visible(line) for line in question.preview.rstrip("\n").split("\n"))
        is_diff = "\n@@ " in f"\n{shown}" or shown.startswith(("--- ", "+++ "))
        screen.print_painted(painted_diff(screen, shown) if is_diff else _barred(screen, shown))
    elif question.subject:
        screen.print_painted(_barred(screen, visible(question.subject)))
    for danger in question.dangers:
        screen.print(one_line(visible(danger)), "error")
    for reason in question.reason.splitlines():
        screen.print(one_line(visible(reason)), "dim")


def _barred(screen: Screen, text: str) -> str:
    """Each line that shows has a bar, wrapped ones too: none can pass for words of kode's own."""
    bar = screen.paint("warning", "│")
    return "\n".join(f"{bar} {line}" for line in wrap(clean(text), screen.width - 2))


def _choices(question: Question, by_habit: bool) -> str:
    once, session, project = ("yes", "session", "project") if by_habit else ("y", "s", "p")
    offers = [(once, "allow once")]
    if question.may_always:
        rules = ", ".join(visible(rule) for rule in question.rules)
        what = f": {rules}" if rules else ""
        offers.append((session, f"always in this session{what}"))
        offers.append((project, f"always in this project{what}"))
    offers.append(("n", "no (Enter), or type what to do instead"))
    lines = [f"  [{key}] {meaning}" for key, meaning in offers]
    if by_habit:
        lines.insert(0, "Several were allowed just now: to allow this one, type the whole word.")
    return "\n".join(lines)


def _said(answer: Answer) -> str:
    allowed = {
        "once": "Allowed once.",
        "session": "Allowed in this session.",
        "project": "Allowed in this project.",
        "no": "Not allowed.",
    }[answer.choice]
    return f"{allowed} The model is told: {answer.message}" if answer.message else allowed

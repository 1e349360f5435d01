"""A question for the person, and the answers to it."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from kode.permissions.names import PermissionMode
from kode.values import Value, field


class Question(Value):
    """One question for the person. Hidden characters are made visible (`visible`) in every text of
    it but those of `arguments`."""

    tool: str
    subject: str = ""
    """The argument that the question is about: the path, the command, the URL."""
    title: str
    preview: str
    """What will happen, in full: a diff, the command, the text."""
    diff: str = ""
    """The end of `preview` that is a diff made by kode. A screen must not search for one: a command
    or a text may look like one, and a drawn diff does not show every word."""
    reason: str = ""
    """Why kode asks."""
    dangers: tuple[str, ...] = ()
    """What the call would destroy, one sentence each."""
    kind: str = ""
    """The group in which approvals are counted: the tool's effect, with the risk of a command."""
    asker: str = ""
    """The subagent that asks; "" for the agent itself."""
    rules: tuple[str, ...] = ()
    """The rules that the answers "session" and "project" add; without rules, neither is offered."""
    narrow: tuple[str, ...] = ()
    """The rules that a narrow answer adds, if there are narrower ones: for the file in place of its
    folder, the exact command in place of its subcommand."""
    passes_in: PermissionMode | None = None
    """`auto-edit` if the question would not be asked in that mode, else None."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The call's arguments, as the tool gets them."""
    until_changed: bool = False
    """Whether a yes holds until the subject changes, instead of once."""
    takes_words: bool = True
    """Whether a no can carry a message for the model."""
    of: Literal["call", "outside", "changes"] = "call"
    """What a no would refuse, see `messages.Refusal`."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, str):
                object.__setattr__(self, name, visible(value))
            elif isinstance(value, tuple):
                object.__setattr__(self, name, tuple(map(visible, value)))

    @property
    def ways_to_allow(self) -> dict[str, str]:
        """The choices that allow the call, in plain words; lasting ones say for what."""
        once = "yes, until it changes" if self.until_changed else "yes, once"
        further = [(it.choice, way) for it, way in lasting_answers(self).items() if not it.narrow]
        return {"once": once, **{choice: f"yes, {way}" for choice, way in further}}


class Answer(Value):
    choice: Literal["once", "session", "project", "no"]
    message: str = ""
    """With "no": a message for the model."""
    narrow: bool = False
    """With "session" and "project": whether it adds the question's narrow rules."""
    mode: PermissionMode | None = None
    """With "once": the mode from now on."""

    def rules_to_add(self, question: Question) -> tuple[str, ...]:
        """The rules that this answer adds; none if it does not last."""
        if self.choice not in ("session", "project"):
            return ()
        return question.narrow if self.narrow else question.rules


def lasting_answers(question: Question) -> dict[Answer, str]:
    """The answers that allow more than once, in plain words, the narrowest first."""
    lasting: tuple[Literal["session", "project"], ...] = ("session", "project")
    ways = {}
    for answer in (Answer(choice=it, narrow=narrow) for it in lasting for narrow in (True, False)):
        rules = answer.rules_to_add(question)
        if rules and not (answer.narrow and rules == question.rules):
            plain = [re.sub(r"^\w+\((?:\./)?(.+?)\)$", r"\1", rule) for rule in rules]
            ways[answer] = f"always in this {answer.choice}: {', '.join(plain)}".replace(":*", " …")
    return ways


Ask = Callable[[Question], Awaitable[Answer]]
"""Shows a question and waits for the answer. Cancelling it withdraws the question."""

_LOOKS_EMPTY = frozenset(
    "\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f\U0001d159"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
"""Letters and marks that count as printable but show nothing."""

_EMPTY_LINES = re.compile(r"(?:\n[ \t]*){9,}(?=\n)")


def visible(text: str) -> str:
    r"""The text with every unprintable character (controls, escapes, bidirectional and zero-width
    marks) as `\x1b` or `\u202e`. Line feeds and single tabs stay; a run of tabs, many spaces or
    empty lines, which can push text off a screen, is spelt out."""
    text = "".join(
        c
        if c in "\n\t" or (c.isprintable() and c not in _LOOKS_EMPTY)
        else c.encode("unicode_escape", "surrogatepass").decode("ascii")
        for c in text
    )
    text = re.sub(r"\t{3,}", lambda run: "\\t" * len(run[0]), text)
    text = re.sub(r" {24,}(?=\S)", lambda run: f" [{len(run[0])} spaces] ", text)
    return _EMPTY_LINES.sub(lambda run: f"\n[{run[0].count(chr(10))} empty lines]", text)

"""What a verb's judgment is made of: a `Finding` says what one command would do, a `Scene` is what
its judge may know.

Judgments about single paths are in `paths`; which command does what is in `verbs`,
`git` and `table`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from kode.permissions import sensitive
from kode.permissions.shell.classes import ORDER, Effect, PartClass
from kode.permissions.shell.words import Word

RunText = Callable[[str], tuple[PartClass, ...]]
RunWords = Callable[[list[Word]], tuple[PartClass, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """What comes in through a pipe or a here-document."""

    parts: tuple[PartClass, ...] = ()
    """The commands that write into the pipe."""
    text: str | None = None
    """The very text, where it is known."""
    names: tuple[str, ...] = ()
    """For a list of files of the project: words that stand for them (`./` and `FOUND`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    where: sensitive.Ground
    cwd: str | None
    """None after a `cd` to a place that is not known."""
    feed: Feed | None
    downloads: bool
    """Whether a substitution in the command's own words asks another machine."""
    run_text: RunText
    """Judges a text as a command line of its own."""
    run_words: RunWords
    """Judges words as a command of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Effect):
    """What one command would do, and those that it runs."""

    more: tuple[PartClass, ...] = ()
    """Commands it runs in turn."""


def safe(reason: str = "only reads") -> Finding:
    return Finding(klass="safe", reason=reason)


def unknown(reason: str) -> Finding:
    return Finding(klass="unknown", reason=reason)


def system(reason: str) -> Finding:
    return Finding(klass="system", reason=reason)


def destructive(reason: str) -> Finding:
    return Finding(klass="destructive", reason=reason)


def network(reason: str) -> Finding:
    return Finding(klass="network", reason=reason, remote=True)


def deletes_remotely(reason: str) -> Finding:
    return Finding(klass="destructive", reason=reason, remote=True)


def write(reason: str = "changes files of the project") -> Finding:
    return Finding(klass="write", reason=reason)


def development(reason: str = "runs the project's own code") -> Finding:
    return Finding(klass="unknown", reason=reason, development=True)


def together(first: Finding, *others: Finding) -> Finding:
    """The worst of several findings, with the marks of all."""
    found = (first, *others)
    heaviest = max(found, key=lambda one: ORDER.index(one.klass))
    return replace(
        heaviest,
        development=heaviest.klass == "unknown"
        and all(one.development for one in found if one.klass == "unknown"),
        secret=any(one.secret for one in found),
        protected=any(one.protected for one in found),
        reads=tuple(path for one in found for path in one.reads),
        writes=tuple(path for one in found for path in one.writes),
        discards=tuple(path for one in found for path in one.discards),
        sweeps=tuple(sweep for one in found for sweep in one.sweeps),
        more=tuple(part for one in found for part in one.more),
        remote=any(one.remote for one in found),
    )


def with_more(finding: Finding, more: Iterable[PartClass]) -> Finding:
    return replace(finding, more=(*finding.more, *more))

"""What a command line would do, as its words tell: its parts, each with a risk.

Only a plain text has parts that are `safe`. In any other text, each part is at least `unknown`, and
so is the line. No state passes from one part to the next except `cd DIR && ...`.
"""

import os
import re
from collections.abc import Sequence
from operator import attrgetter
from typing import get_args

from kode.permissions import places
from kode.permissions.places import PathRules
from kode.permissions.shell import parse, programs
from kode.permissions.shell.parse import Items, Redirect, ShellCommand, TooLong, Word, Words
from kode.permissions.shell.programs import GRAVITY, Inner, Leaves, ProgramRule, Risk
from kode.values import Value, replace
from kode.workplace import is_below

MAX_CHARS = 20_000  # longer texts are programs: a person decides
MAX_ITEMS = 100  # longer lines are programs: a person decides
MAX_WORDS = 300  # longer lines are programs: a person decides
MAX_SLASHES = 600  # in one text: each may cost a look at the file system

MAX_DEPTH = 3  # texts within texts: `bash -c "bash -c ..."`

MAX_SHOWN_CHARS = 2_000  # a question that fits on a screen
MAX_PATH_CHARS = 1_000  # a quarter of PATH_MAX, which no honest path reaches
MAX_NAME_CHARS = 255  # NAME_MAX of linux/limits.h

_CLOSED_REDIRECTS = frozenset({">/dev/null", "1>/dev/null", "2>/dev/null", "</dev/null", "2>&1"})
_STREAMS = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"})
_SINKS = frozenset(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom"))

_PATH = re.compile(r"(?!\w+://)(?=[^/.~]*[/.~])[\w@%+=:,./~*?\[\] -]+")
"""A word that may name a file, among those of a program that kode does not know."""

_LOOPBACK = re.compile(
    r"(?:(?<=://)|(?<![\w./:@-]))(?:[\w.-]+@)?"
    r"(localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1\])(?![\w.@-])"
)
"""A name of this machine's loopback, as the host of an address or as a separate word."""

_NOT_FOLLOWED = "uses the shell in ways that kode cannot check"
_UNKNOWN = ProgramRule("runs", "", "unknown", "runs a program that kode does not know")
_UNCHECKED = ProgramRule(
    "runs", "", "unknown", "reads and prints, in a line that kode cannot check in full"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class LinePart(Value):
    """One program of a line, a redirection to a file, or an assignment; or what a command does to
    one of the files that it names."""

    text: str = ""
    """As written."""
    argv: tuple[str, ...] | None = None
    """Its words without wrappers: `env X=1 git push` is `("git", "push")`. None if one of them is
    not literal, and for anything but a command."""
    risk: Risk = "safe"
    reason: str = ""
    """Plain words that complete "It ...": "deletes files"."""
    undo: str = ""
    """One sentence about what `/undo` cannot restore; "" if it restores everything."""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    """Absolute paths that it names; globs are not expanded."""
    outside: bool = False
    """Whether it names a path outside the working folders, except a system document that it
    reads."""
    leaves: Leaves = ""

    @property
    def offer(self) -> tuple[str, ...]:
        """The words an "always" rule may begin with; empty if none are specific enough."""
        return programs.offer_prefix(self.argv) if self.argv and not self.is_grave else ()

    @property
    def is_grave(self) -> bool:
        """Whether no lasting answer covers it."""
        return self.risk in ("system", "destructive")


class ShellLine(Value):
    """What a command line would do, as far as its words tell."""

    parts: tuple[LinePart, ...]
    only_reads: bool
    """Whether all of it is in the closed grammar and every part is `safe`."""
    known: bool
    """Whether every word is literal and every program was found, so that a rule about words is
    reliable."""
    checks: tuple[parse.CheckPart, ...] = ()
    """The parts that check the project: tests, types, style, a build."""
    exit_one_is_answer: bool = False
    """Whether its exit status 1 is an answer, as that of `grep` is, and no failure."""

    @property
    def risk(self) -> Risk:
        """The worst risk of its parts; `safe` if there are none."""
        return max((part.risk for part in self.parts), key=get_args(Risk).index, default="safe")

    @property
    def only_edits(self) -> bool:
        """Whether it only reads and changes files."""
        return self.known and {it.risk for it in self.parts} <= {"safe", "write", "destructive"}

    @property
    def reads(self) -> tuple[str, ...] | None:
        """The files and folders that it reads; None for a line that could read any file: git shows
        contents without naming files."""
        reads = tuple(path for part in self.parts for path in part.reads)
        by_git = any(part.argv is None or part.argv[0] == "git" for part in self.parts)
        return reads if reads and self.only_reads and not by_git else None

    @property
    def writes(self) -> tuple[str, ...]:
        """The files and folders that it names to write."""
        return tuple(dict.fromkeys(path for part in self.parts for path in part.writes))


def judge_line(command: str, where: PathRules) -> ShellLine:
    """Judges part by part what a command line would do, in some 50 ms at most. Never raises. Reads
    the text, where links lead, and which programs the project's settings name."""
    walk = _Walk(where)
    plain, items, last = _search_text(command)
    try:
        walk.judge_text(command, plain, items, depth=0)
    except (TooLong, RecursionError):
        walk.is_closed = walk.is_known = False
        walk.parts = [_unknown_part(command, "is too long or too nested to understand")]
    risks = {part.risk for part in walk.parts}
    if "network" in risks:
        for at in walk.run_input:
            reason, undo = "runs what another machine sends", "kode cannot tell what it will do."
            walk.parts[at] = replace(walk.parts[at], risk="destructive", reason=reason, undo=undo)
    is_safe = risks <= {"safe"}
    if is_safe and not walk.is_closed:
        walk.parts.append(_unknown_part(command, _NOT_FOLLOWED))
    return ShellLine(
        parts=tuple(walk.parts),
        only_reads=is_safe and walk.is_closed,
        known=walk.is_known,
        checks=_find_checks(items),
        exit_one_is_answer=programs.is_answer(last),
    )


def _search_text(text: str) -> tuple[Items, Items, Words]:
    """What `parse.parse_plain` and `parse.search_commands` find; of the second None if it gives up,
    nothing in a text too long for it."""
    is_text = len(text) <= MAX_CHARS and not _CONTROL.search(text)
    plain = parse.parse_plain(text) if is_text else None
    try:
        return plain, *(parse.search_commands(text, plain) if is_text else ((), ()))
    except (TooLong, RecursionError):
        return plain, None, ()


def _find_checks(items: Items) -> tuple[parse.CheckPart, ...]:
    """The checks among the commands of a line. They permit nothing: bash reports how each one
    ended, and their places say where in its report."""
    commands = [
        it for it in items or () if isinstance(it, ShellCommand) and 0 < len(it.words) <= MAX_WORDS
    ]
    is_unseen = "trap" in [it.words[0].text for it in commands]  # it replaces kode's trap
    checks: dict[str, parse.CheckPart] = {}
    for command in commands:
        if (check := command.place) is not None and programs.is_check(command.words):
            # The same words in two places: nothing tells which run is which.
            is_other = checks.setdefault(check.command, check) != check
            checks[check.command] = replace(check, of=0) if is_unseen or is_other else check
    return tuple(checks.values())


class _Walk:
    """One pass over a command line."""

    def __init__(self, where: PathRules) -> None:
        self.where, self.parts = where, list[LinePart]()
        self.is_closed = self.is_known = True
        self.cwd: str | None = where.cwd
        self.has_moved, self.words_left = False, MAX_WORDS
        self.run_input: list[int] = []  # indices of parts that run their input or a computed text

    def judge_text(self, text: str, plain: Items, searched: Items, *, depth: int) -> None:
        """Judges a text as a command line, in which `_search_text` found this. Raises: TooLong."""
        if depth > MAX_DEPTH or len(text) > MAX_CHARS or text.count("/") > MAX_SLASHES:
            raise TooLong
        if not text.translate({9: None, 10: None}).isprintable():  # a reader or a shell may misread
            self.is_closed = self.is_known = False
            self.parts.append(_unknown_part(text, "contains invisible characters"))
        is_plain, items = plain is not None, searched if plain is None else plain
        self.is_known = self.is_known and is_plain
        self.is_closed = self.is_closed and is_plain and not depth and text.isascii()
        if items is None or len(items) > MAX_ITEMS:
            raise TooLong
        for item in items:
            if isinstance(item, Redirect):
                self._judge_redirect(item, is_plain=is_plain)
                continue
            if not self._change_folder(item, is_plain=is_plain):
                self._judge_command(item.text, item.words, is_plain, depth)
            self.is_closed = self.is_closed and "&" not in (item.before, item.behind)
        if not is_plain and all(part.argv or part.risk == "safe" for part in self.parts):
            self.parts.append(_unknown_part(text, _NOT_FOLLOWED))

    def _judge_command(self, text: str, words: Words, is_plain: bool, depth: int) -> None:
        self.words_left -= len(words)
        if self.words_left < 0:
            raise TooLong
        if not words or words[0].kind != "literal" or not words[0].text:
            self.is_known, computed = False, "runs a program whose name is computed"
            reason = computed if words else "sets variables for what runs after it"
            self.parts.append(_unknown_part(text, reason))
            return
        argv = tuple(map(attrgetter("text"), words))
        is_literal = {*map(attrgetter("kind"), words)} == {"literal"}
        files = programs.files_of_reader(argv)
        part = LinePart(text=_clip(text), argv=argv if is_literal else None)
        if is_plain and is_literal and files is not None:
            self.parts.append(self._judge_reader(part, files))
        elif inner := programs.inner_commands(words):
            self._judge_wrapper(part, inner, is_plain and is_literal, depth)
        else:
            if not is_literal or os.path.basename(argv[0]) in programs.program_names("hides"):
                self.is_known = False
            part = self._judge_program(part, words, files)
            if _runs_input(words):
                self.is_known = False
                self.run_input.append(len(self.parts))
            self.parts.append(part)

    def _judge_reader(self, part: LinePart, files: Sequence[str]) -> LinePart:
        """Judges a command that only reads and prints."""
        paths = [self._locate(Word(word)) for word in files if word != "-"]
        effect = _merge_effects([_read_effect(path, self.where) for path in paths])
        return replace(effect, text=part.text, argv=part.argv, reason=effect.reason or "only reads")

    def _judge_wrapper(
        self, part: LinePart, inner: list[Inner], is_plain: bool, depth: int
    ) -> None:
        """Judges a command that runs others, then those. None of them is safe: found through PATH,
        the name may be another program's."""
        self.is_closed = False
        is_transparent = is_plain and all(command.transparent for command in inner)
        self.is_known = self.is_known and is_transparent
        risk: Risk = "safe" if is_transparent else "unknown"
        part = replace(part, risk=risk, reason="runs another program")
        if system := next((command.system for command in inner if command.system), ""):
            part = replace(part, risk="system", reason=system, leaves="machine")
        self.parts.append(part)
        for command in inner:
            first = len(self.parts)
            if command.words:
                self._judge_command(part.text, command.words, False, depth)
            else:
                folder = self.cwd, self.has_moved
                self.judge_text(command.text, *_search_text(command.text)[:2], depth=depth + 1)
                self.cwd, self.has_moved = folder
            self.parts[first:] = [_at_least_unknown(each) for each in self.parts[first:]]

    def _judge_program(self, part: LinePart, words: Words, files: Sequence[str] | None) -> LinePart:
        """Judges a command by the rule for its program, and by the files that it names."""
        rule = programs.find_rule(words) or (_UNKNOWN if files is None else _UNCHECKED)
        if files is not None:
            effect = self._touch([word for word in words if word.text in files], "reads")
        else:
            effect = self._touch_operands(words, rule)
        risk, reason, leaves = rule.risk, rule.reason, effect.leaves
        spared = programs.operands_of(words, rule) if rule.spares else []
        paths = [self._locate(word) for word in spared]
        if paths and all(path and places.is_rebuildable(path, self.where) for path in paths):
            risk, reason = "write", "deletes build output"
        if leaves not in ("kode", "keys") or rule.leaves == "kode":
            leaves = _leaves_loopback(rule.leaves, part.text) or leaves
        is_heavier = GRAVITY.index(effect.risk) > GRAVITY.index(risk)
        if is_heavier or (effect.leaves and not rule.leaves):
            reason = effect.reason  # what decides, even if the program's risk is greater
        risk = effect.risk if is_heavier else risk
        undo = " ".join(filter(None, (rule.undo, effect.undo)))
        effect = replace(effect, text=part.text, argv=part.argv, undo=undo, leaves=leaves)
        return replace(effect, risk=risk, reason=reason)

    def _touch_operands(self, words: Words, rule: ProgramRule) -> LinePart:
        kind, operands = rule.operands.removeprefix("text "), programs.operands_of(words, rule)
        if not kind and rule.risk in ("unknown", "network"):
            names = [Word(it.text.lstrip("@"), it.kind) for it in operands if it.kind != "open"]
            return self._touch([word for word in names if _PATH.fullmatch(word.text)], "reads")
        return LinePart() if kind in ("", "none") else self._touch(operands, kind)

    def _touch(self, words: Sequence[Word], kind: str) -> LinePart:
        """The effect on the files that words name: of kind `last`, only the last is written."""
        paths = [self._locate(word) for word in words]
        at = len(paths) - {"last": 1, "reads": 0}.get(kind, len(paths))
        reads = [_read_effect(path, self.where) for path in paths[:at] if path is not None]
        quiet = [replace(it, risk="safe") if it.risk == "unknown" else it for it in reads]
        return _merge_effects([*quiet, *(_write(path, self.where) for path in paths[at:])])

    def _judge_redirect(self, item: Redirect, *, is_plain: bool) -> None:
        operator, target = item.operator, item.target
        if is_plain and re.sub(r"[ \t]", "", item.text) in _CLOSED_REDIRECTS:
            return
        self.is_closed = False
        self.is_known = self.is_known and target.kind == "literal"
        to_descriptor = operator in (">&", "<&") and re.fullmatch(r"[0-9]+-?|-", target.text)
        if to_descriptor or target.text in _STREAMS:
            return
        effect = (_read_effect if operator == "<" else _write)(self._locate(target), self.where)
        reason = effect.reason or f"reads {target.text}"
        part = replace(effect, text=_clip(item.text), reason=reason)
        if target.text.startswith(("/dev/tcp/", "/dev/udp/")):
            reason = "opens a connection to another machine"
            leaves = _leaves_loopback("host", target.text.replace("/", " "))
            part = replace(part, risk="network", reason=reason, leaves=leaves)
        self.parts.append(part if is_plain else _at_least_unknown(part))

    def _change_folder(self, item: ShellCommand, *, is_plain: bool) -> bool:
        """Handles a `cd`: the folder is known only after `cd DIR &&`, while only `&&` and `|`
        follow. True if the command needs no other check."""
        if self.has_moved and item.before not in ("&&", "|"):
            self.cwd = None
        name = item.words[0].text if item.words else ""
        if name not in ("cd", "pushd", "popd"):
            return False
        path = self._locate(item.words[1]) if len(item.words) == 2 else None
        self.cwd, self.has_moved = None, True
        is_clear = is_plain and name == "cd" and not item.words[-1].text.startswith("-")
        if path is None or not is_clear or ".." in path.split("/"):
            return False
        if item.before in ("", ";", "&&") and item.behind == "&&":
            self.cwd = path
        if places.find_place(path, self.where) != "root":
            return False
        argv = tuple(word.text for word in item.words)
        self.parts.append(LinePart(text=_clip(item.text), argv=argv, reason="changes the folder"))
        return True

    def _locate(self, word: Word) -> str | None:
        """The absolute path of a word, with its `..`, because a link may precede it. None if
        unknown."""
        text = word.text
        if word.kind == "open" or not text or len(text) > MAX_PATH_CHARS or "\0" in text:
            return None
        if word.kind == "pattern" and text.startswith("~"):
            if text != "~" and not text.startswith("~/"):
                return None
            text = self.where.home + text[1:]
        if not os.path.isabs(text) and self.cwd is None:
            return None
        path = os.path.join(self.cwd or "/", text)
        if len(os.path.basename(path)) > MAX_NAME_CHARS:
            return None
        return path if ".." in path.split("/") else os.path.normpath(path)


def _read_effect(path: str | None, where: PathRules) -> LinePart:
    """The effect of reading a path."""
    if path is None:
        return LinePart(risk="unknown", reason="reads a file at an unknown path")
    place, what = places.find_place(path, where), f"reads {_relative(path, where)}"
    if places.is_secret(path, where):
        reason = f"{what}, which is likely to hold keys"
        is_outside = place not in ("root", "system")
        return LinePart(
            risk="system", reason=reason, reads=(path,), outside=is_outside, leaves="keys"
        )
    is_hidden = place == "protected" and not places.is_readable(path, where)
    if place in ("protected", "root", "system") and not is_hidden:
        return LinePart(reads=(path,))
    return LinePart(
        risk="system" if is_hidden else "unknown",
        reason="reads a folder of kode" if is_hidden else f"{what}, outside the project",
        reads=(path,),
        outside=True,
        leaves="" if place == "private" else "place",
    )


def _write(path: str | None, where: PathRules) -> LinePart:
    """The effect of writing, creating or deleting a path."""
    if path is None:
        return LinePart(risk="unknown", reason="writes to a file at an unknown path")
    if path in _SINKS:
        return LinePart(writes=(path,))
    place = places.find_place(path, where)
    risk: Risk = "system"
    what, undo = f"writes to {_relative(path, where)}", ""
    is_secret = places.is_secret(path, where)
    is_stream = path in (*_STREAMS, "/dev/tty") or path.startswith(("/dev/fd/", "/dev/shm/"))
    if path.startswith("/dev/") and not is_stream:
        risk, what = "destructive", f"writes to the device {path}"
        undo = "Writes to a device cannot be undone."
    elif place == "protected":
        what += ", in a folder of kode"
    elif places.runs_later(path, where.place.git, where.named()):
        what += ", which other programs run later"
    elif is_secret:
        what += ", which is likely to hold keys"
    elif place not in ("root", "private", "temp"):
        what += ", outside the project"
        undo = "Changes outside the project cannot be undone."
    else:
        risk = "write"
    leaves: Leaves = "" if place in ("root", "private") else "place"
    leaves = "kode" if place == "protected" else "keys" if is_secret else leaves
    part = LinePart(risk=risk, reason=what, undo=undo, writes=(path,))
    return replace(part, outside=place != "root", leaves=leaves)


def _merge_effects(effects: Sequence[LinePart]) -> LinePart:
    """Merges effects into one, with the risk and the reason of the worst."""
    if len(effects) < 2:
        return effects[0] if effects else LinePart()
    worst = max(effects, key=lambda effect: get_args(Risk).index(effect.risk))
    needs: list[Leaves] = [effect.leaves for effect in effects if effect.leaves]
    return LinePart(
        risk=worst.risk,
        reason=worst.reason,
        undo=" ".join(dict.fromkeys(effect.undo for effect in effects if effect.undo)),
        reads=tuple(dict.fromkeys(path for effect in effects for path in effect.reads)),
        writes=tuple(dict.fromkeys(path for effect in effects for path in effect.writes)),
        outside=any(effect.outside for effect in effects),
        leaves=min(needs, key=("kode", "keys", *needs).index, default=""),
    )


def _relative(path: str, where: PathRules) -> str:
    return os.path.relpath(path, where.cwd) if is_below(path, where.cwd) else path


def _runs_input(words: Words) -> bool:
    """Whether a command runs a program that it reads from its input or downloads."""
    name = os.path.basename(words[0].text)
    if name in ("source", ".", "eval"):
        return any(word.kind == "open" for word in words[1:])
    if name not in programs.program_names("offers", "interpreters"):
        return False
    operands = [w for w in words[1:] if w.kind == "open" or not w.text.startswith("-")]
    return not operands or operands[0].kind == "open" or operands[0].text == "/dev/stdin"


def _leaves_loopback(leaves: Leaves, text: str) -> Leaves:
    """Returns `leaves`, but "" if the only host in the text is the loopback: the sandbox has its
    own. A wrong guess costs a failed command, since the sandbox has no other network."""
    count = len(_LOOPBACK.findall(text))
    return "" if leaves == "host" and count and text.count("://") <= count else leaves


def _unknown_part(text: str, reason: str) -> LinePart:
    return LinePart(text=_clip(text), risk="unknown", reason=reason)


def _at_least_unknown(part: LinePart) -> LinePart:
    return replace(part, risk="unknown") if part.risk == "safe" else part


def _clip(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "..."

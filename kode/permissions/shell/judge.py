"""Splits a command line into parts and judges each.

`plain` parses a plain text; only there can a part be `safe`. `tree` searches any other text; there
each part is at least `unknown`, and so is the line. No state passes from one part to the next
except `cd DIR && ...`.
"""

import itertools
import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from kode.permissions import places
from kode.permissions.places import PathRules
from kode.permissions.shell import paths, pipes, plain, programs, tree, wrappers
from kode.permissions.shell.line import Leaves, Line, Part, Risk, TooLong
from kode.permissions.shell.paths import Touched
from kode.permissions.shell.plain import Assignment, Command, Item, Redirect, Word

MAX_CHARS = 20_000  # longer texts are programs: a person decides
MAX_SLASHES = 600
"""In one text: each slash may cost a look at the file system."""

MAX_DEPTH = 3
"""Texts within texts: `bash -c "bash -c ..."`."""

MAX_SHOWN_CHARS = 2_000  # a question that fits on a screen

_CLOSED_REDIRECTS = frozenset({">/dev/null", "1>/dev/null", "2>/dev/null", "</dev/null", "2>&1"})

_OWN_STREAMS = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"})

_HOST = re.compile(
    r"(?:(?<=://)|(?<![\w./:@-]))(?:[\w.-]+@)?"
    r"(localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1\])(?![\w.@-])"
)
"""This machine's loopback, as the host of an address or a word of its own."""

_NOT_FOLLOWED = "uses the shell in ways that kode cannot check"

_GRAVITY: tuple[Risk, ...] = ("safe", "unknown", "write", "network", "system", "destructive")
"""What a program does by its name outweighs an unknown file of it."""


def judge(command: str, where: PathRules) -> Line:
    """Judges part by part what a command line would do. Never raises, and takes some 50 ms at most;
    reads only the text and where symlinks lead."""
    walk = _Walk(where)
    try:
        if len(command) > MAX_CHARS:
            raise TooLong
        walk.text(command, depth=0)
    except (TooLong, RecursionError):
        walk.closed = walk.known = False
        walk.parts = [_unknown(command, "is too long or too nested to understand")]
    if not walk.closed and all(part.risk == "safe" for part in walk.parts):
        walk.parts.append(_unknown(command, _NOT_FOLLOWED))
    is_readable = len(command) <= MAX_CHARS and not _holds_controls(command)
    checks, answers = pipes.look_at(command) if is_readable else ((), False)
    return Line(
        parts=tuple(walk.finished()),
        only_reads=walk.closed and all(part.risk == "safe" for part in walk.parts),
        known=walk.known,
        checks=checks,
        exit_one_is_answer=answers,
    )


class _Walk:
    """One pass over a command line."""

    def __init__(self, where: PathRules) -> None:
        self.where = where
        self.parts: list[Part] = []
        self.closed = True
        self.known = True
        self.cwd: str | None = where.cwd
        self.moved = False
        self.words_left = plain.MAX_WORDS
        self.runs_input: set[int] = set()
        """Parts that run what they read, or a text that is not literal."""

    def text(self, text: str, *, depth: int) -> None:
        """Judges a text as a command line. Raises: TooLong."""
        if depth > MAX_DEPTH:
            raise TooLong
        if _hides(text):
            self.closed = self.known = False
            self.parts.append(_unknown(text, "contains invisible characters"))
        items: Sequence[Item] | None = plain.parse(text)
        is_plain = items is not None
        if items is None:
            self.closed = self.known = False
            found = tree.parse(text) if not _holds_controls(text) else iter(())
            items = list(itertools.islice(found, plain.MAX_ITEMS + 1))
        if depth or not text.isascii():
            self.closed = False
        if len(items) > plain.MAX_ITEMS or text.count("/") > MAX_SLASHES:
            raise TooLong
        for item in items:
            self.item(item, is_plain=is_plain, depth=depth)
        if not is_plain and all(
            part.argv is not None or part.risk == "safe" for part in self.parts
        ):
            self.parts.append(_unknown(text, _NOT_FOLLOWED))

    def item(self, item: Item, *, is_plain: bool, depth: int) -> None:
        match item:
            case Assignment():
                self.parts.append(_unknown(item.text, "sets variables for what runs after it"))
            case Redirect():
                self.redirect(item, is_plain=is_plain)
            case Command():
                if not self.change_folder(item, is_plain=is_plain):
                    self.command(item.text, item.words, is_plain=is_plain, depth=depth)
                self.closed = self.closed and item.before != "&" and item.behind != "&"

    def command(self, text: str, words: tuple[Word, ...], *, is_plain: bool, depth: int) -> None:
        self.words_left -= len(words)
        if self.words_left < 0:
            raise TooLong
        if not words or words[0].kind != "literal" or not words[0].text:
            self.known = False
            self.parts.append(_unknown(text, "runs a program whose name is computed"))
            return
        argv = tuple(word.text for word in words)
        literal = all(word.kind == "literal" for word in words)
        reading = programs.plain_reader(argv)
        if is_plain and literal and reading is not None:
            self.parts.append(self.reader(text, argv, reading))
            return
        inner = wrappers.inner_of(words)
        if inner:
            self.wrapper(text, argv, inner, literal=literal, is_plain=is_plain, depth=depth)
            return
        if _runs_input(words):
            self.known = False
            self.runs_input.add(len(self.parts))
        if not literal or os.path.basename(argv[0]) in programs.table().hides:
            self.known = False
        self.parts.append(self.looked_up(text, words, reading, literal=literal))

    def reader(self, text: str, argv: tuple[str, ...], reading: programs.Reading) -> Part:
        """A command that only reads and prints."""
        touched = paths.together(*(self.read(word) for word in reading.files if word != "-"))
        risk, reason = touched.risk, touched.reason or "only reads"
        if risk == "safe" and any(self.read(word).risk != "safe" for word in reading.suspected):
            risk, reason = "unknown", "reads, with an option whose value may be a file"
        offer = programs.offer(argv) if risk in ("safe", "unknown") else ()
        return _part(text, argv, risk, reason, touched, offer=offer)

    def read(self, word: str) -> Touched:
        return paths.read(paths.locate(Word(word), self.cwd, self.where), self.where)

    def wrapper(
        self,
        text: str,
        argv: tuple[str, ...],
        inner: list[wrappers.Inner],
        *,
        literal: bool,
        is_plain: bool,
        depth: int,
    ) -> None:
        """A command that runs others: judges itself, then those. Nothing behind it is safe: found
        on its way, the name may be another program."""
        self.closed = False
        transparent = is_plain and literal and all(one.transparent for one in inner)
        self.known = self.known and transparent
        risk: Risk = "safe" if transparent else "unknown"
        reason, own = "runs another program", [one.system for one in inner if one.system]
        if own:
            risk, reason = "system", own[0]
        self.parts.append(
            Part(
                text=_clip(text),
                argv=argv if literal else None,
                risk=risk,
                reason=reason,
                leaves="machine" if own else "",
            )
        )
        for one in inner:
            first = len(self.parts)
            if one.text is not None:
                folder = self.cwd, self.moved
                self.text(one.text, depth=depth + 1)
                self.cwd, self.moved = folder
            else:
                added = (Word("", "open"),) if one.appends else ()
                self.command(text, (*one.words, *added), is_plain=False, depth=depth)
            self.parts[first:] = [_at_least_unknown(part) for part in self.parts[first:]]

    def looked_up(
        self,
        text: str,
        words: tuple[Word, ...],
        reading: programs.Reading | None,
        *,
        literal: bool,
    ) -> Part:
        """A command by the rules for its program."""
        argv = tuple(word.text for word in words) if literal else None
        rule = programs.find_rule(words)
        if reading is not None:
            named = [word for word in words if word.text in reading.files]
            touched = self.touched(named, "reads")
        else:
            touched = self.touched_by(words, rule)
        risk: Risk = "unknown"
        reason = "runs a program that kode does not know"
        undo = touched.undo
        if reading is not None:
            reason = "reads and prints, in a line that kode cannot check in full"
        if rule is not None:
            risk, reason = rule.risk, rule.reason
            undo = " ".join(filter(None, (rule.undo, touched.undo)))
            if rule.spares and self.spares(words, rule):
                risk, reason = "write", "deletes build output"
        heavier = _GRAVITY.index(touched.risk) > _GRAVITY.index(risk)
        if heavier or (touched.leaves and not (rule and rule.leaves)):
            reason = touched.reason  # what decides, be the program's own risk greater
        if heavier:
            risk = touched.risk
        if rule is not None and rule.own:
            touched = replace(touched, protected=True)
        offer = programs.offer(argv) if argv and risk in ("write", "network", "unknown") else ()
        part = _part(text, argv, risk, reason, touched, undo=undo, offer=offer)
        if rule is not None and part.leaves != "keys":
            part = replace(part, leaves=_away(rule.leaves, text) or part.leaves)
        return part

    def touched_by(self, words: tuple[Word, ...], rule: programs.Rule | None) -> Touched:
        kind = rule.operands.removeprefix("text ") if rule else ""
        if not kind and (rule is None or rule.risk in ("unknown", "network")):
            named = [Word(w.text.lstrip("@"), w.kind) for w in programs.operands_of(words, rule)]
            return self.touched([word for word in named if paths.looks_like_path(word)], "reads")
        if not kind or kind == "none":
            return Touched()
        return self.touched(programs.operands_of(words, rule), kind)

    def touched(self, named: Sequence[Word], kind: str) -> Touched:
        where = self.where
        found = [paths.locate(word, self.cwd, where) for word in named]
        writes = {"writes": len(found), "moves": len(found), "last": 1, "reads": 0}[kind]
        position = len(found) - writes
        reads = [paths.read(path, where) for path in found[:position] if path is not None]
        quiet = [
            replace(effect, risk="safe") if effect.risk == "unknown" else effect for effect in reads
        ]
        return paths.together(*quiet, *(paths.write(path, where) for path in found[position:]))

    def spares(self, words: tuple[Word, ...], rule: programs.Rule) -> bool:
        named = programs.operands_of(words, rule)
        found = [paths.locate(word, self.cwd, self.where) for word in named]
        return bool(found) and all(paths.may_be_rebuilt(path, self.where) for path in found)

    def redirect(self, item: Redirect, *, is_plain: bool) -> None:
        operator, target = item.operator, item.target
        compact = item.text.replace(" ", "").replace("\t", "")
        if is_plain and compact in _CLOSED_REDIRECTS and not item.in_test:
            return
        self.closed = False
        self.known = self.known and target.kind == "literal"
        to_descriptor = operator in (">&", "<&") and re.fullmatch(r"[0-9]+-?|-", target.text)
        if to_descriptor or target.text in _OWN_STREAMS:
            return
        path = paths.locate(target, self.cwd, self.where)
        touched = (paths.read if operator == "<" else paths.write)(path, self.where)
        risk, reason = touched.risk, touched.reason or f"reads {target.text}"
        if target.text.startswith(("/dev/tcp/", "/dev/udp/")):
            risk, reason = "network", "opens a connection to another machine"
        if item.in_test:
            reason = f"{reason}: between [ and ], `{operator}` redirects and compares nothing"
        part = _part(item.text, None, risk, reason, touched, undo=touched.undo)
        if risk == "network":
            part = replace(part, leaves=_away("host", target.text.replace("/", " ")))
        self.parts.append(part if is_plain else _at_least_unknown(part))

    def change_folder(self, item: Command, *, is_plain: bool) -> bool:
        """Handles a `cd`: the folder is known only after `cd DIR &&`, while only `&&` and `|`
        follow. True if the command needs no other check."""
        if self.moved and item.before not in ("&&", "|"):
            self.cwd = None
        name = item.words[0].text if item.words else ""
        if name not in ("cd", "pushd", "popd"):
            return False
        before, self.cwd, self.moved = self.cwd, None, True
        if name != "cd" or not is_plain or len(item.words) != 2:
            return False
        path = paths.locate(item.words[1], before, self.where)
        if path is None or ".." in path.split("/") or item.words[1].text.startswith("-"):
            return False
        if item.before in ("", ";", "&&") and item.behind == "&&":
            self.cwd = path
        if places.find_place(path, self.where) != "root":
            return False
        argv = tuple(word.text for word in item.words)
        self.parts.append(
            Part(text=_clip(item.text), argv=argv, risk="safe", reason="changes the folder")
        )
        return True

    def finished(self) -> list[Part]:
        """The parts, with those marked that run what another machine sends."""
        if not any(part.risk == "network" for part in self.parts):
            return self.parts
        return [
            replace(
                part,
                risk="destructive",
                reason="runs what another machine sends",
                undo="Its effect cannot be predicted.",
                offer=(),
            )
            if index in self.runs_input
            else part
            for index, part in enumerate(self.parts)
        ]


def _runs_input(words: tuple[Word, ...]) -> bool:
    """Whether a command runs a program that it reads from its input or downloads."""
    name = os.path.basename(words[0].text)
    if name in ("source", ".", "eval"):
        return any(word.kind == "open" for word in words[1:])
    if name not in programs.table().interpreters:
        return False
    operands = [w for w in words[1:] if w.kind == "open" or not w.text.startswith("-")]
    return not operands or operands[0].kind == "open" or operands[0].text == "/dev/stdin"


def _part(
    text: str,
    argv: tuple[str, ...] | None,
    risk: Risk,
    reason: str,
    touched: Touched,
    *,
    undo: str = "",
    offer: tuple[str, ...] = (),
) -> Part:
    return Part(
        text=_clip(text),
        argv=argv,
        risk=risk,
        reason=reason,
        undo=undo,
        offer=() if touched.secret or touched.protected else offer,
        secret=touched.secret,
        protected=touched.protected,
        reads=tuple(dict.fromkeys(touched.reads)),
        writes=tuple(dict.fromkeys(touched.writes)),
        outside=touched.outside,
        leaves=touched.leaves,
    )


def _away(leaves: Leaves, text: str) -> Leaves:
    """What a command leaves for, unless its only host is the loopback: the sandbox has its own. A
    wrong guess costs a failed command, since there is no other network in it."""
    hosts = len(re.findall("://", text))
    own = _HOST.findall(text)
    return "" if leaves == "host" and own and hosts <= len(own) else leaves


def _unknown(text: str, reason: str) -> Part:
    return Part(text=_clip(text), argv=None, risk="unknown", reason=reason)


def _at_least_unknown(part: Part) -> Part:
    return replace(part, risk="unknown") if part.risk == "safe" else part


def _clip(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "..."


_NOT_SHOWN = frozenset("Cc Cf Cs Co Zl Zp".split())


def _holds_controls(text: str) -> bool:
    return any(c < " " and c not in "\t\n" for c in text) or "\x7f" in text


def _hides(text: str) -> bool:
    """Whether it contains control, format or odd space characters, which a reader or a shell may
    misread."""
    if text.isascii():
        return _holds_controls(text)
    return any(
        c not in "\t\n" and (unicodedata.category(c) in _NOT_SHOWN or (c != " " and c.isspace()))
        for c in text
    )

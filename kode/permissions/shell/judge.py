"""Splits a command line into parts and judges each.

Only a plain text has parts that are `safe`. Of any other text each part is at least `unknown`, and
so is the line. No state passes from one part to the next except `cd DIR && ...`.
"""

import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import replace

from kode.permissions import places
from kode.permissions.places import PathRules
from kode.permissions.shell import files, parse, programs
from kode.permissions.shell.checks import find_checks
from kode.permissions.shell.line import GRAVITY, Leaves, Line, Part, Risk
from kode.permissions.shell.parse import Assignment, Command, Item, Redirect, TooLong, Word

MAX_CHARS = 20_000  # longer texts are programs: a person decides
MAX_SLASHES = 600
"""In one text: each slash may cost a look at the file system."""

MAX_DEPTH = 3
"""Texts within texts: `bash -c "bash -c ..."`."""

MAX_SHOWN_CHARS = 2_000  # a question that fits on a screen

_CLOSED_REDIRECTS = frozenset({">/dev/null", "1>/dev/null", "2>/dev/null", "</dev/null", "2>&1"})

_OWN_STREAMS = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"})

_LOOPBACK = re.compile(
    r"(?:(?<=://)|(?<![\w./:@-]))(?:[\w.-]+@)?"
    r"(localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1\])(?![\w.@-])"
)
"""This machine's own, as the host of an address or a word of its own."""

_NOT_FOLLOWED = "uses the shell in ways that kode cannot check"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def judge(command: str, where: PathRules) -> Line:
    """Judges part by part what a command line would do. Never raises, and takes some 50 ms at most;
    reads only the text and where symlinks lead."""
    walk = _Walk(where)
    try:
        if len(command) > MAX_CHARS:
            raise TooLong
        walk.judge_text(command, depth=0)
    except (TooLong, RecursionError):
        walk.is_closed = walk.is_known = False
        walk.parts = [_unknown(command, "is too long or too nested to understand")]
    if not walk.is_closed and all(part.risk == "safe" for part in walk.parts):
        walk.parts.append(_unknown(command, _NOT_FOLLOWED))
    is_readable = len(command) <= MAX_CHARS and not _holds_controls(command)
    checks, is_answer = find_checks(command) if is_readable else ((), False)
    return Line(
        parts=tuple(walk.finish()),
        only_reads=walk.is_closed and all(part.risk == "safe" for part in walk.parts),
        known=walk.is_known,
        checks=checks,
        exit_one_is_answer=is_answer,
    )


class _Walk:
    """One pass over a command line."""

    def __init__(self, where: PathRules) -> None:
        self.where = where
        self.parts: list[Part] = []
        self.is_closed = True
        self.is_known = True
        self.cwd: str | None = where.cwd
        self.has_moved = False
        self.words_left = parse.MAX_WORDS
        self.run_input: set[int] = set()
        """Parts that run what they read, or a text that is not literal."""

    def judge_text(self, text: str, *, depth: int) -> None:
        """Judges a text as a command line. Raises: TooLong."""
        if depth > MAX_DEPTH:
            raise TooLong
        if _hides(text):
            self.is_closed = self.is_known = False
            self.parts.append(_unknown(text, "contains invisible characters"))
        items: Sequence[Item] | None = parse.parse_plain(text)
        is_plain = items is not None
        if items is None:
            self.is_closed = self.is_known = False
            search = () if _holds_controls(text) else parse.search(text)
            items = list(itertools.islice(search, parse.MAX_ITEMS + 1))
        if depth or not text.isascii():
            self.is_closed = False
        if len(items) > parse.MAX_ITEMS or text.count("/") > MAX_SLASHES:
            raise TooLong
        for item in items:
            match item:
                case Assignment():
                    reason = "sets variables for what runs after it"
                    self.parts.append(_unknown(item.text, reason))
                case Redirect():
                    self._judge_redirect(item, is_plain=is_plain)
                case Command():
                    if not self._change_folder(item, is_plain=is_plain):
                        self._judge_command(item.text, item.words, is_plain=is_plain, depth=depth)
                    if "&" in (item.before, item.behind):
                        self.is_closed = False
        if not is_plain and all(part.argv or part.risk == "safe" for part in self.parts):
            self.parts.append(_unknown(text, _NOT_FOLLOWED))

    def _judge_command(
        self, text: str, words: tuple[Word, ...], *, is_plain: bool, depth: int
    ) -> None:
        self.words_left -= len(words)
        if self.words_left < 0:
            raise TooLong
        if not words or words[0].kind != "literal" or not words[0].text:
            self.is_known = False
            self.parts.append(_unknown(text, "runs a program whose name is computed"))
            return
        argv = tuple(word.text for word in words)
        is_literal = all(word.kind == "literal" for word in words)
        reading = programs.plain_reader(argv)
        if is_plain and is_literal and reading is not None:
            self.parts.append(self._judge_reader(text, argv, reading))
            return
        if inner := programs.inner_of(words):
            self._judge_wrapper(text, argv if is_literal else None, inner, is_plain, depth)
            return
        if _runs_input(words):
            self.is_known = False
            self.run_input.add(len(self.parts))
        if not is_literal or os.path.basename(argv[0]) in programs.names("hides"):
            self.is_known = False
        self.parts.append(self._judge_program(text, words, argv if is_literal else None, reading))

    def _judge_reader(self, text: str, argv: tuple[str, ...], reading: programs.Reading) -> Part:
        """A command that only reads and prints."""
        effect = files.merge(self._read(word) for word in reading.files if word != "-")
        risk, reason = effect.risk, effect.reason or "only reads"
        if risk == "safe" and any(self._read(word).risk != "safe" for word in reading.suspected):
            risk, reason = "unknown", "reads, with an option whose value may be a file"
        offer = programs.offer(argv) if risk in ("safe", "unknown") and not effect.secret else ()
        return replace(effect, text=_clip(text), argv=argv, risk=risk, reason=reason, offer=offer)

    def _read(self, word: str) -> Part:
        return files.read(files.locate(Word(word), self.cwd, self.where), self.where)

    def _judge_wrapper(
        self,
        text: str,
        argv: tuple[str, ...] | None,
        inner: Sequence[programs.Inner],
        is_plain: bool,
        depth: int,
    ) -> None:
        """A command that runs others: judges itself, then those. Nothing behind it is safe: found
        on its way, the name may be another program."""
        self.is_closed = False
        is_transparent = is_plain and argv is not None and all(it.transparent for it in inner)
        self.is_known = self.is_known and is_transparent
        system = next((it.system for it in inner if it.system), "")
        risk: Risk = "system" if system else "safe" if is_transparent else "unknown"
        leaves: Leaves = "machine" if system else ""
        reason = system or "runs another program"
        self.parts.append(
            Part(text=_clip(text), argv=argv, risk=risk, reason=reason, leaves=leaves)
        )
        for command in inner:
            first = len(self.parts)
            if command.text is not None:
                folder = self.cwd, self.has_moved
                self.judge_text(command.text, depth=depth + 1)
                self.cwd, self.has_moved = folder
            else:
                self._judge_command(text, command.words, is_plain=False, depth=depth)
            self.parts[first:] = [_at_least_unknown(part) for part in self.parts[first:]]

    def _judge_program(
        self,
        text: str,
        words: tuple[Word, ...],
        argv: tuple[str, ...] | None,
        reading: programs.Reading | None,
    ) -> Part:
        """A command by the rule for its program, and by the files that it names."""
        rule = programs.find_rule(words)
        risk: Risk = "unknown"
        reason = "runs a program that kode does not know"
        if reading is not None:
            reason = "reads and prints, in a line that kode cannot check in full"
            effect = self._touch([word for word in words if word.text in reading.files], "reads")
        else:
            effect = self._touch_operands(words, rule)
        undo, leaves = effect.undo, effect.leaves
        if rule is not None:
            risk, reason = rule.risk, rule.reason
            undo = " ".join(filter(None, (rule.undo, undo)))
            if rule.spares and self._spares(words, rule):
                risk, reason = "write", "deletes build output"
            if leaves != "keys":
                leaves = _stay_on_loopback(rule.leaves, text) or leaves
        is_heavier = GRAVITY.index(effect.risk) > GRAVITY.index(risk)
        if is_heavier or (effect.leaves and not (rule and rule.leaves)):
            reason = effect.reason  # what decides, be the program's own risk greater
        risk = effect.risk if is_heavier else risk
        is_protected = effect.protected or (rule is not None and rule.protected)
        is_grave = risk in ("system", "destructive") or effect.secret or is_protected
        return replace(
            effect,
            text=_clip(text),
            argv=argv,
            risk=risk,
            reason=reason,
            undo=undo,
            offer=programs.offer(argv) if argv and not is_grave and risk != "safe" else (),
            protected=is_protected,
            leaves=leaves,
        )

    def _touch_operands(self, words: tuple[Word, ...], rule: programs.Rule | None) -> Part:
        kind = rule.operands.removeprefix("text ") if rule else ""
        if not kind and (rule is None or rule.risk in ("unknown", "network")):
            operands = programs.operands_of(words, rule)
            names = [Word(word.text.lstrip("@"), word.kind) for word in operands]
            return self._touch([word for word in names if files.looks_like_path(word)], "reads")
        if kind in ("", "none"):
            return Part()
        return self._touch(programs.operands_of(words, rule), kind)

    def _touch(self, words: Sequence[Word], kind: str) -> Part:
        """The effect on the files that words name: `last` writes the last and reads the others."""
        paths = [files.locate(word, self.cwd, self.where) for word in words]
        at = len(paths) - {"last": 1, "reads": 0}.get(kind, len(paths))
        reads = [files.read(path, self.where) for path in paths[:at] if path is not None]
        quiet = [replace(it, risk="safe") if it.risk == "unknown" else it for it in reads]
        return files.merge([*quiet, *(files.write(path, self.where) for path in paths[at:])])

    def _spares(self, words: tuple[Word, ...], rule: programs.Rule) -> bool:
        """Whether everything that it deletes is temporary or made again by a build."""
        operands = programs.operands_of(words, rule)
        paths = [files.locate(word, self.cwd, self.where) for word in operands]
        return bool(paths) and all(
            path and places.is_rebuildable(path, self.where) for path in paths
        )

    def _judge_redirect(self, item: Redirect, *, is_plain: bool) -> None:
        operator, target = item.operator, item.target
        if is_plain and re.sub(r"[ \t]", "", item.text) in _CLOSED_REDIRECTS:
            return
        self.is_closed = False
        self.is_known = self.is_known and target.kind == "literal"
        to_descriptor = operator in (">&", "<&") and re.fullmatch(r"[0-9]+-?|-", target.text)
        if to_descriptor or target.text in _OWN_STREAMS:
            return
        path = files.locate(target, self.cwd, self.where)
        effect = (files.read if operator == "<" else files.write)(path, self.where)
        reason = effect.reason or f"reads {target.text}"
        part = replace(effect, text=_clip(item.text), reason=reason)
        if target.text.startswith(("/dev/tcp/", "/dev/udp/")):
            reason = "opens a connection to another machine"
            leaves = _stay_on_loopback("host", target.text.replace("/", " "))
            part = replace(part, risk="network", reason=reason, leaves=leaves)
        self.parts.append(part if is_plain else _at_least_unknown(part))

    def _change_folder(self, item: Command, *, is_plain: bool) -> bool:
        """Handles a `cd`: the folder is known only after `cd DIR &&`, while only `&&` and `|`
        follow. True if the command needs no other check."""
        if self.has_moved and item.before not in ("&&", "|"):
            self.cwd = None
        name = item.words[0].text if item.words else ""
        if name not in ("cd", "pushd", "popd"):
            return False
        before, self.cwd, self.has_moved = self.cwd, None, True
        if name != "cd" or not is_plain or len(item.words) != 2:
            return False
        path = files.locate(item.words[1], before, self.where)
        if path is None or ".." in path.split("/") or item.words[1].text.startswith("-"):
            return False
        if item.before in ("", ";", "&&") and item.behind == "&&":
            self.cwd = path
        if places.find_place(path, self.where) != "root":
            return False
        argv = tuple(word.text for word in item.words)
        self.parts.append(Part(text=_clip(item.text), argv=argv, reason="changes the folder"))
        return True

    def finish(self) -> list[Part]:
        """The parts, with those marked that run what another machine sends."""
        if not any(part.risk == "network" for part in self.parts):
            return self.parts
        for at in self.run_input.intersection(range(len(self.parts))):
            self.parts[at] = replace(
                self.parts[at],
                risk="destructive",
                reason="runs what another machine sends",
                undo="Its effect cannot be predicted.",
                offer=(),
            )
        return self.parts


def _runs_input(words: tuple[Word, ...]) -> bool:
    """Whether a command runs a program that it reads from its input or downloads."""
    name = os.path.basename(words[0].text)
    if name in ("source", ".", "eval"):
        return any(word.kind == "open" for word in words[1:])
    if name not in programs.names("offers", "interpreters"):
        return False
    operands = [w for w in words[1:] if w.kind == "open" or not w.text.startswith("-")]
    return not operands or operands[0].kind == "open" or operands[0].text == "/dev/stdin"


def _stay_on_loopback(leaves: Leaves, text: str) -> Leaves:
    """What a command leaves for, unless its only host is the loopback: the sandbox has its own. A
    wrong guess costs a failed command, since there is no other network in it."""
    count = len(_LOOPBACK.findall(text))
    return "" if leaves == "host" and count and text.count("://") <= count else leaves


def _unknown(text: str, reason: str) -> Part:
    return Part(text=_clip(text), risk="unknown", reason=reason)


def _at_least_unknown(part: Part) -> Part:
    return replace(part, risk="unknown") if part.risk == "safe" else part


def _clip(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "..."


def _holds_controls(text: str) -> bool:
    return _CONTROL.search(text) is not None


def _hides(text: str) -> bool:
    """Whether it contains control, format or odd space characters, which a reader or a shell may
    misread."""
    return not text.translate({9: None, 10: None}).isprintable()

"""What would this command line do? It is parsed, and each of its parts judged.

A command line becomes its parts: pipes, lists, substitutions, here-documents, redirections,
functions, loops, `bash -c`, wrappers. Each has a class and a reason; the whole is the worst of
them. What cannot be parsed, or is not known to this module, is `unknown`, never `safe`.

This module walks the syntax tree; lists, branches, loops and functions are in `flow`, assignments
in `assignments`, redirections in `redirects`. What a word is, is `words`; what a command does is
`verbs` with its tables.
"""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kode.permissions import sensitive
from kode.permissions.shell import flow
from kode.permissions.shell.assignments import (
    ASSIGNED,
    assign,
    declare,
    follow,
    set_variable,
    splits_a_read,
)
from kode.permissions.shell.classes import ORDER, Classified, PartClass, part_of, whole
from kode.permissions.shell.judge import (
    Feed,
    Finding,
    Scene,
    safe,
    system,
    together,
    unknown,
)
from kode.permissions.shell.output import printed_by
from kode.permissions.shell.pipes import lists_names
from kode.permissions.shell.redirects import redirect
from kode.permissions.shell.state import ShellState
from kode.permissions.shell.syntax import (
    INERT,
    SEQUENCES,
    WORD_TYPES,
    descend,
    evaluates_text,
    hides,
    parser,
    prints_nothing,
    would_be_evaluated,
)
from kode.permissions.shell.verbs import judge, knows
from kode.permissions.shell.words import (
    FOUND,
    UNKNOWN,
    Word,
    source,
    words_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 6
"""Command lines within command lines; deeper ones are `unknown`."""

MAX_PARTS = 400
MAX_STEPS = 4_000
MAX_CHARS = 20_000


def classify(
    command: str,
    *,
    cwd: Path,
    roots: Sequence[Path],
    home: Path,
    protected: Sequence[Path] = (),
    temp: Sequence[Path] = (),
    readable: Sequence[Path] = (),
) -> Classified:
    """The class of a command line and of each of its parts. Never raises.

    `cwd` is where it would run, `roots` the folders of work (the first is usually `cwd`), `home`
    the user's home, `protected` folders that belong to kode, `temp` more temporary folders,
    `readable` what may be read of the protected ones. Only the file system's links and file sizes
    are looked at; nothing is run.
    """
    where = sensitive.ground(cwd, roots, home, protected, temp, readable)
    walk = Walk(where=where, depth=0)
    try:
        walk.text(command)
    except RecursionError:
        walk.note(command[:80], unknown("too deeply nested to judge"))
    return whole(walk.parts)


class Walk:
    """One pass over a command line. Variables, folder and functions change as it goes."""

    def __init__(self, *, where: sensitive.Ground, depth: int) -> None:
        self.where = where
        self.depth = depth
        self.state = ShellState(
            cwd=where.cwd,
            variables={
                "HOME": Word(where.home),
                "PWD": Word(where.cwd),
                "TMPDIR": Word("/tmp"),
            },
        )
        self.steps = [0]
        """Statements looked at so far, in inner command lines too: loops and calls repeat them."""
        self.calling: set[str] = set()
        """Functions whose bodies are being judged."""
        self.parts: list[PartClass] = []
        self.feed: Feed | None = None
        self.downloads = False

    def text(self, command: str) -> None:
        """Judges a whole text as a command line."""
        if self.depth > MAX_DEPTH or len(command) > MAX_CHARS:
            self.note(command[:80], _TOO_LONG)
            return
        if hides(command):
            self.note(command, unknown("holds characters that do not show"))
        # The grammar takes a line that begins with a backslash for a part of the line before it.
        plain = re.sub(r"\n[ \t]*(?:\\\n?[ \t]*)+", "\n", command)
        if plain != command:
            self.note(command, unknown("a line that begins with a backslash"))
            self.parts.extend(self.run_text(plain))
        joined = re.sub(r"(?<=\S)\\\n(?=\S)", "", command)
        if joined != command and not re.search(r"<<", command):
            # A word goes on behind a backslash at the end of its line; the grammar ends it there.
            self.parts.extend(self.run_text(joined))
        root = parser().parse(command.encode("utf-8", "replace")).root_node
        if root.has_error:
            self.note(command, unknown("cannot be parsed"))
        self.statement(root)

    # ── statements ───────────────────────────────────────────────────────────────────────────

    def statement(self, node: "Node") -> None:
        """Judges a statement and what is in it."""
        self.steps[0] += 1
        if len(self.parts) > MAX_PARTS or self.steps[0] > MAX_STEPS:
            if not self.parts or self.parts[-1].reason != _TOO_LONG.reason:
                self.note(source(node), _TOO_LONG)
            return
        match node.type:
            case "command":
                self._command(node)
            case "pipeline":
                self._pipeline(node)
            case "redirected_statement":
                self._redirected(node)
            case "list":
                flow.in_list(self, node)
            case "if_statement" | "case_statement":
                flow.in_branches(self, node)
            case "while_statement":
                flow.in_loop(self, lambda: flow.in_sequence(self, node))
            case "for_statement":
                flow.for_each(self, node)
            case "function_definition":
                flow.define(self, node)
            case "subshell":
                self._apart(node)
            case "declaration_command" | "unset_command":
                declare(self, node)
            case "variable_assignment":
                assign(self, node, alone=True)
            case "variable_assignments":
                for child in node.named_children:
                    assign(self, child, alone=True)
            case "test_command" | "c_style_for_statement":
                self._test(node)
            case kind if kind in SEQUENCES:
                flow.in_sequence(self, node)
            case kind if kind in WORD_TYPES:
                if evaluates_text(node):
                    self.note(source(node), unknown("text that may be evaluated"))
                self.nested(node)
            case kind if kind in INERT or kind.endswith("_redirect"):
                return
            case "binary_expression" | "unary_expression" | "parenthesized_expression":
                self._test(node)
            case "postfix_expression" | "ternary_expression" | "subscript":
                self._test(node)
            case _ if node.is_named:
                self.note(source(node), unknown("a form of command that is not known"))

    def _apart(self, node: "Node") -> None:
        """A subshell: what it changes is gone when it ends."""
        saved = self.state.copy()
        flow.in_sequence(self, node)
        self.state = saved

    def _pipeline(self, node: "Node") -> None:
        outer = self.feed
        begin, text = len(self.parts), self.feed.text if self.feed else None
        for index, child in enumerate(node.named_children):
            saved = self.state.copy()
            if index:
                parts = tuple(self.parts[begin:])
                self.feed = Feed(parts=parts, text=text, names=lists_names(parts))
            self.statement(child)
            text = printed_by(self, child, text)
            self.state = saved
        self.feed = outer

    def _redirected(self, node: "Node") -> None:
        body = node.child_by_field_name("body")
        if body is not None and body.type == "list":
            flow.in_list(self, node)
            return
        self.with_redirects(body, [child for child in node.named_children if child != body])

    def with_redirects(self, body: "Node | None", redirects: Sequence["Node"]) -> None:
        """A command with redirections; a list is not one command."""
        outer = self.feed
        for one in redirects:
            redirect(self, one, bare=body is None or prints_nothing(body))
        if body is not None:
            self.statement(body)
        self.feed = outer

    def _test(self, node: "Node") -> None:
        """`[`, `[[` and arithmetic: harmless but for what is substituted or evaluated in them."""
        evaluates = node.type != "test_command" or re.search(r"-v|-[engl][qetE]\b", source(node))
        for descendant in descend(node):
            if evaluates and evaluates_text(descendant):
                self.note(source(node), unknown("text that may be evaluated"))
        for child in node.named_children:
            if child.type in ("do_group", "compound_statement") and node.type.startswith("c_"):
                flow.in_loop(self, functools.partial(self.statement, child))
            else:
                self.nested(child)
        if node.type != "test_command" or source(node).startswith("(("):
            for name in ASSIGNED.findall(source(node)):
                set_variable(self, name, None)
        self.add(safe("a test"), source(node), [Word("test")])

    # ── commands ─────────────────────────────────────────────────────────────────────────────

    def _command(self, node: "Node") -> None:
        outer, begin = (self.feed, self.downloads), len(self.parts)
        if any(child.type == "regex" or source(child) == "=~" for child in node.children):
            # After `=~` the grammar reads an expression, operators and line ends too.
            self.note(source(node), unknown("a word that cannot be told from an expression"))
            self.parts.extend(self.run_text(source(node).replace("=~", "=")))
        name = node.child_by_field_name("name")
        for child in node.named_children:
            if child.type == "variable_assignment":
                if not splits_a_read(child, name):
                    assign(self, child, alone=False)
            elif child.type.endswith("_redirect"):
                redirect(self, child, bare=False)
            else:
                self.nested(child)
        self.downloads = any(part.klass == "network" for part in self.parts[begin:])
        words = self.words(node)
        found = self._judged(words)
        if any(FOUND in word.text for word in words) and any(FOUND in path for path in found.reads):
            found = together(found, unknown("what it reads is not known beforehand"))
        if found.klass in ("safe", "write") and self._shows_secret(node):
            found = replace(system("shows a variable that may hold a key"), secret=True)
        self.add(found, source(node), words)
        follow(self, words)
        self.feed, self.downloads = outer

    def _shows_secret(self, node: "Node") -> bool:
        names = re.findall(r"\$\{?!?([A-Za-z_]\w*)", source(node))
        return any(_SECRET_VARIABLE.search(n) and n not in self.state.variables for n in names)

    def words(self, node: "Node") -> list[Word]:
        out: list[Word] = []
        for child in node.children:
            if child.type == "variable_assignment" or child.type.endswith("_redirect"):
                continue
            out += self.expand(child)
        return out

    def expand(self, node: "Node") -> list[Word]:
        if not node.is_named and node.type not in ("word",):
            return [Word(source(node))]
        return words_of(node, self.state.variables, self.where.home)

    def _judged(self, words: list[Word]) -> Finding:
        if not words:
            return unknown("no command is left when its words are known")
        if words[0].known and words[0].text in self.state.functions:
            flow.call(self, words[0].text)
            if not knows(words[0].text):
                return safe("a function defined here, judged by what it runs")
        return self.worst(lambda scene: judge(words, scene))

    def worst(self, judged: Callable[[Scene], Finding]) -> Finding:
        """The worst of what something would do in each folder it may run in."""
        scene = self.scene()
        found = [judged(scene)]
        found += [judged(replace(scene, cwd=folder)) for folder in self.state.instead]
        return max(found, key=lambda one: ORDER.index(one.klass))

    # ── what is inside words ─────────────────────────────────────────────────────────────────

    def nested(self, node: "Node") -> None:
        """Judges the substitutions inside a word, however deep."""
        if node.type in ("command_substitution", "process_substitution"):
            outer, self.feed = self.feed, None
            begin = len(self.parts)
            self._apart_of_substitution(node)
            self.feed = outer
            inside = node.named_children
            if node.type == "command_substitution" and len(inside) == 1:
                text = printed_by(self, inside[0], "")
                if text is None:
                    text = " ".join(lists_names(self.parts[begin:])) or None
                self.state.variables[source(node)] = (
                    None if text is None else Word(text.rstrip("\n"))
                )
            return
        if would_be_evaluated(node):
            self.note(source(node), unknown("text that would be evaluated as a subscript"))
        given = re.match(r"\$\{(\w+):?=", source(node)) if node.type == "expansion" else None
        if given is not None:
            set_variable(self, given[1], None)
        if node.type == "expansion" and re.match(
            r"\$\{!(?!\w+(?:[*@]|\[[*@]\])\})|\$\{[^}]*@[A-Za-z]\}", source(node)
        ):
            self.note(source(node), unknown("a variable whose value is evaluated"))
        if not node.named_children:
            self._overlooked(node)
            return
        for child in node.named_children:
            self.nested(child)

    def _overlooked(self, node: "Node") -> None:
        """The grammar leaves some substitutions inside `${...}` in the text of a word."""
        if node.type in ("raw_string", "ansi_c_string", "comment", "heredoc_content"):
            return
        text = source(node)
        if re.search(r"(?<!\\)(?:`|\$\(|[<>]\()", text) and node.type != "string_content":
            self.note(text, unknown("a substitution in an odd place"))
            self.parts.extend(self.run_text(f"echo {text}"))

    def _apart_of_substitution(self, node: "Node") -> None:
        saved = self.state.copy()
        redirects = [child for child in node.named_children if child.type.endswith("_redirect")]
        for one in redirects:
            redirect(self, one, bare=False)
        flow.in_sequence(self, node)
        self.state = saved

    # ── results ──────────────────────────────────────────────────────────────────────────────

    def scene(self) -> Scene:
        return Scene(
            where=self.where,
            cwd=self.state.cwd,
            feed=self.feed,
            downloads=self.downloads,
            run_text=self.run_text,
            run_words=self._run_words,
        )

    def _inner(self) -> "Walk":
        inner = Walk(where=self.where, depth=self.depth + 1)
        inner.state = self.state.copy()
        inner.steps = self.steps
        inner.state.functions = {}  # `command`, `env` and the like look for a program
        return inner

    def run_text(self, text: str) -> tuple[PartClass, ...]:
        inner = self._inner()
        inner.text(text)
        return tuple(inner.parts)

    def _run_words(self, words: list[Word]) -> tuple[PartClass, ...]:
        inner = self._inner()
        inner.feed, inner.downloads = self.feed, self.downloads
        if inner.depth > MAX_DEPTH:
            inner.note("...", unknown("too deeply nested to judge"))
        else:
            shown = " ".join(word.text for word in words)
            inner.add(inner._judged(words), shown, words)
        return tuple(inner.parts)

    def note(self, text: str, finding: Finding) -> None:
        """A part that is no command."""
        self.add(finding, text, None)

    def add(self, finding: Finding, text: str, words: list[Word] | None) -> None:
        argv = None
        if words and words[0].known and not words[0].glob and words[0].text:
            argv = tuple(word.text for word in words)
        self.parts.append(part_of(finding, _shown(text), argv))
        self.parts.extend(finding.more)


_TOO_LONG = unknown("too long or too deeply nested to judge")


def _shown(text: str) -> str:
    text = text.replace(UNKNOWN, "…").replace(FOUND, "{}")
    return text if len(text) <= 400 else text[:399] + "…"


_SECRET_VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|_PASS|_PWD|_AUTH|_DSN", re.I)

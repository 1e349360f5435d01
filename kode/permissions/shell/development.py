"""What running the project's own code would do: tests, linters, type checkers, builds.

Which arguments make it more than that, and which words of a program's text mean a loss.
"""

import itertools
import os
import re

from kode.permissions import sensitive
from kode.permissions.shell import table
from kode.permissions.shell.judge import Finding, Scene, destructive, development, together, unknown
from kode.permissions.shell.options import option_values
from kode.permissions.shell.paths import absolute, deletes_path, would_lose
from kode.permissions.shell.words import Word


def development_tool(words: list[Word], scene: Scene) -> Finding:
    """A test runner, linter, type checker or build: the project's own code runs."""
    return guarded(words[1:], scene)


def guarded(arguments: list[Word], scene: Scene) -> Finding:
    """Development, unless the arguments point outside the project or mean more than a build."""
    lost = losing(arguments)
    if lost is not None:
        return lost
    emptied = option_values(arguments, ("--basetemp",))
    if emptied:
        return together(development(), *(deletes_path(word, scene) for word in emptied))
    if scene.cwd is None or sensitive.place(scene.cwd, scene.where) not in ("root", "temp"):
        return unknown("works outside the project")
    if any(_replaces(word, scene) for word in _outputs(arguments)):
        return unknown("writes over what is there")
    for word in arguments:
        text = word.text.lower()
        steps = re.split(r"[:/_.-]", text) if not text.startswith("-") else []
        if table.NEVER_DEVELOPMENT & set(steps) and "/" not in text and "." not in text:
            return unknown("does more than build or test")
        if not word.known:
            return unknown("arguments are not known beforehand")
        value = word.text.split("=", 1)[1] if "=" in word.text else word.text
        if value.startswith(("/", "~", "../")) or "/../" in value:
            path = absolute(Word(value), scene)
            if path is None or sensitive.place(path, scene.where) not in ("root", "temp"):
                return unknown("works outside the project")
        if text.startswith("--") and "install" in text:
            return unknown("installs packages")
        if re.search(r"[;|&`$]", word.text):
            return unknown("text that may be run")
    return development()


_OUTPUT = re.compile(
    r"-o|--?(?:[\w-]+-)?(?:out(?:put)?|junit|junitxml|log-?file|report|target)"
    r"(?:[-_]?(?:dir|directory|path|file|xml|html))?|--(?:outDir|outFile|destination|dest|site-dir)"
    r"|--coverage-?[dD]irectory|--log-junit"
)


def _outputs(arguments: list[Word]) -> list[Word]:
    """The files and folders that options name for what a tool makes."""
    out = []
    for word, following in itertools.pairwise([*arguments, Word("-")]):
        name, equals, value = word.text.partition("=")
        if _OUTPUT.fullmatch(name):
            out.append(Word(value) if equals else following)
    return out


def _replaces(word: Word, scene: Scene) -> bool:
    path = absolute(word, scene)
    if path is None or word.text.startswith("-"):
        return False
    full_folder = os.path.isdir(path) and bool(os.listdir(path))
    rebuilt = sensitive.is_rebuildable(path, scene.where)
    return would_lose(path, scene) or (full_folder and not rebuilt)


def losing(words: list[Word]) -> Finding | None:
    text = " ".join(word.text for word in words)
    if re.search(table.LOSING_WORDS, text, re.IGNORECASE):
        return destructive("its program text deletes, or runs a shell")
    return None

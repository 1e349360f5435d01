"""What interpreters of programming languages would do: with a file, a text, a module."""

import os
import re
import sys

from kode.permissions.shell import table
from kode.permissions.shell.development import guarded, losing
from kode.permissions.shell.judge import (
    Finding,
    Scene,
    destructive,
    development,
    network,
    safe,
    system,
    together,
    unknown,
    with_more,
    write,
)
from kode.permissions.shell.options import has_option, option_values, positionals
from kode.permissions.shell.packages import pip
from kode.permissions.shell.paths import deletes_path, reads_path, writes_path
from kode.permissions.shell.words import Word
from kode.permissions.shell.wrappers import interpreter_input


def python(words: list[Word], scene: Scene) -> Finding:
    rest = words[1:]
    while rest and re.fullmatch(r"-[BEIOsSuvqxbPd]+|-[WX].*", rest[0].text):
        rest = rest[2:] if rest[0].text in ("-W", "-X") else rest[1:]
    if not rest:
        return interpreter_input(scene) or unknown("an interpreter of its own")
    if rest[0].text in ("--version", "-V", "-VV", "--help", "-h"):
        return safe("prints its version or help")
    if rest[0].text == "-m" and len(rest) > 1:
        return _python_module(rest[1], rest[2:], scene)
    if rest[0].text == "-":
        return interpreter_input(scene) or unknown("runs what comes in")
    return interpreter(words, scene)


def _python_module(module: Word, rest: list[Word], scene: Scene) -> Finding:
    match module.text:
        case "pip" | "pip3":
            found = pip([Word("pip"), *rest], scene)
            return together(found, _shadowed(scene)) if found.klass == "safe" else found
        case "json.tool" if _shadowed(scene).klass == "safe":
            given = positionals(rest, ("--indent",))
            return together(
                safe("prints"),
                *(reads_path(w, scene) for w in given[:1]),
                *(writes_path(w, scene, replaces=True) for w in given[1:]),
            )
        case "venv" | "virtualenv":
            targets = positionals(rest, ("--prompt",))
            if has_option(rest, "--clear"):
                return together(write(), *(deletes_path(w, scene) for w in targets))
            return together(
                write("makes an environment"), *(writes_path(w, scene) for w in targets)
            )
        case "http.server":
            served = option_values(rest, ("--directory", "-d"))
            inside = all(reads_path(w, scene).klass == "safe" for w in served)
            return (
                network("serves files to other machines")
                if inside
                else system("serves files outside the project to other machines")
            )
        case "ruff" | "black" | "isort":
            return with_more(safe("runs a module"), scene.run_words([module, *rest]))
        case name if name in table.DEVELOPMENT or name in (
            "build",
            "doctest",
            "compileall",
            "py_compile",
            "mypy",
            "pyright",
        ):
            return guarded(rest, scene)
    return unknown("runs a module")


def _shadowed(scene: Scene) -> Finding:
    """With `-m`, Python looks for every module in the current folder first."""
    try:
        names = {name.removesuffix(".py") for name in os.listdir(scene.cwd or "/")}
    except OSError:
        return safe()
    if scene.cwd is None or names & sys.stdlib_module_names - {"test"}:
        return development("the folder may hold modules that stand for Python's own")
    return safe()


def interpreter(words: list[Word], scene: Scene) -> Finding:
    rest = words[1:]
    if scene.downloads:
        return destructive("runs what it just downloaded")
    lost = (
        losing(rest)
        if any(
            re.match(r"-[a-zA-Z]*[ceEr]", w.text) or w.text in ("--eval", "--print", "eval")
            for w in rest
        )
        else None
    )
    if lost:
        return lost
    if not positionals(rest):
        piped = interpreter_input(scene)
        if piped and not rest:
            return piped
    if (
        scene.feed is not None
        and any(part.klass == "network" for part in scene.feed.parts)
        and (not rest or rest[-1].text in ("-", "/dev/stdin"))
    ):
        return destructive("runs what it just downloaded")
    leaks = [read for w in rest if (read := reads_path(w, scene)).secret]
    return together(unknown("an interpreter, which may do anything"), *leaks)


def node(words: list[Word], scene: Scene) -> Finding:
    if len(words) > 1 and words[1].text == "--test":
        return guarded(words[2:], scene)
    if len(words) == 2 and words[1].text in ("-v", "--version"):
        return safe("prints its version")
    return interpreter(words, scene)


def deno(words: list[Word], scene: Scene) -> Finding:
    match words[1].text if len(words) > 1 else "":
        case "test" | "lint" | "check" | "bench":
            return guarded(words[2:], scene)
        case "fmt":
            return write("formats files")
        case "install" | "add" | "cache":
            return network("installs packages")
    return interpreter(words, scene)

"""What searches through the contents of files would do: `grep`, `rg`, `ag` and their like."""

import re

from kode.permissions.shell import table
from kode.permissions.shell.judge import (
    Finding,
    Scene,
    safe,
    together,
    unknown,
)
from kode.permissions.shell.options import has_option, option_values, positionals
from kode.permissions.shell.paths import (
    reads_path,
    sweeps_below,
)
from kode.permissions.shell.words import FOUND, Word


def option_files(words: list[Word], scene: Scene) -> list[Finding]:
    """Secrets and unknown pieces in options."""
    found = []
    for word in words:
        if not word.text.startswith("-") or word.text.startswith("--exclude"):
            continue
        if not word.known:
            found.append(unknown("options are not known beforehand"))
        value = word.text.split("=", 1)[1] if "=" in word.text else word.text[2:]
        if value and reads_path(Word(value), scene).secret:
            found.append(reads_path(Word(value), scene))
    return found


def pattern_reader(name: str, arguments: list[Word], scene: Scene) -> Finding:
    """A program that is given a pattern, then files."""
    values = table.SEARCH_VALUE_OPTIONS.get(name, table.SEARCH_VALUE_OPTIONS["grep"])
    given = positionals(arguments, values.split())
    if not has_option(arguments, "--regexp", "--file") and not any(
        re.match(r"-[a-zA-Z]*[ef]", w.text) for w in arguments
    ):
        given = given[1:]
    files = option_values(arguments, ("--file", "--ignore-file"))
    found = [reads_path(word, scene) for word in (*given, *files)]
    short = [
        w
        for i, w in enumerate(arguments)
        if i and re.fullmatch(r"-[a-zA-Z]*f", arguments[i - 1].text)
    ]
    found += [reads_path(w, scene) for w in short]
    listed = option_values(arguments, ("--glob", "--iglob", "--include", "-g"))
    found += [reads_path(w, scene) for w in listed if not w.text.startswith("!")]
    return together(safe("searches"), *found, *option_files(arguments, scene))


def _searched_folders(finding: Finding) -> list[Word]:
    """What a search was given to read; the current folder when that is nothing."""
    return [Word(path) for path in finding.reads if FOUND not in path]


def sweeping(finding: Finding, arguments: list[Word], scene: Scene, *, kind: str) -> Finding:
    """What a search below folders reads: `grep` all, `rg` what is neither hidden nor ignored."""
    named = [
        w.text
        for w in option_values(arguments, ("--include", "--glob", "--iglob"))
        + (option_values(arguments, ("-g",)) if kind != "grep" else [])
    ]
    left_out = [w.text for w in option_values(arguments, ("--exclude", "--exclude-dir"))]
    if any("/" in name for name in named):
        named = []
    everything = has_option(arguments, "--unrestricted", "-u", "--no-ignore") and kind != "grep"
    twice = any(re.fullmatch(r"-\w*u\w*u\w*", w.text) for w in arguments) or (
        sum(w.text in ("-u", "--unrestricted") for w in arguments) > 1
    )
    hidden = kind == "grep" or twice or has_option(arguments, "--hidden", "-.")
    return together(
        finding,
        sweeps_below(
            _searched_folders(finding),
            scene,
            names=[name for name in named if not name.startswith("!")] or [""],
            hidden=hidden,
            ignored=kind == "grep" or everything,
            without=[*left_out, *(name[1:] for name in named if name.startswith("!"))],
        ),
    )


def grep(words: list[Word], scene: Scene) -> Finding:
    found = pattern_reader("grep", words[1:], scene)
    deep = any(
        re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--recursive|--dereference-recursive", w.text)
        or w.text in ("--directories=recurse", "-drecurse")
        for w in words[1:]
    )
    fed = scene.feed is not None and not found.reads
    return sweeping(found, words[1:], scene, kind="grep") if deep and not fed else found


def rg(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "--pre", "--pre-glob", "--hostname-bin", "--search-zip", "-z"):
        return unknown("runs a program for each file")
    # Whole words: `rg` takes no beginnings, and `--type` is no `--type-list`.
    if {"--files", "--type-list", "--version", "--help"} & {w.text for w in words[1:]}:
        given = positionals(words[1:], ("-g", "--glob", "-t", "--type", "--iglob", "-T"))
        return together(
            safe("lists files"), *(reads_path(w, scene, names_only=True) for w in given)
        )
    found = pattern_reader("rg", words[1:], scene)
    if scene.feed is not None and not found.reads:
        return found
    return sweeping(found, words[1:], scene, kind="rg")

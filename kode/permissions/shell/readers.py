"""What commands that read would do: some of their options write or run.

Searches are in `search` and `find`, filters in `filters`, writers in
`writers`.
"""

import re

from kode.permissions.shell import table
from kode.permissions.shell.judge import (
    Finding,
    Scene,
    network,
    safe,
    system,
    together,
    unknown,
    with_more,
)
from kode.permissions.shell.options import has_flag, has_option, option_values, positionals
from kode.permissions.shell.paths import (
    absolute,
    reads_path,
    sweeps_below,
    writes_path,
)
from kode.permissions.shell.search import option_files, pattern_reader, sweeping
from kode.permissions.shell.words import FOUND, Word

_LOADS_CODE = re.compile(
    r"--(?:\w+-)*(?:exec|execute|command|pager|plugins?|load|script|hook|viewer|editor|browser"
    r"|engine|filters?|ruleset|interpreter|library-path|require|rcfile|rc|init-file|startup"
    r"|extension|catalogs?|config-file)(?:-(?:dir|path|file|program|cmd|settings))?(?:=.*)?"
)
_WRITES = re.compile(
    r"--(?:in-?place|write|save|rm|remove|delete|trace|out-?file|output|(?:report|log|output)-?file)(?:=.*)?"
)


def loads_code(words: list[Word]) -> bool:
    """Whether a long option names code to run, whatever the program."""
    return any(_LOADS_CODE.fullmatch(w.text) for w in words[1:])


def _does_more(words: list[Word], name: str) -> bool:
    """Whether options make more of a program that is known to read and print."""
    plain = table.READER_OPTIONS.get(name)
    if plain is not None and not all(_is_plain_option(word, plain) for word in words[1:]):
        return True
    dangers = table.READER_DANGERS.get(name, "").split()
    if dangers and has_option(words[1:], *dangers):
        return True
    return loads_code(words) or any(_WRITES.fullmatch(w.text) for w in words[1:])


def _is_plain_option(word: Word, plain: str) -> bool:
    """Whether a word is no option, or one of those: the letters of the first word of `plain`, or
    the names in the rest of it, without their dashes."""
    letters, *names = plain.split()
    if not word.text.startswith("-") or word.text == "-":
        return True
    name = word.text.lstrip("-").split("=", 1)[0]
    if word.text.startswith("--") or len(name) > 1:
        return name in names or (
            word.text[1] != "-" and re.fullmatch(f"[{letters}]+\\d*", name) is not None
        )
    return name in letters


def printer(name: str, words: list[Word], scene: Scene) -> Finding:
    if _does_more(words, name):
        return unknown("an option that makes it run, write or read something else")
    if name == "shopt" and any(
        w.text not in table.PLAIN_SHOPT for w in words[1:] if not w.text.startswith("-")
    ):
        return unknown("changes how the shell reads commands")
    if name in ("umask", "ulimit") and any(re.search(r"\d|unlimited|=", w.text) for w in words[1:]):
        return unknown("changes limits of the shell")
    return safe("prints")


_RESPONSE_FILES = ("nm", "size", "objdump", "strings", "readelf")
"""What is behind an `@` holds options, which can load a plugin."""


def reader(name: str, words: list[Word], scene: Scene, *, names_only: bool) -> Finding:
    arguments = words[1:]
    if _does_more(words, name):
        return unknown("an option that makes it run, write or read something else")
    if any(re.match(r"\w+://", w.text) for w in arguments):
        return network("asks another machine")
    if name in _RESPONSE_FILES and any(w.text.startswith("@") for w in arguments):
        return unknown("takes its options from a file")
    takes_value = table.READER_VALUE_OPTIONS.get(name, "").split()
    if name in table.READER_PATTERN_FIRST:
        return pattern_reader(name, arguments, scene)
    found = [
        reads_path(word, scene, names_only=names_only)
        for word in positionals(arguments, takes_value)
    ]
    found += option_files(arguments, scene)
    if name in ("diff", "colordiff") and has_option(arguments, "-r", "--recursive"):
        given = [Word(path) for one in found for path in one.reads if FOUND not in path]
        found.append(sweeps_below(given, scene))
    return together(safe("prints"), *found)


def searcher(words: list[Word], scene: Scene) -> Finding:
    """ag, ack: like grep -r, unless they are fed."""
    name = words[0].text.rsplit("/", 1)[-1]
    found = reader(name, words, scene, names_only=False)
    if scene.feed is not None and not found.reads:
        return found
    return sweeping(found, words[1:], scene, kind="rg" if name == "ag" else "grep")


def tree(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-o", "--output", "--fromfile", "-R"):
        return unknown("writes its output somewhere")
    given = positionals(words[1:], ("-L", "-I", "-P", "-H", "-T", "--filelimit", "--charset"))
    return together(safe("lists"), *(reads_path(w, scene, names_only=True) for w in given))


def file_kinds(words: list[Word], scene: Scene) -> Finding:
    if has_option(
        words[1:],
        "-d",
        "--debug",
        "-C",
        "--compile",
        "-m",
        "--magic-file",
        "-S",
        "-f",
        "--files-from",
        "-z",
        "-Z",
    ):
        return unknown("reads or writes something else")
    return together(
        safe("looks at kinds of files"),
        *(
            reads_path(w, scene, names_only=True)
            for w in positionals(words[1:], ("-F", "-e", "-P"))
        ),
    )


def sort(words: list[Word], scene: Scene) -> Finding:
    arguments = words[1:]
    if has_option(arguments, "--compress-program", "--files0-from"):
        return unknown("runs a program, or reads files that are not named")
    found = [
        reads_path(w, scene)
        for w in positionals(
            arguments, ("-k", "-t", "-o", "-S", "-T", "--key", "--output", "--parallel")
        )
    ]
    inputs = {path for one in found for path in one.reads}
    for output in option_values(arguments, ("--output", "-o")):
        found.append(writes_path(output, scene, replaces=absolute(output, scene) not in inputs))
    return together(safe("sorts"), *found, *option_files(arguments, scene))


def uniq(words: list[Word], scene: Scene) -> Finding:
    given = positionals(words[1:], ("-f", "-s", "-w"))
    found = [reads_path(w, scene) for w in given[:1]]
    found += [writes_path(w, scene, replaces=True) for w in given[1:]]
    return together(safe("drops repeated lines"), *found)


def xxd(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-r", "-revert"):
        return unknown("writes a file from its dump")
    given = positionals(words[1:], ("-l", "-s", "-c", "-g", "-o", "-len", "-seek", "-cols"))
    found = [reads_path(w, scene) for w in given[:1]]
    found += [writes_path(w, scene, replaces=True) for w in given[1:]]
    return together(safe("dumps"), *found)


def date(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-s", "--set"):
        return system("sets the clock")
    given = positionals(words[1:], ("-d", "--date", "-r", "-f", "-v", "--reference", "--file"))
    if any(not w.text.startswith("+") for w in given) and not has_flag(words[1:], "-j"):
        return system("sets the clock") if any(w.known for w in given) else unknown("sets a date")
    # It prints every line that is no date.
    lists = option_values(words[1:], ("--file", "-f"))
    return together(safe("prints"), *(reads_path(w, scene) for w in lists))


def hostname(words: list[Word], scene: Scene) -> Finding:
    if positionals(words[1:]) or has_option(words[1:], "-F", "--file", "-b"):
        return system("sets the machine's name")
    return safe("prints")


def ps(words: list[Word], scene: Scene) -> Finding:
    given = positionals(
        words[1:], tuple("-C -u -U -o -O -p -t -g -G -s -q -k --sort --pid".split())
    )
    if any(re.fullmatch(r"[a-zA-Z]*e[a-zA-Z]*", w.text) for w in given) or has_option(
        words[1:], "-E"
    ):
        return system("shows the variables of processes")
    return safe("lists processes")


def top(words: list[Word], scene: Scene) -> Finding:
    if has_flag(words[1:], "-b", valued="nouUpdwEs"):
        return safe("lists processes")
    return unknown("a program with a screen of its own")


def arch(words: list[Word], scene: Scene) -> Finding:
    """Prints the machine's kind; on a Mac it runs a command, too."""
    return with_more(safe("prints"), scene.run_words(words[2:])) if words[2:] else safe("prints")


def echo(words: list[Word], scene: Scene) -> Finding:
    names = [w.text.partition("[")[2] for w in words[1:3] if words[0].text == "printf"]
    if any("$(" in name or "`" in name for name in names):
        return unknown("text that may be evaluated")
    return safe("prints")


def test(words: list[Word], scene: Scene) -> Finding:
    if any(re.search(r"\$\(|`|\[", w.text) for w in words[1:]):
        return unknown("text that may be evaluated")
    return safe("a test")


def less(words: list[Word], scene: Scene) -> Finding:
    read = [reads_path(w, scene) for w in positionals(words[1:])]
    return together(unknown("a pager, which can run programs"), *read)

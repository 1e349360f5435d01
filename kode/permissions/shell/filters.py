"""What filters with a program of their own would do: `sed`, `awk`, `jq`. The programs are judged in
`scripts`."""

import re

from kode.permissions.shell.judge import (
    Finding,
    Scene,
    destructive,
    safe,
    system,
    together,
    unknown,
    write,
)
from kode.permissions.shell.options import has_option, option_values, positionals
from kode.permissions.shell.paths import (
    reads_path,
    writes_path,
)
from kode.permissions.shell.scripts import awk_is_plain, jq_is_plain, sed_is_plain
from kode.permissions.shell.words import Word


def sed(words: list[Word], scene: Scene) -> Finding:
    arguments = words[1:]
    if has_option(arguments, "--file", "--sandbox-off") or any(
        re.fullmatch(r"-[nErsuz]*f.*", w.text) for w in arguments
    ):
        return unknown("a script from a file")
    scripts = option_values(arguments, ("--expression",))
    scripts += [
        arguments[i + 1]
        for i, w in enumerate(arguments[:-1])
        if re.fullmatch(r"-[nErsuz]*e", w.text)
    ]
    scripts += [Word(match[1]) for w in arguments if (match := _ATTACHED.match(w.text))]
    given = positionals(arguments, ("-e", "--expression", "-l", "-ne", "-Ee", "-re", "-nEe"))
    if not scripts:
        if not given:
            return safe("prints help")
        scripts, given = given[:1], given[1:]
    if any(not s.known or not sed_is_plain(s.text) for s in scripts):
        return unknown("a sed script that may run or write something")
    in_place = [w for w in arguments if re.match(r"-[nErsuz]*i|--i", w.text)]
    if any("/" in w.text for w in in_place):
        return unknown("keeps what was there in another folder")
    if in_place and any(re.fullmatch(r"\s*(?:1,\$|/\.\*/)?\s*d\s*", s.text) for s in scripts):
        return destructive("empties files")
    if in_place:
        return together(write("edits files in place"), *(writes_path(w, scene) for w in given))
    return together(safe("prints"), *(reads_path(w, scene) for w in given))


_ATTACHED = re.compile(r"-[nErsuz]*e(.+)", re.DOTALL)


def awk(words: list[Word], scene: Scene) -> Finding:
    arguments = words[1:]
    if has_option(
        arguments,
        "-f",
        "--file",
        "-i",
        "--include",
        "-l",
        "--load",
        "-E",
        "--exec",
        "-o",
        "--pretty-print",
        "-p",
        "--profile",
        "-d",
        "--dump-variables",
        "-e",
        "--source",
        "-D",
        "--debug",
        "-W",
    ):
        return unknown("a program from elsewhere")
    given = positionals(arguments, ("-F", "-v", "--field-separator", "--assign"))
    if not given:
        return safe("prints help")
    if not given[0].known or not awk_is_plain(given[0].text):
        return unknown("an awk program that may run or write something")
    files = [w for w in given[1:] if not re.match(r"[A-Za-z_]\w*=", w.text)]
    return together(safe("prints"), *(reads_path(w, scene) for w in files))


def jq(words: list[Word], scene: Scene) -> Finding:
    arguments = words[1:]
    if has_option(
        arguments, "--from-file", "-L", "--rawfile", "--slurpfile", "--library-path", "--expression"
    ) or any(re.fullmatch(r"-[a-zA-Z]*f", w.text) for w in arguments):
        return unknown("a filter or data from elsewhere")
    if has_option(arguments, "-i", "--inplace", "--in-place", "-s", "--split-exp") and (
        words[0].text.endswith(("yq", "tomlq"))
    ):
        files = [writes_path(w, scene) for w in positionals(arguments)[-1:]]
        return together(write("edits files in place"), *files)
    pairs = [w for w in arguments if w.text not in ("--arg", "--argjson")]
    given = positionals(pairs, ("--indent",))
    if any(w.text in ("--arg", "--argjson") for w in arguments):
        given = _without_named(arguments)
    if given and given[0].text in ("eval", "e", "eval-all", "ea"):
        given = given[1:]
    if given and (not given[0].known or not jq_is_plain(given[0].text)):
        return (
            system("a filter that reads variables or other files")
            if (given[0].known and re.search(r"env", given[0].text))
            else unknown("a filter that is not known beforehand")
        )
    # `yq -o json FILTER` has another word before the filter.
    if any(re.search(r"[(|$]|\benv\b", w.text) and not jq_is_plain(w.text) for w in given[1:]):
        return unknown("a filter that reads variables or other files")
    return together(safe("prints"), *(reads_path(w, scene) for w in given[1:]))


def _without_named(arguments: list[Word]) -> list[Word]:
    """jq's arguments without `--arg NAME VALUE`."""
    kept, rest = [], list(arguments)
    while rest:
        word = rest.pop(0)
        if word.text in ("--arg", "--argjson"):
            del rest[:2]
        elif not word.text.startswith("-"):
            kept.append(word)
    return kept

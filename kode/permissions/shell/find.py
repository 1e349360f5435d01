"""What `find` and `fd` would do: what they list, and what they do with what they find."""

import re
from collections.abc import Sequence
from dataclasses import replace

from kode.permissions.shell.judge import (
    Finding,
    Scene,
    destructive,
    safe,
    together,
    unknown,
    with_more,
    write,
)
from kode.permissions.shell.options import has_option, option_values, positionals
from kode.permissions.shell.paths import (
    absolute,
    deletes_path,
    reads_path,
    writes_path,
)
from kode.permissions.shell.words import FOUND, UNKNOWN, Word


def find(words: list[Word], scene: Scene) -> Finding:
    arguments = words[1:]
    starts: list[Word] = []
    rest = list(arguments)
    while rest and rest[0].text in ("-L", "-P", "-H", "-E", "-X", "-x", "-s"):
        rest.pop(0)
    while rest and not rest[0].text.startswith(("-", "(", "!", ")")):
        starts.append(rest.pop(0))
    found = safe("lists files")
    for start in starts:
        found = together(found, reads_path(start, scene, names_only=True))
    outside = any(not w.known or w.text.startswith(("/", "~", "..")) for w in starts)
    if outside and any(reads_path(Word("/x/" + w.text), scene).secret for w in rest):
        found = together(found, unknown("looks for files that hold keys"))
    folder = starts[0].text if starts else "."
    return together(found, *_find_actions(rest, starts or [Word(".")], folder, scene))


def _known(starts: list[Word], scene: Scene) -> tuple[str, ...]:
    """Where a search begins, as far as that is known."""
    paths = [absolute(start, scene) for start in starts]
    return tuple(p for p in paths if p and UNKNOWN not in p) or (scene.cwd or scene.where.cwd,)


def _find_actions(rest: list[Word], starts: list[Word], folder: str, scene: Scene) -> list[Finding]:
    found: list[Finding] = []
    names = found_names(rest)
    index = 0
    while index < len(rest):
        text = rest[index].text
        if not rest[index].known and not text.startswith("-"):
            found.append(unknown("conditions that are not known beforehand"))
        if text == "-delete":
            safe_places = all(
                deletes_path(Word(f"{start.text}/{FOUND}{name}", start.glob), scene).klass
                == "write"
                for start in starts
                for name in names
            )
            found.append(
                write("deletes what a build makes again")
                if safe_places
                else replace(destructive("deletes files"), discards=_known(starts, scene))
            )
        elif text in ("-fprint", "-fprint0", "-fls", "-fprintf") and index + 1 < len(rest):
            found.append(writes_path(rest[index + 1], scene, replaces=True))
        elif text == "-files0-from":
            found.append(unknown("starts from files that are not named"))
        elif text in ("-exec", "-execdir", "-ok", "-okdir"):
            end = index + 1
            while end < len(rest) and rest[end].text not in (";", "+"):
                end += 1
            command = _with_found(rest[index + 1 : end], folder, names)
            if command:
                found.append(
                    with_more(safe("runs a command for each file"), scene.run_words(command))
                )
            index = end
        index += 1
    return found


def _with_found(command: list[Word], folder: str, names: list[str]) -> list[Word]:
    """The words of a command that is run for each file, `{}` replaced by what was found."""
    out: list[Word] = []
    for word in command:
        if word.text == "{}":
            out += [Word(f"{folder}/{FOUND}{name}") for name in names]
        else:
            out.append(Word(word.text.replace("{}", f"{folder}/{FOUND}"), word.glob))
    return out


def found_names(conditions: Sequence[Word]) -> list[str]:
    """Globs for the names that `find` can come upon with some conditions; `""` for any name."""
    texts = [word.text for word in conditions]
    named = [
        texts[i + 1]
        for i, text in enumerate(texts[:-1])
        if text in ("-name", "-iname") and "/" not in texts[i + 1]
    ]
    if any(text in ("!", "-not", ",") for text in texts) or UNKNOWN in "".join(texts):
        return [""]
    if any(text in ("-o", "-or") for text in texts):
        grouped = texts.count("(") == 1 and texts.count(")") == 1
        inner = texts[texts.index("(") + 1 : texts.index(")")] if grouped else []
        every = {"-name", "-iname", "-o", "-or", *named}
        alone = grouped and set(inner) <= every and not {"-o", "-or"} & set(_outside(texts))
        return named if alone and named else [""]
    return named[:1] or [""]


def _outside(texts: list[str]) -> list[str]:
    return texts[: texts.index("(")] + texts[texts.index(")") :]


def fd(words: list[Word], scene: Scene) -> Finding:
    for index, word in enumerate(words):
        if word.text in ("-x", "-X", "--exec", "--exec-batch"):
            name = _fd_name(words[1:index])
            command = [Word(w.text.replace("{}", f"./{FOUND}{name}")) for w in words[index + 1 :]]
            if not any(FOUND in w.text for w in command):
                command.append(Word(f"./{FOUND}{name}"))
            return with_more(unknown("runs a command for each file"), scene.run_words(command))
    if has_option(words[1:], "-x", "-X", "--exec", "--exec-batch"):
        return unknown("runs a command for each file")
    return together(
        safe("lists files"),
        *(
            reads_path(w, scene, names_only=True)
            for w in positionals(words[1:], ("-e", "-t", "-d", "-E", "-g", "--type"))[1:]
        ),
    )


def _fd_name(options: list[Word]) -> str:
    """A glob for the names that `fd` comes upon; "" for any."""
    endings = option_values(options, ("--extension", "-e"))
    if len(endings) == 1:
        return f"*.{endings[0].text.lstrip('.')}"
    given = positionals(options, ("-e", "-t", "-d", "-E", "-g", "--type", "--extension"))
    plain = given[0].text.replace("\\.", ".").strip("^$") if given else ""
    return plain if re.fullmatch(r"[\w.-]*", plain) and plain.startswith(".") else ""

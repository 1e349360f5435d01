"""What kode knows about programs: `programs.toml`, read at first use and looked up by words.

It answers three questions. Which files does this command, every word of it literal, read if it does
nothing else (`files_of_reader`, exact tables, else None)? What does this command do by its name
(`find_rule`)? And which other command does it run (`inner_commands`, by exact tables of options)?
"""

import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase, translate
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kode.permissions.rules import strip_system_folder
from kode.permissions.shell.parse import Word

Risk = Literal["safe", "write", "network", "unknown", "system", "destructive"]
"""What a command would do, from harmless to worst.

`safe` reads the project and prints. `write` changes files in the working folders or the temporary
folder. `network` talks to other machines. `unknown` could do anything. `system` changes the
machine, writes what runs later, or reads keys. `destructive` loses what cannot be restored.
"""

Leaves = Literal["", "kode", "keys", "push", "host", "machine", "place"]
"""What a command needs that the sandbox does not offer: kode's own folders to write in; files with
keys; a repository to push to; another host; the machine's own programs, accounts, settings or
sockets; a place outside the project and the private `/tmp`. Empty if it needs none of these: then
it can run in the sandbox, and its changes are judged afterwards."""

GRAVITY: tuple[Risk, ...] = ("safe", "unknown", "write", "network", "system", "destructive")
"""Which of several risks of one command counts: what it does by its name outweighs that it runs a
program, or an unknown file."""

_RISKS: dict[str, tuple[Risk, Leaves]] = {
    "changes": ("write", ""),
    "sends": ("network", "host"),
    "destroys": ("destructive", ""),
    "system": ("system", "machine"),
    "checks": ("unknown", ""),
    "runs": ("unknown", ""),
}
"""A section of `programs.toml` → the risk of its rules, and their `leaves` if they name none."""

_TEXT_OPTIONS = ("-e", "-f", "--regexp", "--expression", "--file", "--from-file")
"""With one of these, no operand is a pattern or a program's text."""

_ABOUT_ITSELF = frozenset({"--version", "--help", "-h", "--collect-only", "--co", "--dry-run"})
"""With one of these a program does not check anything."""

Options = Mapping[str, str]
"""An option with its dashes → "" for a flag; `=` if it takes a value, `<` a value that is a file,
`?` an optional value."""


class ProgramRule(NamedTuple):
    """What a program does: a row of `programs.toml`, whose fields begin at `reason`."""

    section: str
    words: str
    """The words that a command begins with, `|` between choices."""
    risk: Risk
    reason: str
    leaves: Leaves = ""
    needs: str = ""
    unless: str = ""
    operands: str = ""
    values: str = ""
    spares: bool = False
    undo: str = ""


class Inner(NamedTuple):
    """What a program runs: words, or a shell text."""

    words: tuple[Word, ...] = ()
    text: str = ""
    transparent: bool = False
    """Whether the program runs exactly this: it sets no variable and adds no word."""
    system: str = ""
    """What the wrapper itself does to the machine."""


def files_of_reader(words: Sequence[str]) -> tuple[str, ...] | None:
    """The files that a command reads if it does nothing but read and print; None for any other, or
    if a word is not understood."""
    is_installed = words[0].startswith(("/usr/local/", "/opt/"))  # installed by hand: it may differ
    name = words[0] if is_installed else strip_system_folder(words[0])
    key = next((it for it in ((name, *words[1:2]), (name,)) if it in reading_programs()), None)
    if key is None or reading_programs()[key].get("style") == "text":
        return None if key is None else ()
    row = reading_programs()[key]
    is_exact = row.get("style") == "exact"
    accepted = _parse_options(row.get("options", ""), is_exact)
    options, operands, files = set[str](), list[str](), list[str]()
    left = list(reversed(words[len(key) :]))
    while left:  # as every getopt does it: no abbreviations, no option after an operand
        word = left.pop()
        if word == "--" and not is_exact:
            operands += reversed(left)
            break
        if not word.startswith("-") or word == "-":
            operands.append(word)
            continue
        option = _take_option(word, left, accepted, is_exact)
        if option is None or (operands and not is_exact):
            return None
        letters, value = option
        options.update(letters)
        if value is not None and accepted[letters[-1]] == "<":
            files.append(value)
    kind = row.get("operands", "paths")
    has_text = kind == "text paths" and options.isdisjoint(row.get("instead", "").split())
    if (
        len(operands) > (0 if kind == "none" else row.get("most", len(operands)))
        or ("last" in row and operands[-1:] != [row["last"]])
        or ("first" in row and operands and not re.fullmatch(row["first"].strip(), operands[0]))
        or (has_text and not operands)
    ):
        return None
    del operands[:has_text]
    return (*files, *operands) if kind.endswith("paths") else tuple(files)


def _take_option(
    word: str, left: list[str], options: Options, is_exact: bool = False
) -> tuple[list[str], str | None] | None:
    """The options in a word, and the value of the last of them, which may be the next word, then
    taken from `left`. `is_exact`: options are whole words, without clusters, `=` and `--`. None if
    the word is not understood."""
    if word in options:
        takes_value = options[word] in ("=", "<")
        if takes_value and not left:
            return None
        return [word], left.pop() if takes_value else None
    if is_exact:
        return None
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return ([name], value) if equals and options.get(name) else None
    if re.fullmatch(r"-[0-9]+", word) and "-NUM" in options:
        return ["-NUM"], None
    letters = []
    for index, letter in enumerate(word[1:], start=2):
        letters.append(f"-{letter}")
        kind = options.get(letters[-1])
        if kind is None:
            return None
        if kind == "?":
            break
        if kind:
            attached = word[index:]
            return (letters, attached or left.pop()) if attached or left else None
    return letters, None


def find_rule(words: Sequence[Word]) -> ProgramRule | None:
    """The gravest rule that a command matches. Options match generously: in clusters, abbreviated,
    after values."""
    name = os.path.basename(words[0].text)
    if name.startswith("python") and len(words) > 2 and words[1].text == "-m":
        return find_rule(words[2:])  # `python3 -m pip` is pip
    subs = [words[index].text for index in subcommand_at(words)]
    versionless = re.sub(r"(?<=[a-z])[0-9.]+$", "", name)
    keys = dict.fromkeys((words[0].text, name, versionless))
    about = [rule for key in keys for rule in rules().get(key, ())]
    about += [rule for rule in rules()[""] if _is_one_of(name, rule.words.partition(" ")[0])]
    for rule in sorted(about, key=lambda rule: -GRAVITY.index(rule.risk)):
        later = rule.words.split()[1:]
        if len(subs) < len(later) or not all(map(_is_one_of, subs, later)):
            continue
        others = [word.text for word in words[1:] if word.kind != "open"]
        for sub in subs[: len(later)]:
            others.remove(sub)
        is_needed = not rule.needs or _has_option(others, rule.needs.split())
        if is_needed and not _has_option(others, rule.unless.split(), abbreviated=False):
            return rule
    return None


def subcommand_at(words: Sequence[Word]) -> list[int]:
    """The indices of the first three words that are not options of the program itself."""
    takes = _read_table()["globals"].get(os.path.basename(words[0].text), "").split()
    positions: list[int] = []
    indices = iter(range(1, len(words)))
    for index in indices:
        word = words[index]
        if word.text in takes and word.kind == "literal" and not positions:
            next(indices, None)
        elif word.kind == "open" or len(positions) == 3:
            break
        elif not word.text.startswith(("-", "+")):
            positions.append(index)
    return positions


def is_check(words: Sequence[Word]) -> bool:
    """Whether the exit status of a command says whether the project passed."""
    if not words or words[0].kind != "literal":
        return False
    if inner := inner_commands(words):
        return any(is_check(it.words) for it in inner)
    if (rule := find_rule(words)) is None or rule.section != "checks":
        return False
    return not any(word.text in _ABOUT_ITSELF for word in words)


def is_answer(words: Sequence[Word]) -> bool:
    """Whether exit status 1 of a command is an answer: no hit, or a difference."""
    if not words or words[0].kind != "literal":
        return False
    name = os.path.basename(words[0].text)
    subs = [words[index].text for index in subcommand_at(words)[:1]]
    return bool(program_names("answers") & {name, " ".join([name, *subs])})


def operands_of(words: Sequence[Word], rule: ProgramRule) -> list[Word]:
    """The operands and attached values (`of=FILE`) of a command, as its rule sees it: without
    option values that the rule knows, and without a first text."""
    values = rule.values.split()
    operands: list[Word] = []
    left = iter(words[1:])
    for word in left:
        if word.text in values:
            next(left, None)
        elif "=" in word.text and re.match(r"-|if=|of=", word.text) and word.kind != "open":
            operands.append(Word(word.text.partition("=")[2], "pattern"))
        elif word.text == "--":
            operands += left
        elif not word.text.startswith("-") or word.kind == "open":
            operands.append(word)
    has_text = not _has_option([word.text for word in words[1:]], _TEXT_OPTIONS)
    return operands[1:] if has_text and rule.operands.startswith("text ") else operands


def script_of(words: Sequence[str]) -> str:
    """The word of a command line that may be a program file for an interpreter to read; "" if there
    is none."""
    operands = (word for word in words[1:] if not word.startswith("-"))
    return next(operands, "") if words and _is_interpreter(os.path.basename(words[0])) else ""


def _is_interpreter(name: str) -> bool:
    return bool(program_names("offers", "interpreters") & {name, re.sub(r"[0-9.]+$", "", name)})


def offer_prefix(words: Sequence[str]) -> tuple[str, ...]:
    """The words that an "always" for a command may begin with, narrow enough to say what it does;
    empty if no beginning is."""
    name = os.path.basename(words[0])
    count = 0
    if _is_interpreter(name):
        first = words[1] if len(words) > 1 else "-"
        is_telling = first in program_names("offers", "modes") or not first.startswith("-")
        count = 3 if first == "-m" and len(words) > 2 else 2 if is_telling else 0
    elif name in program_names("offers"):
        count = 1
    elif name in program_names("offers", "subcommands"):
        at = subcommand_at([Word(word) for word in words])
        longer = len(at) > 1 and words[at[0]] in program_names("offers", "longer")
        count = at[1 if longer else 0] + 1 if at else 0
    return tuple(words[:count])


def inner_commands(words: Sequence[Word]) -> list[Inner]:
    """What a command runs in turn; empty if it runs nothing, or is not understood."""
    name = os.path.basename(words[0].text)
    if name == "find":
        return list(_executed_by_find(words))
    if name in ("eval", "trap"):
        texts = [word.text for word in words[1:] if word.text != "--"]
        is_literal = all(word.kind == "literal" for word in words)
        text = " ".join(texts) if name == "eval" else "".join(texts[:1])
        return [Inner(text=text)] if texts and is_literal else []
    is_shell = name in program_names("shells")
    row = _read_table()["shells"] if is_shell else _read_table()["wrappers"].get(name)
    if row is None:
        return []
    left = [word.text for word in reversed(words[1:])]
    while left and left[-1].startswith("-") and left[-1] != "-":
        word = left.pop()
        if word == "--":
            break
        if _take_option(word, left, _parse_options(row.get("options", ""))) is None:
            return []
    at = len(words) - len(left)
    options, operands = words[1:at], words[at:]
    if not operands or any(word.kind == "open" for word in options):
        return []
    if is_shell:
        is_text = any(re.fullmatch(r"-[a-z]*c[a-z]*", word.text) for word in options)
        is_text = is_text and operands[0].kind == "literal"
        return [Inner(text=operands[0].text, transparent=True)] if is_text else []
    while row.get("assigns") and operands and re.match(r"[A-Za-z_]\w*=", operands[0].text):
        operands = operands[1:]
    appends, system = row.get("appends", False), row.get("system", "")
    is_transparent = len(operands) == len(left) and not appends and not system
    command = operands[row.get("skip", 0) :]
    read = [Word("", "open")] if appends else []  # the words that the program reads and appends
    inner = Inner((*command, *read), transparent=is_transparent, system=system)
    return [inner] if command else []


def _executed_by_find(words: Sequence[Word]) -> Iterator[Inner]:
    command: list[Word] | None = None
    for word in words:
        if command is None:
            command = [] if word.text in ("-exec", "-execdir", "-ok", "-okdir") else None
        elif word.text not in (";", "+"):
            command.append(Word(word.text, "open") if "{}" in word.text else word)
        else:
            if command:
                yield Inner(tuple(command))
            command = None


def _is_one_of(word: str, choices: str) -> bool:
    is_pattern = "*" in choices
    return word in choices.split("|") or (is_pattern and bool(_pattern(choices).match(word)))


@functools.cache
def _pattern(choices: str) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, choices.split("|"))))


def _has_option(words: Sequence[str], wanted: Sequence[str], *, abbreviated: bool = True) -> bool:
    return any(_is_option(word, option, abbreviated) for word in words for option in wanted)


def _is_option(word: str, option: str, abbreviated: bool) -> bool:
    if option.startswith("--") and len(option) > 2 and "*" not in option:
        name = word.partition("=")[0]
        return name == option or (abbreviated and len(name) > 2 and option.startswith(name))
    if re.fullmatch(r"-[A-Za-z]", option) and not word.startswith("--"):
        return word.startswith("-") and option[1] in word[1:]
    return word == option or fnmatchcase(word, option)


@functools.cache
def _read_table() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


@functools.cache
def program_names(section: str, key: str = "programs") -> frozenset[str]:
    """The words of a list in `programs.toml`."""
    value = _read_table()[section][key]
    return frozenset(value.split() if isinstance(value, str) else value)


@functools.cache
def reading_programs() -> Mapping[tuple[str, ...], Mapping[str, Any]]:
    """The closed list: programs, some with a first word, that only read and print."""
    by_words: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for words, row in _read_table()["readers"].items():
        *before, last = words.split()  # `command -v|-V` is two
        for choice in last.split("|"):
            by_words[*before, choice] = row
    return by_words


@functools.cache
def rules() -> Mapping[str, list[ProgramRule]]:
    """The rules of the sections in `_RISKS`, by program name; those with a glob are under ""."""
    by_name: dict[str, list[ProgramRule]] = {"": []}
    for section, (risk, leaves) in _RISKS.items():
        for words, value in _read_table()[section].items():
            for row in value if isinstance(value, list) else [value]:
                fields = {"leaves": leaves, **({"reason": row} if isinstance(row, str) else row)}
                rule = ProgramRule(section, words, risk, **fields)
                for name in words.partition(" ")[0].split("|"):
                    by_name.setdefault("" if "*" in name else name, []).append(rule)
    return by_name


@functools.cache
def _parse_options(text: str, is_exact: bool = False) -> Options:
    kinds: dict[str, str] = {}
    for word in text.split():
        kind = word[-1] if word[-1] in "=?<" else ""
        name = word.removesuffix(kind)
        is_cluster = not (kind or is_exact or name.startswith("--") or name == "-NUM")
        for option in [f"-{letter}" for letter in name[1:]] if is_cluster else [name]:
            kinds.setdefault(option, kind)
    return kinds

"""What kode knows about programs: `programs.toml`, read at first use and looked up by words.

It answers three questions. Does this command, every word of it literal, only read (`plain_reader`,
exact tables, else None)? What does this command do by its name (`find_rule`)? And which other
command does it run (`inner_of`, by exact tables of options)?
"""

import functools
import operator
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from kode.permissions.rules import strip_system_folder
from kode.permissions.shell.line import GRAVITY, Leaves, Risk
from kode.permissions.shell.parse import Word

_RISKS: dict[str, Risk] = {
    "changes": "write",
    "sends": "network",
    "destroys": "destructive",
    "system": "system",
    "checks": "unknown",
    "runs": "unknown",
}

_LEAVES: dict[Risk, Leaves] = {"network": "host", "system": "machine"}
"""What a program needs outside the sandbox, where its rule does not say."""

_TEXT_OPTIONS = ("-e", "-f", "--regexp", "--expression", "--file", "--from-file")
"""With one of these, no operand is a pattern or a program's text."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a program."""

    kinds: Mapping[str, str]
    """An option with its dashes → "" for a flag; `=` if it takes a value, `<` a value that is a
    file, `?` an optional value."""
    exact: bool = False
    """Whether options are whole words, without clusters, `=` and `--`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The paths a plain reader reads."""

    files: tuple[str, ...] = ()
    suspected: tuple[str, ...] = ()
    """Option values: another system's program of that name may not take the value, and read the
    word as a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a program does; the fields from `reason` on are those of `programs.toml`."""

    words: tuple[tuple[str, ...], ...]
    """Alternatives for each of the first words."""
    risk: Risk
    check: bool
    """Whether its exit status says whether the project passed."""
    reason: str
    needs: str = ""
    unless: str = ""
    operands: str = ""
    values: str = ""
    spares: bool = False
    undo: str = ""
    protected: bool = False
    """Whether it writes in kode's own folder."""
    leaves: Leaves = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """What a program runs: words, or a shell text."""

    words: tuple[Word, ...] = ()
    text: str | None = None
    transparent: bool = True
    """Whether these words are everything: nothing is set, nothing added."""
    system: str = ""
    """What the wrapper itself does to the machine."""


def plain_reader(words: Sequence[str]) -> Reading | None:
    """What a command reads if it does nothing but read and print; None for any other, or if a word
    is not understood."""
    is_installed = words[0].startswith(("/usr/local/", "/opt/"))  # by hand: it may be another
    name = words[0] if is_installed else strip_system_folder(words[0])
    with_word = readers().get((name, *words[1:2]))
    row = with_word if with_word is not None else readers().get((name,))
    style = row.get("style") if row is not None else None
    if row is None or style == "text":
        return None if row is None else Reading()
    accepted = _options(row.get("options", ""), exact=style == "exact")
    options, operands, files, suspected = set[str](), list[str](), list[str](), list[str]()
    rest = list(reversed(words[1 if with_word is None else 2 :]))
    while rest:  # as every getopt does it: no abbreviations, no option after an operand
        word = rest.pop()
        if word == "--" and not accepted.exact:
            operands.extend(reversed(rest))
            break
        if not word.startswith("-") or word == "-":
            operands.append(word)
            continue
        option = _take_option(word, rest, accepted)
        if option is None or (operands and not accepted.exact):
            return None
        option_names, value, is_own_word = option
        options.update(option_names)
        if value is not None and accepted.kinds[option_names[-1]] == "<":
            files.append(value)
        elif value is not None and is_own_word:
            suspected.append(value)
    if len(operands) > row.get("most", len(operands)):
        return None
    if "last" in row and operands[-1:] != [row["last"]]:
        return None
    if "first" in row and operands and not re.fullmatch(row["first"].strip(), operands[0]):
        return None
    kind = row.get("operands", "paths")
    if kind == "none" and operands:
        return None
    if kind == "text paths" and options.isdisjoint(row.get("instead", "").split()):
        if not operands:
            return None
        del operands[0]
    if not kind.endswith("paths"):
        return Reading(files=tuple(files))
    return Reading(files=(*files, *operands), suspected=tuple(suspected))


def _take_option(
    word: str, rest: list[str], options: Options
) -> tuple[list[str], str | None, bool] | None:
    """The options in a word, the value of the last of them, and whether that is a word of its own,
    taken from `rest`. None if the word is not understood."""
    kind = options.kinds.get(word)
    if kind in ("", "?"):
        return [word], None, False
    if kind:
        return ([word], rest.pop(), True) if rest else None
    if options.exact:
        return None
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return ([name], value, False) if equals and options.kinds.get(name) else None
    if re.fullmatch(r"-[0-9]+", word) and "-NUM" in options.kinds:
        return ["-NUM"], None, False
    names = []
    for index, letter in enumerate(word[1:], start=2):
        names.append(f"-{letter}")
        kind = options.kinds.get(names[-1])
        if kind is None:
            return None
        if kind == "?":
            return names, None, False
        if kind:
            attached = word[index:]
            return (names, attached or rest.pop(), not attached) if attached or rest else None
    return names, None, False


def find_rule(words: Sequence[Word]) -> Rule | None:
    """The gravest rule that a command matches. Matching is generous: in option clusters,
    abbreviated, after values."""
    name = os.path.basename(words[0].text)
    if name.startswith("python") and len(words) > 2 and words[1].text == "-m":
        return find_rule(words[2:])  # `python3 -m pip` is pip
    subs = [words[index].text for index in subcommand_at(words)]
    for rule in _rules_for(name, words[0].text):
        later = rule.words[1:]
        if len(subs) < len(later) or not all(map(_is_one_of, subs, later)):
            continue
        rest = [word for word in words[1:] if word.kind != "open"]
        for sub in subs[: len(later)]:
            rest.remove(next(word for word in rest if word.text == sub))
        if rule.needs and not _has(rest, rule.needs.split()):
            continue
        if not _has(rest, rule.unless.split(), abbreviated=False):
            return rule
    return None


def subcommand_at(words: Sequence[Word]) -> list[int]:
    """The indices of the first three words that are not options of the program itself."""
    takes = _data()["globals"].get(os.path.basename(words[0].text), "").split()
    positions: list[int] = []
    rest = iter(range(1, len(words)))
    for index in rest:
        word = words[index]
        if word.text in takes and word.kind == "literal" and not positions:
            next(rest, None)
        elif word.kind == "open" or len(positions) == 3:
            break
        elif not word.text.startswith(("-", "+")):
            positions.append(index)
    return positions


def answers(words: Sequence[Word]) -> bool:
    """Whether exit status 1 of a command is an answer: no hit, or a difference."""
    if not words or words[0].kind != "literal":
        return False
    name = os.path.basename(words[0].text)
    subs = [words[index].text for index in subcommand_at(words)[:1]]
    return not names("answers").isdisjoint({name, " ".join([name, *subs])})


def operands_of(words: Sequence[Word], rule: Rule | None) -> list[Word]:
    """The operands and attached values (`of=FILE`) of a command, as its rule sees it: without
    option values that the rule knows, and without a first text."""
    values = rule.values.split() if rule else []
    operands: list[Word] = []
    rest = iter(words[1:])
    for word in rest:
        if word.text in values:
            next(rest, None)
        elif "=" in word.text and re.match(r"-|if=|of=", word.text) and word.kind != "open":
            operands.append(Word(word.text.partition("=")[2], "pattern"))
        elif word.text == "--":
            operands.extend(rest)
        elif not word.text.startswith("-") or word.kind == "open":
            operands.append(word)
    has_text = rule is not None and rule.operands.startswith("text ")
    return operands[1:] if has_text and not _has(words[1:], _TEXT_OPTIONS) else operands


def script_of(words: Sequence[str]) -> str:
    """The word of a command line that may be the file of a program, which an interpreter reads; ""
    for none."""
    if not words or not _is_interpreter(os.path.basename(words[0])):
        return ""
    return next((word for word in words[1:] if not word.startswith("-")), "")


def _is_interpreter(name: str) -> bool:
    return not names("offers", "interpreters").isdisjoint({name, re.sub(r"[0-9.]+$", "", name)})


def offer(words: Sequence[str]) -> tuple[str, ...]:
    """The words that an "always" for a command may begin with, narrow enough to say what it does;
    empty if only all of its words are."""
    name = os.path.basename(words[0])
    count = 0
    if _is_interpreter(name):
        if len(words) > 2 and words[1] == "-m":
            count = 3
        elif len(words) > 1:
            is_telling = words[1] in names("offers", "modes") or not words[1].startswith("-")
            count = 2 if is_telling else 0
    elif name in names("offers"):
        count = 1
    elif name in names("offers", "subcommands"):
        at = subcommand_at([Word(word) for word in words])
        longer = len(at) > 1 and words[at[0]] in names("offers", "longer")
        count = at[1 if longer else 0] + 1 if at else 0
    return tuple(words[:count])


def inner_of(words: Sequence[Word]) -> list[Inner]:
    """What a command runs in turn; empty if it runs nothing, or is not understood."""
    name = os.path.basename(words[0].text)
    if (wrapper := _data()["wrappers"].get(name)) is not None:
        return _behind_wrapper(words, wrapper)
    if name in names("shells"):
        at = _skip_options(words, _options(_data()["shells"]["options"]))
        script = words[at] if at is not None and at < len(words) else None
        is_run = any(re.fullmatch(r"-[a-z]*c[a-z]*", word.text) for word in words[1:at])
        return [Inner(text=script.text)] if script and script.kind == "literal" and is_run else []
    if name == "find":
        return _executed_by_find(words)
    if name in ("eval", "trap") and len(words) > 1 and all(w.kind == "literal" for w in words):
        texts = [word.text for word in words[1:] if word.text != "--"]
        text = " ".join(texts) if name == "eval" else "".join(texts[:1])
        return [Inner(text=text, transparent=False)]
    return []


def _behind_wrapper(words: Sequence[Word], wrapper: Mapping[str, Any]) -> list[Inner]:
    position = first = _skip_options(words, _options(wrapper.get("options", "")))
    if position is None:
        return []
    if wrapper.get("assigns"):
        while position < len(words) and re.match(r"[A-Za-z_]\w*=", words[position].text):
            position += 1
    appends, system = wrapper.get("appends", False), wrapper.get("system", "")
    is_transparent = position == first and not appends and not system
    rest = words[position + wrapper.get("skip", 0) :]
    read = [Word("", "open")] if appends else []  # what it appends to them
    command = Inner(words=(*rest, *read), transparent=is_transparent, system=system)
    return [command] if rest else []


def _executed_by_find(words: Sequence[Word]) -> list[Inner]:
    commands: list[Inner] = []
    command: list[Word] | None = None
    for word in words:
        if command is None:
            command = [] if word.text in ("-exec", "-execdir", "-ok", "-okdir") else None
        elif word.text in (";", "+"):
            commands.append(Inner(words=tuple(command), transparent=False))
            command = None
        else:
            command.append(Word(word.text, "open") if "{}" in word.text else word)
    return [inner for inner in commands if inner.words]


def _skip_options(words: Sequence[Word], options: Options) -> int | None:
    """The index of the first word that is not an option; None if one is unknown."""
    rest = [word.text for word in reversed(words[1:])]
    while rest and rest[-1].startswith("-") and rest[-1] != "-":
        word = rest.pop()
        if word == "--":
            break
        if _take_option(word, rest, options) is None:
            return None
    count = len(words) - len(rest)
    return None if any(word.kind == "open" for word in words[1:count]) else count


def _rules_for(name: str, whole: str) -> list[Rule]:
    versionless = re.sub(r"(?<=[a-z])[0-9.]+$", "", name)
    matching = [rule for key in (whole, name, versionless) for rule in rules().get(key, ())]
    matching += [rule for rule in rules()[""] if _is_one_of(name, rule.words[0])]
    return sorted(matching, key=lambda rule: -GRAVITY.index(rule.risk))


def _is_one_of(word: str, choices: tuple[str, ...]) -> bool:
    return word in choices or any(map(functools.partial(fnmatchcase, word), choices))


def _has(words: Sequence[Word], wanted: Sequence[str], *, abbreviated: bool = True) -> bool:
    return any(_means(word.text, it, abbreviated) for word in words for it in wanted)


def _means(word: str, option: str, abbreviated: bool) -> bool:
    if option.startswith("--") and len(option) > 2 and "*" not in option:
        name = word.partition("=")[0]
        return name == option or (abbreviated and len(name) > 2 and option.startswith(name))
    if re.fullmatch(r"-[A-Za-z]", option) and not word.startswith("--"):
        return word.startswith("-") and option[1] in word[1:]
    return word == option or fnmatchcase(word, option)


@functools.cache
def _data() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


@functools.cache
def names(section: str, key: str = "programs") -> frozenset[str]:
    """The words of a list in `programs.toml`."""
    value = _data()[section][key]
    return frozenset(value.split() if isinstance(value, str) else value)


@functools.cache
def readers() -> Mapping[tuple[str, ...], Mapping[str, Any]]:
    """The closed list: programs, some with a first word, that only read and print."""
    rows: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for words, row in _data()["readers"].items():
        *before, last = words.split()  # `command -v|-V` is two
        for choice in last.split("|"):
            rows[(*before, choice)] = row
    return rows


_split_choices = operator.methodcaller("split", "|")


@functools.cache
def rules() -> Mapping[str, tuple[Rule, ...]]:
    """What programs do, by the program; globs under ""."""
    by_name: dict[str, tuple[Rule, ...]] = {"": ()}
    for section, risk in _RISKS.items():
        for words, value in _data()[section].items():
            choices = tuple(map(tuple, map(_split_choices, words.split())))
            for row in value if isinstance(value, list) else [value]:
                fields: dict[str, Any] = {"leaves": _LEAVES.get(risk, "")}
                fields |= {"reason": row} if isinstance(row, str) else row
                rule = Rule(words=choices, risk=risk, check=section == "checks", **fields)
                for name in choices[0]:
                    key = "" if "*" in name else name
                    by_name[key] = (*by_name.get(key, ()), rule)
    return by_name


@functools.cache
def _options(text: str, *, exact: bool = False) -> Options:
    kinds: dict[str, str] = {}
    for word in text.split():
        kind = word[-1] if word[-1] in "=?<" else ""
        name = word.removesuffix(kind)
        is_cluster = not kind and not exact and not name.startswith("--") and name != "-NUM"
        for option in [f"-{letter}" for letter in name[1:]] if is_cluster else [name]:
            kinds.setdefault(option, kind)
    return Options(kinds, exact)

"""What kode knows about programs: `programs.toml`, loaded on first use, looked up by words.

It answers two questions: does this command, every word of it literal, only read (`plain_reader`,
exact tables, else None)? And what does this command do by its name (`find_rule`)?
"""

import functools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from kode.permissions.shell.line import Leaves, Risk
from kode.permissions.shell.plain import Word

_SYSTEM_FOLDERS = ("/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/")

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

_GRAVITY: tuple[Risk, ...] = ("unknown", "write", "network", "system", "destructive")
"""Which of several rules counts: what a program does by its name outweighs that it runs."""


_TEXT_OPTIONS = ("-e", "-f", "--regexp", "--expression", "--file", "--from-file")
"""With one of these, no operand is a pattern or a program's text."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a program, each with its dashes."""

    flags: frozenset[str]
    values: frozenset[str]
    optional: frozenset[str]
    files: frozenset[str]
    exact: bool = False
    """Whether options are whole words, without clusters, `=` and `--`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The options and operands passed to a program."""

    options: frozenset[str]
    operands: tuple[str, ...]
    files: tuple[str, ...]
    """The values of options that name a file."""
    values: tuple[str, ...]
    """Other values that are separate words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    options: Options
    operands: str
    instead: frozenset[str]
    most: int | None
    first: re.Pattern[str] | None
    last: str | None
    text_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The paths a plain reader reads."""

    files: tuple[str, ...] = ()
    suspected: tuple[str, ...] = ()
    """Option values: another system's program of that name may not take the value, and read the
    word as a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    words: tuple[tuple[str, ...], ...]
    """Alternatives for each of the first words."""
    risk: Risk
    reason: str
    needs: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    operands: str = ""
    values: frozenset[str] = frozenset()
    spares: bool = False
    undo: str = ""
    own: bool = False
    """Whether it writes in kode's own folder."""
    check: bool = False
    """Whether its exit status says whether the project passed."""
    leaves: Leaves = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    options: Options
    skip: int
    assigns: bool
    appends: bool
    system: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    readers: Mapping[tuple[str, ...], Reader]
    rules: Mapping[str, tuple[Rule, ...]]
    """By program, the gravest first; globs under ""."""
    wrappers: Mapping[str, Wrapper]
    shells: frozenset[str]
    shell_options: Options
    skips: Mapping[str, frozenset[str]]
    with_subcommand: frozenset[str]
    with_longer_subcommand: frozenset[str]
    offered_alone: frozenset[str]
    interpreters: frozenset[str]
    modes: frozenset[str]
    hides: frozenset[str]
    answers: frozenset[str]


def plain_reader(words: Sequence[str]) -> Reading | None:
    """What a command reads if it does nothing but read and print; None for any other, or if a word
    is not understood."""
    readers = table().readers
    name = _in_path(words[0])
    with_word = readers.get((name, *words[1:2]))
    reader = with_word or readers.get((name,))
    if reader is None:
        return None
    if reader.text_only:
        return Reading()
    options = read_options(words[2 if with_word else 1 :], reader.options)
    if options is None:
        return None
    operands = options.operands
    if reader.most is not None and len(operands) > reader.most:
        return None
    if reader.last is not None and operands[-1:] != (reader.last,):
        return None
    if reader.first is not None and operands and not reader.first.fullmatch(operands[0]):
        return None
    match reader.operands:
        case "none":
            return Reading(files=options.files) if not operands else None
        case "text":
            return Reading(files=options.files)
        case "text paths" if not options.options & reader.instead:
            if not operands:
                return None
            operands = operands[1:]
    return Reading(files=(*options.files, *operands), suspected=options.values)


def read_options(words: Sequence[str], options: Options) -> Given | None:
    """Splits options and operands as every getopt does: no abbreviations, no option after an
    operand. None as soon as a word with a leading dash is not a known option."""
    names: set[str] = set()
    operands: list[str] = []
    files: list[str] = []
    values: list[str] = []
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word == "--" and not options.exact:
            operands.extend(reversed(rest))
            break
        if not word.startswith("-") or word == "-":
            operands.append(word)
            continue
        if operands and not options.exact:
            return None
        following = rest[-1:]
        left = len(rest)
        found = _one_option(word, rest, options)
        if found is None:
            return None
        names.update(found[0])
        files.extend(found[1])
        values.extend(following if len(rest) < left and not found[1] else ())
    return Given(
        options=frozenset(names),
        operands=tuple(operands),
        files=tuple(files),
        values=tuple(values),
    )


def leading_options(words: Sequence[str], options: Options) -> int | None:
    """How many words at the beginning are options with their values; None if one is unknown."""
    rest = list(reversed(words))
    while rest and rest[-1].startswith("-") and rest[-1] != "-":
        word = rest.pop()
        if word == "--":
            break
        if _one_option(word, rest, options) is None:
            return None
    return len(words) - len(rest)


def _one_option(word: str, rest: list[str], options: Options) -> tuple[list[str], list[str]] | None:
    """The option names in a word and the files that it names; takes a value from `rest`."""
    if word in options.flags or word in options.optional:
        return [word], []
    if word in options.values or word in options.files:
        if not rest:
            return None
        value = rest.pop()
        return [word], [value] if word in options.files else []
    if options.exact:
        return None
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        if not equals or name not in options.values | options.optional | options.files:
            return None
        return [name], [value] if name in options.files else []
    if re.fullmatch(r"-[0-9]+", word) and "-NUM" in options.flags:
        return ["-NUM"], []
    names: list[str] = []
    for index, letter in enumerate(word[1:], start=2):
        name = f"-{letter}"
        names.append(name)
        if name in options.flags:
            continue
        if name in options.optional:
            return names, []
        if name not in options.values | options.files:
            return None
        if not word[index:] and not rest:
            return None
        value = word[index:] or rest.pop()
        return names, [value] if name in options.files else []
    return names, []


def find_rule(words: Sequence[Word]) -> Rule | None:
    """The gravest rule that a command matches. Matching is generous: in option clusters,
    abbreviated, after values."""
    name = os.path.basename(words[0].text)
    if name.startswith("python") and len(words) > 2 and words[1].text == "-m":
        return find_rule(words[2:])  # `python3 -m pip` is pip
    subs = [words[index].text for index in subcommand_at(words)]
    for rule in _rules_for(name, words[0].text):
        later = rule.words[1:]
        if len(subs) < len(later) or any(
            not _is_one_of(sub, choices) for sub, choices in zip(subs, later, strict=False)
        ):
            continue
        rest = [word for word in words[1:] if word.kind != "open"]
        for sub in subs[: len(later)]:
            rest.remove(next(word for word in rest if word.text == sub))
        if rule.needs and not _has(rest, rule.needs):
            continue
        if rule.unless and _has(rest, rule.unless, abbreviated=False):
            continue
        return rule
    return None


def subcommand_at(words: Sequence[Word]) -> list[int]:
    """The indices of the first three words that are not options of the program itself."""
    takes = table().skips.get(os.path.basename(words[0].text), frozenset())
    found: list[int] = []
    index = 1
    while index < len(words) and len(found) < 3:
        word = words[index]
        if word.text in takes and word.kind == "literal" and not found:
            index += 2
            continue
        if word.kind == "open":
            break
        if not word.text.startswith(("-", "+")):
            found.append(index)
        index += 1
    return found


def answers(words: Sequence[Word]) -> bool:
    """Whether exit status 1 of a command is an answer: no hit, or a difference."""
    if not words or words[0].kind != "literal":
        return False
    name = os.path.basename(words[0].text)
    subs = [words[index].text for index in subcommand_at(words)[:1]]
    return not table().answers.isdisjoint({name, " ".join([name, *subs])})


def operands_of(words: Sequence[Word], rule: Rule | None) -> list[Word]:
    """The operands and attached values (`of=FILE`) of a command, as its rule sees it: without
    option values that the rule knows, and without a first text."""
    values = rule.values if rule else frozenset()
    found: list[Word] = []
    rest = list(reversed(words[1:]))
    while rest:
        word = rest.pop()
        if word.text in values and rest:
            rest.pop()
        elif "=" in word.text and re.match(r"-|if=|of=", word.text) and word.kind != "open":
            found.append(Word(word.text.partition("=")[2], "pattern"))
        elif word.text == "--":
            found.extend(reversed(rest))
            break
        elif not word.text.startswith("-") or word.kind == "open":
            found.append(word)
    has_text = rule is not None and rule.operands.startswith("text ")
    return found[1:] if has_text and not _has(words[1:], _TEXT_OPTIONS) else found


def script_of(words: Sequence[str]) -> str:
    """The word of a command line that may be the file of a program, which an interpreter reads; ""
    for none."""
    if not words or not _is_interpreter(os.path.basename(words[0])):
        return ""
    return next((word for word in words[1:] if not word.startswith("-")), "")


def _is_interpreter(name: str) -> bool:
    interpreters = table().interpreters
    return name in interpreters or re.sub(r"[0-9.]+$", "", name) in interpreters


def offer(words: Sequence[str]) -> tuple[str, ...]:
    """The words that an "always" for a command may begin with, narrow enough to say what it does;
    empty if only all of its words are."""
    known = table()
    name = os.path.basename(words[0])
    if _is_interpreter(name):
        if len(words) > 2 and words[1] == "-m":
            return tuple(words[:3])
        if len(words) > 1 and (words[1] in known.modes or not words[1].startswith("-")):
            return tuple(words[:2])
        return ()
    if name in known.offered_alone:
        return (words[0],)
    if name in known.with_subcommand:
        at = subcommand_at([Word(word) for word in words])
        if not at:
            return ()
        longer = words[at[0]] in known.with_longer_subcommand and len(at) > 1
        return tuple(words[: at[1 if longer else 0] + 1])
    return ()


def _rules_for(name: str, whole: str) -> list[Rule]:
    rules = table().rules
    bare = re.sub(r"(?<=[a-z])[0-9.]+$", "", name)
    found = [*rules.get(whole, ()), *rules.get(name, ()), *rules.get(bare, ())]
    found += [rule for rule in rules[""] if _is_one_of(name, rule.words[0])]
    return sorted(found, key=lambda rule: -_GRAVITY.index(rule.risk))


def _is_one_of(word: str, choices: tuple[str, ...]) -> bool:
    return any(word == choice or fnmatchcase(word, choice) for choice in choices)


def _has(words: Sequence[Word], wanted: tuple[str, ...], *, abbreviated: bool = True) -> bool:
    return any(_means(word.text, one, abbreviated) for word in words for one in wanted)


def _means(word: str, option: str, abbreviated: bool) -> bool:
    if option.startswith("--") and len(option) > 2 and "*" not in option:
        name = word.partition("=")[0]
        return name == option or (abbreviated and len(name) > 2 and option.startswith(name))
    if re.fullmatch(r"-[A-Za-z]", option) and not word.startswith("--"):
        return word.startswith("-") and option[1] in word[1:]
    return word == option or fnmatchcase(word, option)


def _in_path(name: str) -> str:
    """The name of a system program; `./ls` is a different one."""
    for folder in _SYSTEM_FOLDERS:
        if name.startswith(folder):
            return name[len(folder) :]
    return name


@functools.cache
def table() -> Table:
    """The content of `programs.toml`."""
    import importlib.resources
    import tomllib

    text = importlib.resources.files("kode.permissions.shell").joinpath("programs.toml")
    data = tomllib.loads(text.read_text("utf-8"))
    offers, shells = data["offers"], data["shells"]
    return Table(
        readers={
            tuple(name.split()): _reader(row)
            for names, row in data["readers"].items()
            for name in _expand_choices(names)
        },
        rules=_rules(data),
        wrappers={
            name: Wrapper(
                options=_options(row.get("options", "")),
                skip=row.get("skip", 0),
                assigns=row.get("assigns", False),
                appends=row.get("appends", False),
                system=row.get("system", ""),
            )
            for name, row in data["wrappers"].items()
        },
        shells=frozenset(shells["programs"].split()),
        shell_options=_options(shells["options"]),
        skips={name: frozenset(text.split()) for name, text in data["globals"].items()},
        with_subcommand=frozenset(offers["subcommands"].split()),
        with_longer_subcommand=frozenset(offers["longer"].split()),
        offered_alone=frozenset(offers["programs"].split()),
        interpreters=frozenset(offers["interpreters"].split()),
        modes=frozenset(offers["modes"].split()),
        hides=frozenset(data["hides"]["programs"].split()),
        answers=frozenset(data["answers"]["programs"]),
    )


def _expand_choices(names: str) -> list[str]:
    """Expands `command -v|-V` to `command -v` and `command -V`."""
    *first, last = names.split(" ")
    return [" ".join((*first, choice)) for choice in last.split("|")]


def _rules(data: Mapping[str, Any]) -> dict[str, tuple[Rule, ...]]:
    by_name: dict[str, list[Rule]] = {"": []}
    for section, risk in _RISKS.items():
        for words, value in data[section].items():
            choices = tuple(tuple(word.split("|")) for word in words.split())
            for row in value if isinstance(value, list) else [value]:
                rule = _rule(choices, risk, {"reason": row} if isinstance(row, str) else row)
                rule = replace(rule, check=section == "checks")
                for name in choices[0]:
                    by_name.setdefault("" if "*" in name else name, []).append(rule)
    return {name: tuple(rules) for name, rules in by_name.items()}


def _rule(words: tuple[tuple[str, ...], ...], risk: Risk, row: Mapping[str, Any]) -> Rule:
    return Rule(
        words=words,
        risk=risk,
        reason=row["reason"],
        needs=tuple(row.get("with", "").split()),
        unless=tuple(row.get("unless", "").split()),
        operands=row.get("operands", ""),
        values=frozenset(row.get("values", "").split()),
        spares=row.get("spares", False),
        undo=row.get("undo", ""),
        own=row.get("own", False),
        leaves=row.get("leaves", _LEAVES.get(risk, "")),
    )


def _reader(row: Mapping[str, Any]) -> Reader:
    first = row.get("first")
    return Reader(
        options=_options(row.get("options", ""), exact=row.get("style") == "exact"),
        operands=row.get("operands", "paths"),
        instead=frozenset(row.get("instead", "").split()),
        most=row.get("most"),
        first=re.compile(first.strip()) if first else None,
        last=row.get("last"),
        text_only=row.get("style") == "text",
    )


def _options(text: str, *, exact: bool = False) -> Options:
    kinds: dict[str, set[str]] = {"": set(), "=": set(), "?": set(), "<": set()}
    for word in text.split():
        mark = word[-1] if word[-1] in "=?<" else ""
        name = word.removesuffix(mark)
        cluster = not mark and not exact and not name.startswith("--") and name != "-NUM"
        kinds[mark].update(f"-{letter}" for letter in name[1:]) if cluster else kinds[mark].add(
            name
        )
    return Options(
        flags=frozenset(kinds[""]),
        values=frozenset(kinds["="]),
        optional=frozenset(kinds["?"]),
        files=frozenset(kinds["<"]),
        exact=exact,
    )

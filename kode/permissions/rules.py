"""Permission rules: their grammar, and whether one matches a call. `decide` says which rule wins.

    shell(git push:*)     commands that begin with these words     shell(git status)   exactly these
    edit(src/**)          write_file and edit_file; globs          read(../docs/**)    the readers
    fetch(docs.python.org)  one host; *.python.org for its subdomains
    mcp(github)           every tool of an MCP server              mcp(github:get_issue)   one
    shell  edit  read  fetch  mcp  memory  delegate  or a tool's name   every call of it

Globs are relative to the project, absolute, or begin with `~`. One without a slash matches a name
at any depth. Rules see the words of parsed commands, never the text of a command line.
"""

import functools
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from kode.errors import ConfigError
from kode.permissions.places import real
from kode.tool import Effect, Tool
from kode.workplace import below_any

Kind = Literal["shell", "edit", "read", "fetch", "mcp", "memory", "delegate", "none"]

KIND_OF: dict[str, Kind] = {
    "shell": "shell",
    "edit": "edit",
    "write_file": "edit",
    "edit_file": "edit",
    "read": "read",
    "read_file": "read",
    "search_files": "read",
    "list_files": "read",
    "fetch": "fetch",
    "fetch_url": "fetch",
    "mcp": "mcp",
    "memory": "memory",
    "delegate": "delegate",
}
"""Rule names that may have a pattern → what they are about."""

FAMILIES = frozenset({"shell", "edit", "read", "fetch", "mcp", "memory", "delegate"})
"""Names for every tool of a kind; any other name means the tool of that name."""

_FAMILY_OF: Mapping[Effect, str] = {
    "run": "shell",
    "memory-read": "memory",
}
"""Only where the family is not named like the effect."""

LIKE_A_KNOWN_NAME = 0.8
"""Two names at least this similar (of 1) count as one mistyped for the other."""

ALLOWED = (
    "a tool's name (shell, write_file, ...), edit, read, fetch, mcp, memory or delegate alone; "
    "shell(WORDS) or shell(WORDS:*); edit(GLOB), read(GLOB); fetch(HOST); mcp(SERVER), "
    "mcp(SERVER:TOOL)"
)

_OTHER_NAME_OF_MCP = re.compile(r"mcp__((?:(?!__)[^()\s])+(?:__[^()\s]+)?)")
"""A server or its tool, as other agents write it and as the model calls it."""

_FACES = {"apply_patch": "edit", "str_replace_based_edit_tool": "edit", "bash": "shell"}
"""Tools as vendors' models know them → what rules call them: their calls are those of others."""

_SYSTEM_FOLDERS = (
    "/bin/",
    "/sbin/",
    "/usr/bin/",
    "/usr/sbin/",
    "/usr/local/bin/",
    "/usr/local/sbin/",
    "/opt/homebrew/bin/",
)


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    """A family, or a tool's name."""
    pattern: str = ""
    """The text in the parentheses, in canonical form; "" for a bare name."""
    why: str = field(default="", compare=False)  # what to say in place of the rule

    def __str__(self) -> str:
        return f"{self.name}({self.pattern})" if self.pattern else self.name

    @property
    def kind(self) -> Kind:
        return KIND_OF.get(self.name, "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All active rules. Deny beats ask beats allow, wherever they came from."""

    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()
    """Written by the user, in the config or as a flag: no heuristic overrides them."""
    approved: tuple[Rule, ...] = ()
    """From a person's "always" answers. Never covers `system` or `destructive`."""


def parse(text: str) -> Rule:
    """Parses a rule. Raises: ConfigError that names what is allowed."""
    stripped = text.strip()
    if of_server := _OTHER_NAME_OF_MCP.fullmatch(stripped):
        server, _, tool = of_server[1].partition("__")
        return Rule("mcp", f"{server}:{tool}" if tool else server)
    match = re.fullmatch(r"([a-z_]+)(?:\((.*)\))?", stripped, re.DOTALL)
    if match is None or (match[2] is not None and match[1] not in KIND_OF):
        raise ConfigError(f"{text!r} is not a permission rule. Allowed are {ALLOWED}.")
    name, pattern = match[1], match[2]
    if pattern is None:
        name = _FACES.get(name, name)
        _check_spelling(name)
        return Rule(name)
    pattern = pattern.strip()
    if not pattern:
        raise ConfigError(f"{text!r} has nothing in its parentheses: write `{name}` for all.")
    match KIND_OF[name]:
        case "shell":
            return Rule(name, _shell_pattern(text, pattern))
        case "edit" | "read":
            return Rule(name, pattern)
        case "fetch":
            return Rule(name, pattern.lower())
        case "mcp":
            return Rule(name, pattern)
    raise ConfigError(f"{text!r}: `{name}` takes no parentheses. Write `{name}` alone.")


def _check_spelling(name: str) -> None:
    """The set of tools is not known here, but a name nearly equal to a known one is a typo. Raises:
    ConfigError."""
    if name in KIND_OF:
        return
    import difflib

    near = difflib.get_close_matches(name, KIND_OF, n=1, cutoff=LIKE_A_KNOWN_NAME)
    if near:
        raise ConfigError(f"{name!r} is not a permission rule. Did you mean `{near[0]}`?")


def parse_all(texts: Iterable[str]) -> tuple[Rule, ...]:
    """Several rules, in order. Raises: ConfigError for the first invalid one."""
    return tuple(parse(text) for text in texts)


def shell_rule(words: Sequence[str], *, prefix: bool) -> Rule:
    """The rule that matches exactly these words, or (prefix) every command beginning with them."""
    return Rule("shell", shlex.join(words) + (":*" if prefix else ""))


def never_matches(rule: Rule) -> str | None:
    """Why a rule can never match anything; None if it can."""
    match rule.kind:
        case "shell" if rule.pattern:
            return _dead_shell_rule(rule.pattern)
        case "edit" | "read" if rule.pattern.endswith("/"):
            return f"it names a folder, not files: write {rule.name}({rule.pattern}**)"
        case "fetch" if rule.pattern:
            return _dead_host(rule.pattern)
    return None


def names_tool(rule: Rule, tool: Tool) -> bool:
    """Whether the rule is about this tool, ignoring its pattern."""
    if rule.name in FAMILIES:
        return rule.name in (tool.name, _FAMILY_OF.get(tool.effect, tool.effect))
    return rule.name == tool.name


def matches_argv(rule: Rule, argv: Sequence[str] | None, *, loosely: bool = False) -> bool:
    """Whether a shell rule matches one command.

    `loosely` is for deny and ask rules: a program matches by its base name anywhere, and git's
    global options are skipped.
    """
    if rule.kind != "shell":
        return False
    if not rule.pattern:
        return True
    if argv is None or not argv:
        return False
    words, prefix = _words(rule.pattern)
    forms = [_canonical(argv)]
    if loosely:
        bare = (os.path.basename(argv[0]), *argv[1:])
        forms += [bare, _without_git_options(bare)]
    rule_form = _canonical(words)
    return any(
        form == rule_form or (prefix and form[: len(rule_form)] == rule_form) for form in forms
    )


def matches_path(
    rule: Rule, path: str, *, project: Path, user_home: Path, loosely: bool = False
) -> bool:
    """Whether an edit or read rule matches an absolute path.

    An allow rule must match the path with its symlinks resolved; a deny or ask rule (`loosely`)
    matches it either way.
    """
    if not rule.pattern:
        return True
    pattern = rule.pattern
    if pattern == "~" or pattern.startswith("~/"):
        pattern = str(user_home) + pattern[1:]
    forms = {real(path)} | ({os.path.normpath(path)} if loosely else set())
    if not os.path.isabs(pattern) and "/" not in pattern:
        inside = [form for form in forms if _is_below(form, project) or loosely]
        return any(_glob(pattern).fullmatch(os.path.basename(form)) for form in inside)
    patterns = {os.path.normpath(os.path.join(base, pattern)) for base in _spellings(project)}
    return any(_glob(known).fullmatch(form) for known in patterns for form in forms)


def matches_url(rule: Rule, url: str) -> bool:
    """Whether a fetch rule matches a URL's host."""
    if not rule.pattern:
        return True
    host = host_of(url)
    if not host:
        return False
    if rule.pattern.startswith("*."):
        return host.endswith(rule.pattern[1:])
    return host == rule.pattern


def matches_mcp(rule: Rule, target: str) -> bool:
    """Whether an mcp rule matches `SERVER:TOOL`."""
    return rule.pattern in ("", target, target.partition(":")[0])


def host_of(url: str) -> str:
    """The host of an http or https URL in lower case; "" if in doubt."""
    try:
        parts = urlsplit(url.strip())
        host = parts.hostname or ""
    except ValueError:
        return ""
    if parts.scheme.lower() not in ("http", "https") or "\\" in url:
        return ""
    return host.lower().rstrip(".")


def _shell_pattern(text: str, pattern: str) -> str:
    words, prefix = pattern.removesuffix(":*"), pattern.endswith(":*")
    try:
        split = shlex.split(words)
    except ValueError as error:
        raise ConfigError(f"{text!r}: {error}. Close the quotes, or double a backslash.") from None
    if not split or split == ["*"]:
        raise ConfigError(f"{text!r} names no command: write `shell` for every command.")
    if not prefix and split[-1].endswith(":*"):
        raise ConfigError(f"{text!r}: put `:*` after the quotes, as in shell('a b':*).")
    return shlex.join(split) + (":*" if prefix else "")


@functools.lru_cache(maxsize=512)
def _words(pattern: str) -> tuple[tuple[str, ...], bool]:
    prefix = pattern.endswith(":*")
    return tuple(shlex.split(pattern.removesuffix(":*"))), prefix


def _canonical(argv: Sequence[str]) -> tuple[str, ...]:
    """`/bin/ls` and `ls` are one command; a program elsewhere is another."""
    for folder in _SYSTEM_FOLDERS:
        if argv[0].startswith(folder) and "/" not in argv[0][len(folder) :]:
            return (argv[0][len(folder) :], *argv[1:])
    return tuple(argv)


def _without_git_options(argv: tuple[str, ...]) -> tuple[str, ...]:
    if argv[0] != "git":
        return argv
    rest = list(argv[1:])
    while rest and rest[0].startswith("-"):
        takes_value = rest[0] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace")
        del rest[: 2 if takes_value else 1]
    return ("git", *rest)


def _dead_shell_rule(pattern: str) -> str | None:
    words, prefix = _words(pattern)
    operators = {"|", "||", "&&", ";", "&", ">", ">>", "<"}
    if operators & set(words) or words[0].endswith(";"):
        return "commands are judged one by one: write one rule for each, without operators"
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=.*", words[0]):
        return "assignments before a command are no part of its words: leave them out"
    if re.match(r"[$`]|~$|[<>]\(", words[0]):
        return "a command whose name is not known beforehand matches no rule: name the program"
    if not prefix and "*" in words:
        return f"`*` stands for itself: write shell({shlex.join(words[:-1])}:*) for any ending"
    return None


def _dead_host(pattern: str) -> str | None:
    if "://" in pattern or "/" in pattern:
        host = host_of(pattern if "://" in pattern else f"https://{pattern}")
        return f"a host stands alone, without scheme and path: write fetch({host or 'HOST'})"
    if "*" in pattern and not re.fullmatch(r"\*\.[^*]+", pattern):
        return "`*` may only stand first, as in fetch(*.python.org)"
    if ":" in pattern or " " in pattern:
        return "a host has no port and no spaces"
    return None


def _is_below(path: str, folder: Path) -> bool:
    return below_any(path, _spellings(folder))


def _spellings(folder: Path) -> set[str]:
    return {str(folder), real(folder)}


@functools.lru_cache(maxsize=512)
def _glob(pattern: str) -> re.Pattern[str]:
    """`**` crosses folders, `*` and `?` do not; everything else is literal."""
    parts = re.findall(r"\*\*/|\*\*|.", pattern, re.DOTALL)
    return re.compile("".join(_WILD.get(part) or re.escape(part) for part in parts), re.DOTALL)


_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}

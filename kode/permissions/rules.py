"""Permission rules: their grammar, and whether one matches a call. `decide` says which rule wins.

    shell(git push:*)     commands that begin with these words, as with ` *` at the end
    shell(git status)     exactly these
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

from kode import registry
from kode.errors import ConfigError
from kode.permissions.places import real
from kode.tool import Tool
from kode.values import Value, dataclass, field
from kode.workplace import Workplace, is_below_any

FAMILIES = ("shell", "edit", "read", "fetch", "mcp", "memory", "delegate")
"""Names for every tool of a kind; any other name means the tool of that name."""

KIND_OF: Mapping[str, str] = {
    **{family: family for family in FAMILIES},
    **dict.fromkeys(("write_file", "edit_file"), "edit"),
    **dict.fromkeys(("read_file", "search_files", "list_files"), "read"),
    "fetch_url": "fetch",
}
"""Rule names that may have a pattern → what they are about."""

ALLOWED = (
    "a tool's name (shell, write_file, ...), edit, read, fetch, mcp, memory or delegate alone; "
    "shell(WORDS) or shell(WORDS:*); edit(GLOB), read(GLOB); fetch(HOST); mcp(SERVER), "
    "mcp(SERVER:TOOL)"
)

_OTHER_NAME_OF_MCP = re.compile(r"mcp__((?:(?!__)[^()\s])+(?:__[^()\s]+)?)")
"""An MCP server or one of its tools, as other agents write it and as the model calls it."""

_VENDORS_NAMES = {"apply_patch": "edit", "str_replace_based_edit_tool": "edit", "bash": "shell"}
"""A vendor's own tool → the rule name of the tool of kode that runs its calls."""

_SYSTEM_FOLDER = re.compile(r"\A(?:(?:/usr(?:/local)?)?/s?bin|/opt/homebrew/bin)/(?=[^/]*\Z)")

_GIT_OPTIONS_WITH_VALUE = ("-C", "-c", "--git-dir", "--work-tree", "--namespace")
_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True)
class Rule:
    name: str  # a family, or a tool's name
    pattern: str = ""
    """The text in the parentheses, in canonical form; "" for a bare name."""
    why: str = field(default="", compare=False)  # what a refusal says instead of naming the rule

    def __str__(self) -> str:
        return f"{self.name}({self.pattern})" if self.pattern else self.name

    @property
    def kind(self) -> str:
        """What its pattern is about; "" for a rule that takes no pattern."""
        return KIND_OF.get(self.name, "")


class Rules(Value):
    """The rules of config and flags: no heuristic overrides them. Deny beats ask beats allow."""

    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()


def parse(text: str) -> Rule:
    """Parses a rule. Raises: ConfigError that names what is allowed."""
    if of_server := _OTHER_NAME_OF_MCP.fullmatch(text.strip()):
        return Rule("mcp", of_server[1].replace("__", ":", 1))
    match = re.fullmatch(r"([a-z_]+)(?:\((.*)\))?", text.strip(), re.DOTALL)
    if match is None or (match[2] is not None and match[1] not in KIND_OF):
        raise ConfigError(f"{text!r} is not a permission rule. Allowed are {ALLOWED}.")
    name, pattern = match.groups()
    if pattern is None:
        return Rule(_VENDORS_NAMES.get(name, name))  # the tools are not known here
    kind, pattern = KIND_OF[name], pattern.strip()
    if not pattern or kind in ("memory", "delegate"):
        fault = "takes nothing in parentheses" if pattern else "has nothing in its parentheses"
        raise ConfigError(f"{text!r} {fault}: write `{name}` for all.")
    if kind == "fetch":
        return Rule(name, host_of(pattern) or pattern.lower())
    if kind != "shell":
        is_folder = kind in ("edit", "read") and pattern.endswith("/")
        return Rule(name, f"{pattern}**" if is_folder else pattern)
    prefix = pattern.endswith((":*", " *"))
    try:
        words = shlex.split(pattern[:-2] if prefix else pattern)
    except ValueError as error:
        raise ConfigError(f"{text!r}: {error}. Close the quotes, or double a backslash.") from None
    if not words or words == ["*"]:
        raise ConfigError(f"{text!r} names no command: write `shell` for every command.")
    if not prefix and words[-1].endswith(":*"):
        raise ConfigError(f"{text!r}: put `:*` after the quotes, as in shell('a b':*).")
    return make_shell_rule(words, prefix=prefix)


def parse_all(texts: Iterable[str]) -> tuple[Rule, ...]:
    """Several rules, in order. Raises: ConfigError for the first invalid one."""
    return tuple(parse(text) for text in texts)


def make_shell_rule(words: Sequence[str], *, prefix: bool) -> Rule:
    """The rule that matches exactly these words, or (prefix) every command beginning with them."""
    return Rule("shell", shlex.join(words) + (":*" if prefix else ""))


def names_tool(rule: Rule, tool: Tool) -> bool:
    """Whether the rule names this tool or its family; the pattern is ignored."""
    family = {"run": "shell", "memory-read": "memory"}.get(tool.effect, tool.effect)
    return rule.name == tool.name or rule.name in {family} & {*FAMILIES}


def matches_argv(rule: Rule, argv: Sequence[str] | None, *, loosely: bool = False) -> bool:
    """Whether a shell rule matches one command.

    `loosely` is for deny and ask rules: a program in any folder matches by its base name, and git's
    global options are ignored.
    """
    if rule.kind != "shell" or not rule.pattern or not argv:
        return rule.kind == "shell" and not rule.pattern
    words, prefix = _split_pattern(rule.pattern)
    forms = [[strip_system_folder(argv[0]), *argv[1:]]]
    if loosely:
        name, rest = os.path.basename(argv[0]), list(argv[1:])
        forms.append([name, *rest])
        while name == "git" and rest and rest[0].startswith("-"):
            del rest[: 2 if rest[0] in _GIT_OPTIONS_WITH_VALUE else 1]
        forms.append([name, *rest])
    wanted = [strip_system_folder(words[0]), *words[1:]]
    return any(form[: len(wanted) if prefix else None] == wanted for form in forms)


def matches_path(rule: Rule, path: str, place: Workplace, *, loosely: bool = False) -> bool:
    """Whether an edit or read rule matches an absolute path.

    An allow rule must match the path with its symlinks resolved; a deny or ask rule (`loosely`)
    matches it either way.
    """
    pattern = rule.pattern
    if not pattern:
        return True
    if pattern == "~" or pattern.startswith("~/"):
        pattern = str(place.user_home) + pattern[1:]
    forms = {real(path)} | ({os.path.normpath(path)} if loosely else set())
    projects = {str(place.project), real(place.project)}
    if "/" not in pattern:
        inside = [form for form in forms if loosely or is_below_any(form, projects)]
        return any(_compile_glob(pattern).fullmatch(os.path.basename(form)) for form in inside)
    patterns = {os.path.normpath(os.path.join(base, pattern)) for base in projects}
    return any(_compile_glob(it).fullmatch(form) for it in patterns for form in forms)


def matches_url(rule: Rule, url: str) -> bool:
    """Whether a fetch rule matches a URL's host."""
    host, pattern = host_of(url), rule.pattern
    return pattern in ("", host) or (pattern.startswith("*.") and host.endswith(pattern[1:]))


def host_of(url: str) -> str:
    """The host of an http or https URL in lower case; "" if the URL could be read in two ways."""
    is_clear = re.match(r"\s*https?://", url, re.IGNORECASE) and "\\" not in url
    return registry.host_of(url.strip()).lower().rstrip(".") if is_clear else ""


def strip_system_folder(program: str) -> str:
    """Removes a system folder from a program: `/bin/ls` is `ls`; one elsewhere keeps its folder."""
    return _SYSTEM_FOLDER.sub("", program)


@functools.lru_cache(maxsize=512)
def _split_pattern(pattern: str) -> tuple[list[str], bool]:
    return shlex.split(pattern.removesuffix(":*")), pattern.endswith(":*")


@functools.lru_cache(maxsize=512)
def _compile_glob(pattern: str) -> re.Pattern[str]:
    """`**` crosses folders, `*` and `?` do not; everything else is literal."""
    parts = re.findall(r"\*\*/|\*\*|.", pattern, re.DOTALL)
    return re.compile("".join(_WILD.get(part) or re.escape(part) for part in parts), re.DOTALL)

"""The list of commands, and the parser that all of them use."""

import argparse
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from kode import installed
from kode.cli.screen.lines import align_pairs, fold
from kode.errors import EXIT_OK, ConfigError

if TYPE_CHECKING:
    from kode.cli.screen.printer import Answered

T = TypeVar("T")
Commands = Mapping[str, tuple[Callable[["Parser", Sequence[str]], "Answered"], str]]
"""A group's commands: name → (function of its parser and arguments, summary)."""

COMMANDS = {
    name: (f"kode.cli.commands.{module or name}", about)
    for name, module, about in (
        ("run", "", "run one task, print the answer, exit"),
        ("continue", "interactive:continue_newest", "resume the newest session of this directory"),
        ("session", "", "list, search, show, fork, export, check sessions"),
        ("memory", "", "show, search, change and undo what kode remembers"),
        ("cost", "session:show_cost", "show tokens and cost, and why a cache was lost"),
        ("mcp", "", "list, add, approve and test MCP servers"),
        ("permissions", "config:run_permissions", "list, remove, restore rules and answers"),
        ("extensions", "", "list and approve skills, hooks ..., add bundles"),
        ("plugin", "", "list plug-ins, and turn them on and off"),
        ("config", "", "show, set and check settings"),
        ("init", "", "guided set-up"),
        ("demo", "", "take a two-minute tour, no key needed"),
        ("completion", "init:print_completion", "print a completion script for bash, zsh or fish"),
        ("doctor", "", "check this machine, and say how to fix what is missing"),
        ("subagent", "", "run one focused task in its own process"),
        ("extension", "extensions", ""),
        ("skills", "extensions skills", ""),
        ("commands", "extensions commands", ""),
        ("agents", "extensions agents", ""),
        ("hooks", "extensions hooks", ""),
        ("trust", "extensions trust", ""),
        ("exec", "run", ""),
    )
}
"""Name → ("MODULE[:FUNCTION] [FIRST ARGUMENTS]", summary). An alias has no summary, so that no list
shows it."""

HINTS: Mapping[str, str] = {
    "login": "`kode init` sets up a key.",
    "logout": "Remove the key from the file `kode config path` prints, or unset its variable.",
    "update": "Upgrade kode the way it was installed: docs/install.md has the lines.",
    "/add-dir": "Start kode with `--add-dir DIR`, or set `add_dirs` in the config.",
    "/config": "`kode config show` in a shell shows the settings; `kode config set KEY VALUE`.",
    "/doctor": "`kode doctor` in a shell checks this machine.",
    "/login": "Quit, then `kode init --force` sets up another key; `kode doctor` names it.",
}
"""Commands of the shell and of the prompt that kode lacks → what to do instead."""

MAX_FLAG_COLUMNS = 22  # the widest of the first flags, with its value
FIRST = ("run", "continue", "session", "memory", "mcp", "config", "init", "doctor", "demo")
"""The commands that `kode --help` lists."""


def _parse_number(
    kind: Callable[[str], float], allowed: str, fits: Callable[[float], bool]
) -> Callable[[str], float]:
    def number(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or not fits(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {allowed}")
        return value

    return number


def _parse_mode(text: str) -> str:
    from kode.permissions.names import MODE_CALLED, MODE_MEANS

    if text not in MODE_CALLED:
        raise argparse.ArgumentTypeError(f"{text!r} is not a mode: {', '.join(MODE_MEANS)}")
    return MODE_CALLED[text]


KINDS: Mapping[str, Callable[[str], float]] = {
    "whole": _parse_number(int, "a whole number of 1 or more", lambda value: value >= 1),
    "natural": _parse_number(int, "a whole number of 0 or more", lambda value: value >= 0),
    "port": _parse_number(int, "a port: a number up to 65535", lambda value: 0 <= value <= 65_535),
    "seconds": _parse_number(float, "a number of seconds above 0", lambda value: value > 0),
    "amount": _parse_number(float, "an amount above 0", lambda value: value > 0),
}
"""The kinds of numbers that a flag may name as its `type` → their parsers."""


def plugin_commands() -> dict[str, tuple[str, str]]:
    """Returns the top-level commands that plug-ins add, in the form of `COMMANDS`; names that kode
    uses itself are left out."""
    return {
        name: (command.run, command.summary)
        for name, (_, command) in installed.find_additions("commands").items()
        if " " not in name and name not in COMMANDS
    }


def is_completing() -> bool:
    """Whether the shell's completion script has called kode, to get the possible next words."""
    return "_ARGCOMPLETE" in os.environ


class _Help(argparse.HelpFormatter):
    """A help formatter that breaks no line at a hyphen and lists each flag once."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any = None) -> None:
        needed = [action for action in actions if action.required or not action.option_strings]
        self._prog += " [flags]" if len(needed) < len([*actions]) else ""
        super().add_usage(usage, needed, (), prefix)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return fold(" ".join(text.split()), width).split("\n")

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return fold(text, width)


class Parser(argparse.ArgumentParser):
    """An argparse parser with kode's errors: one sentence, the nearest flag, exit 3. A flag's
    `type` may be one of `KINDS` by name, `type="seconds"`, or "mode", a permission mode."""

    first_flags: Mapping[str, str] = {}
    """The title of a group → its flags that help lists without `--all`. Only parsers of a
    conversation have it, and plug-ins may add flags to these."""

    def __init__(self, prog: str, description: str = "", **options: Any) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=_Help,
            **options,  # argparse passes `color` to subparsers since 3.14
        )
        for name, kind in KINDS.items():
            self.register("type", name, kind)
        self.register("type", "mode", _parse_mode)

    def format_help(self) -> str:
        """Returns what `--help` prints: only the first flags, if the parser has any."""
        if not self.first_flags:
            return super().format_help()
        known, width = self._option_string_actions, shutil.get_terminal_size().columns
        blocks = [self.format_usage().strip(), fold(self.description or "", width)]
        for title, names in self.first_flags.items():
            actions = [known[name] for name in names.split() if name in known]
            rows = [(f"{it.option_strings[-1]} {it.metavar or ''}", str(it.help)) for it in actions]
            columns = [(name.ljust(MAX_FLAG_COLUMNS), about) for name, about in rows]
            blocks += [f"{title}\n{align_pairs(columns, width)}"] if rows else []
        return "\n".join([*blocks, f"All flags: `{self._where_listed} --help --all`\n"])

    def error(self, message: str) -> NoReturn:
        """Raises ConfigError instead of exiting."""
        wrong = f"{self.prog}: {message.removeprefix('argument ')}."
        raise ConfigError(f"{wrong} `{self._where_listed} --help` lists what is allowed.")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raises ConfigError for a value that is none of the choices."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        name = (*action.option_strings, action.metavar or action.dest)[0]
        wrong, listed = f"{name} cannot be {value!r}", "It is one of"
        if isinstance(action, argparse._SubParsersAction):
            wrong, listed = f"unknown command {value!r}", "The commands are"
        raise _unknown_choice_error(f"{self.prog}: {wrong}", str(value), listed, choices)

    def add_flags(self, *rows: tuple[Any, ...]) -> None:
        """Adds flags from rows of syntax (`-m --model M`), help and perhaps argparse's options."""
        for written, about, *more in rows:
            names = [word for word in written.split() if word.startswith("-")]
            metavar = written.removeprefix(" ".join(names)).strip()
            kind = {"metavar": metavar} if metavar else {"action": "store_true"}
            self.add_argument(*names, help=about, **{**kind, **dict(*more)})

    def parse(self, argv: Sequence[str], *, mixed: bool = False) -> argparse.Namespace:
        """Parses all of `argv`; an unknown flag is an error that names the nearest one. `mixed`
        allows flags between positional arguments, which argparse does not support for every parser.
        Raises: ConfigError. During completion, it prints the possible words and exits."""
        flags = self._option_string_actions.keys() - {"-h", "--help"}
        strange = (word for word in argv if word[:1] == "-" and word.partition("=")[0] not in flags)
        if self.first_flags and (is_completing() or any(strange)):
            before = {action.dest for action in self._actions}
            for plugin in filter(lambda plugin: plugin.flags, installed.enabled_plugins()):
                installed.call_part(plugin, plugin.flags, self)
            self.set_defaults(of_plugins={action.dest for action in self._actions} - before)
        if is_completing():
            self._print_completions()
        if "--all" in argv:
            self.first_flags = {}
        parse = self.parse_known_intermixed_args if mixed else self.parse_known_args
        arguments, unknown = parse(list(argv))
        self._find_task(arguments)
        if not unknown:
            return arguments
        word = unknown[0].partition("=")[0]
        if not word.startswith("-"):
            takes_task = any(action.dest == "task" for action in self._actions)
            hint = f"`{self._where_listed} --help` lists what is allowed."
            hint = "Put a task in quotes, and a command before its flags." if takes_task else hint
            raise ConfigError(f"{self.prog}: unexpected argument {word!r}. {hint}")
        raise ConfigError(
            f"{self.prog}: unknown flag {word}.{suggest(word, self._option_string_actions)} "
            f"`{self._where_listed} --help` lists the flags."
        )

    def _find_task(self, arguments: argparse.Namespace) -> None:
        """Without a task, takes a plug-in flag's optional value of several words as the task."""
        of_plugins, values = getattr(arguments, "of_plugins", ()), vars(arguments)
        for action in self._actions if values.get("task", "") is None else ():
            words = values.get(action.dest)
            is_optional = action.dest in of_plugins and action.nargs == "?"
            if is_optional and isinstance(words, str) and len(words.split()) > 1:
                values["task"], values[action.dest] = words, action.const

    @classmethod
    def run_group(
        cls,
        group: str,
        commands: "Mapping[str, tuple[Callable[[Parser, Sequence[str]], T], str]]",
        argv: Sequence[str],
    ) -> T | int:
        """Runs the command that `argv` begins with: one of `commands`, or one that a plug-in adds
        to the group. Without a command, or with `--help`, lists them and exits. Raises:
        ConfigError; SystemExit after listing; whatever the command raises."""
        command, *rest = argv or [""]
        if command in commands:
            run, text = commands[command]
            return run(cls(f"kode {group} {command}", text), rest)
        if (of_plugin := installed.find_command(group, command)) is not None:
            return of_plugin(rest)
        about = {name: text for name, (_, text) in commands.items()} | installed.subcommands(group)
        if not argv or argv[0] in ("-h", "--help"):
            if is_completing():
                names = cls(f"kode {group}")
                names.add_commands(about)
                names._print_completions()
            listed = align_pairs([*about.items()], shutil.get_terminal_size().columns)
            sys.stdout.write(f"usage: kode {group} COMMAND ...\n\n{listed}\n")
            raise SystemExit(EXIT_OK if argv else ConfigError.exit_code)
        wrong = f"kode {group}: unknown command {command!r}"
        raise _unknown_choice_error(wrong, command, "The commands are", about)

    def add_commands(self, commands: Mapping[str, str]) -> None:
        """Adds subcommands (name → summary), which only completion uses."""
        below = self.add_subparsers()
        for name, about in commands.items():
            below.add_parser(name, help=about)

    def _print_completions(self) -> None:
        """Prints the words that may follow the typed ones, and exits."""
        import argcomplete

        # Tells argcomplete how many words of the line name the command; its arguments follow them.
        os.environ["_ARGCOMPLETE"] = str(len(self.prog.split()))
        argcomplete.autocomplete(self, always_complete_options=False)

    @property
    def _where_listed(self) -> str:
        """The command whose `--help` lists the flags; `kode --help` lists commands instead."""
        return "kode run" if self.prog == "kode" else self.prog


def _unknown_choice_error(wrong: str, word: str, listed: str, words: Iterable[str]) -> ConfigError:
    return ConfigError(f"{wrong}.{suggest(word, words)} {listed}: {', '.join(words)}.")


def suggest(word: str, words: Iterable[str]) -> str:
    """Returns ` Did you mean X?` if `word` looks like X misspelled; "" if no word is that close."""
    import difflib

    of_its_length = [name for name in words if abs(len(name) - len(word)) <= 2]
    similar = difflib.get_close_matches(word, of_its_length, n=1, cutoff=0.66)
    return f" Did you mean {similar[0]}?" if similar else ""

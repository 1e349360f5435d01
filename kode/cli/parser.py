"""The commands there are, and the parser that each of them uses."""

import argparse
import difflib
import re
from collections.abc import Iterable, Sequence
from typing import NoReturn

from kode.errors import ConfigError

COMMANDS = {
    "run": ("kode.cli.commands.run", "do one task, print the answer, exit"),
    "continue": ("kode.cli.commands.resume", "resume the newest session of this directory"),
    "session": ("kode.cli.commands.session", "list, show, trim, fork, export, check sessions"),
    "memory": ("kode.cli.commands.memory", "see, search, change and undo what kode remembers"),
    "init": ("kode.cli.commands.init", "guided set-up"),
    "config": ("kode.cli.commands.config", "show every setting and where it came from"),
    "doctor": ("kode.cli.commands.doctor", "what works on this machine, and the next step"),
    "demo": ("kode.cli.commands.demo", "the whole experience, without a key"),
    "subagent": ("kode.cli.commands.subagent", "one focused task in a process of its own"),
    "completion": ("kode.cli.commands.completion", "a completion script for bash, zsh or fish"),
}


class Described(Exception):
    """Carries a parser whose flags are asked for, instead of the parsing of a command line."""

    def __init__(self, parser: "Parser") -> None:
        super().__init__()
        self.parser = parser


class Parser(argparse.ArgumentParser):
    """argparse whose errors are kode's: one sentence, the nearest flag, exit 3."""

    describing = False
    """While True, `parse` raises Described: how `completion` learns every command's flags."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """Raises ConfigError instead of exiting."""
        wrong = re.fullmatch(
            r"argument COMMAND: invalid choice: '(.*)' \(choose from (.*)\)", message
        )
        if wrong:
            known = re.findall(r"[\w-]+", wrong[2])
            raise ConfigError(
                f"{self.prog}: unknown command {wrong[1]!r}.{nearest(wrong[1], known)} "
                f"The commands are: {', '.join(known)}."
            )
        raise ConfigError(f"{self.prog}: {message}. `{self.prog} --help` lists what is allowed.")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parses all of `argv`; an unknown flag is an error that names the nearest one."""
        if Parser.describing:
            raise Described(self)
        arguments, unknown = self.parse_known_args(list(argv))
        if not unknown:
            return arguments
        word = unknown[0].partition("=")[0]
        if not word.startswith("-"):
            raise ConfigError(
                f"{self.prog}: unexpected argument {word!r}. Put a task of several words in quotes."
            )
        raise ConfigError(
            f"{self.prog}: unknown flag {word}.{nearest(word, self._option_string_actions)} "
            f"`{self.prog} --help` lists the flags."
        )


def nearest(word: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """` Did you mean X?`, or nothing where nothing is near."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f" Did you mean {near[0]}?" if near else ""

"""`kode completion bash|zsh|fish`: prints a script that completes kode's command line there.

The script is made from what `command_line` finds out. What is different each time (session ids,
models) it asks for with `kode completion --values KIND`, which therefore imports little. The
scripts' own languages are in `completion_scripts`.
"""

import argparse
import contextlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kode.cli.parser import Parser
from kode.errors import EXIT_OK, ConfigError

SHELLS = ("bash", "zsh", "fish")

INSTALL = """\
To use it now:      {now}
To keep it:         {keep}
"""
NOW_AND_KEEP = {
    "bash": ('eval "$(kode completion bash)"', "add that line to ~/.bashrc"),
    "zsh": ('eval "$(kode completion zsh)"', "add that line to ~/.zshrc, after compinit"),
    "fish": (
        "kode completion fish | source",
        "kode completion fish > ~/.config/fish/completions/kode.fish",
    ),
}


def main(argv: Sequence[str]) -> int:
    """Runs `kode completion ...` and returns its exit code. Raises: ConfigError."""
    parser = Parser(
        "kode completion", "Prints a script that completes kode's commands, flags and session ids."
    )
    parser.add_argument("shell", nargs="?", choices=SHELLS, metavar="SHELL", help="bash, zsh, fish")
    parser.add_argument("--values", choices=("sessions", "models"), help=argparse.SUPPRESS)
    parser.epilog = "\n\n".join(
        f"{shell}:\n" + INSTALL.format(now=now, keep=keep)
        for shell, (now, keep) in NOW_AND_KEEP.items()
    )
    arguments = parser.parse(argv)
    if arguments.values:
        for value, what in values(arguments.values):
            sys.stdout.write(f"{value}\t{what}\n")
        return EXIT_OK
    if arguments.shell is None:
        raise ConfigError(
            f"kode completion: name the shell: {', '.join(SHELLS)}. "
            "`kode completion --help` says how to use what it prints."
        )
    from kode.cli.commands.command_line import contexts
    from kode.cli.commands.completion_scripts import SCRIPTS

    sys.stdout.write(SCRIPTS[arguments.shell](contexts()))
    return EXIT_OK


def values(kind: str) -> Iterable[tuple[str, str]]:
    """The sessions, or the models, that may be named now; one a line in the script's hands."""
    from kode.cli.prompt.choices import model_choices, session_choices
    from kode.paths import config_file, home

    if kind == "sessions":
        return session_choices(home(), None)
    return model_choices(None, _configured_models(config_file(home())))


def _configured_models(path: Path) -> list[str]:
    """The models that a config file names, as far as it can be read: its faults are told when it
    is used."""
    with contextlib.suppress(OSError, ValueError):
        config = json.loads(path.read_bytes())
        parts = [config, *_object(_object(config).get("providers")).values()]
        named = [_object(part).get("model") for part in parts]
        priced = _object(_object(config).get("prices"))
        return [name for name in (*named, *priced) if isinstance(name, str) and name.isprintable()]
    return []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

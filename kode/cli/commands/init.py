"""`kode init`: guided set-up, and the first run of a machine without key or config; and `kode
completion`, which sets up a shell.

Offers the local servers that answer, the services of `kode.registry`, another address, or the demo;
tests the choice, says what it writes and where, and writes a config file with mode 0600, never
overwriting one without `--force`.
"""

import asyncio
import getpass
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kode import durable, paths
from kode.cli.parser import Parser
from kode.cli.screen.lines import one_line
from kode.cli.screen.menu import Choice
from kode.cli.screen.printer import say
from kode.cli.screen.screen import Screen, open_screen
from kode.errors import EXIT_OK, ConfigError, UserError
from kode.registry import PROVIDERS, ProviderRow, provider_row
from kode.values import validator

if TYPE_CHECKING:
    from kode.providers.server import ServerAnswer

Settings = dict[str, Any]
"""The settings to write: `provider`, and its section of `providers`."""
T = TypeVar("T")

LIST_TIMEOUT_S = 2.0  # the person waits; the names can be typed

EPILOG = """\
bash: add to ~/.bashrc                  eval "$(kode completion bash)"
zsh:  add to ~/.zshrc, after compinit   eval "$(kode completion zsh)"
fish: kode completion fish > ~/.config/fish/completions/kode.fish
"""


class _Quit(UserError):
    """The person leaves without choosing."""


def main(argv: Sequence[str]) -> int:
    """Runs `kode init` and returns its exit code. Raises: ConfigError if there is a config already;
    UserError without a terminal."""
    parser = Parser("kode init", "Guided set-up; writes a config file that only you can read.")
    about = "write $KODE_HOME/config.json (the default; project files may not hold keys)"
    parser.add_flags(("--global", about), ("--force", "replace an existing config file"))
    arguments = parser.parse(argv)
    target = paths.config_file(paths.kode_home())
    if target.exists() and not arguments.force:
        raise ConfigError(f"{target} exists already. Edit it, or replace it: `kode init --force`.")
    if sys.stdin is None or not sys.stdin.isatty():
        raise UserError(
            "`kode init` asks questions, and there is no terminal to ask at. Set your service's "
            "variable instead, like OPENAI_API_KEY: docs/models.md lists the services."
        )
    code = _set_up(open_screen(), "Sets up a model, and tests it with one free request.")
    if code is None:
        say("Run `kode` in your project. `kode doctor` checks everything else.")
    return code or EXIT_OK


def first_run(screen: Screen) -> int | None:
    """Sets up before the first prompt; returns None to continue to the prompt, or an exit status.
    Leaving is no fault. Raises: UserError if nothing could be set up."""
    try:
        return _set_up(screen, "Welcome to kode. It needs a model to work with.")
    except _Quit as quitting:
        screen.print(str(quitting))
        return EXIT_OK


def _set_up(screen: Screen, welcome: str) -> int | None:
    """Writes what the person chooses. If that is the demo, runs it and returns its status."""
    target = paths.config_file(paths.kode_home())
    screen.print(
        f"{welcome}\nYour answers are saved in {paths.short_path(target)}; only you can read it.\n",
        "bold",
        welcome.partition(". ")[0],
    )
    settings = choose_provider(screen)
    if settings is None:
        from kode.cli.commands import demo

        return demo.main([])
    _write_config(screen, target, settings)
    return None


def choose_provider(screen: Screen) -> Settings | None:
    """Asks how to reach a model, and tests it. Returns the settings to write, or None for the
    demo. Raises: UserError if the person leaves."""
    screen.show_line("Checking for local servers…")
    servers = find_local_servers()
    if not servers:
        screen.print("No local server found (Ollama, LM Studio, llama.cpp, vLLM).", "dim")
    ways: dict[str, Callable[[], Settings | None]] = {
        f"{row.shown} on this machine ({reached.url})": partial(_use_local, screen, row, reached)
        for row, reached in servers
    }
    services = (row for row in PROVIDERS if row.needs_key or row.client)
    ways |= {row.shown: partial(_use_service, screen, row) for row in services}
    ways["a server at another address"] = partial(_use_address, screen)
    ways["a demo first: everything works, no key needed"] = lambda: None
    return _pick(screen, "How should kode reach a model?", ways)()


def _use_local(screen: Screen, row: ProviderRow, reached: "ServerAnswer") -> Settings:
    if reached.state != "refused" and not reached.models:
        raise UserError(f"{row.shown} has loaded no model yet. Load one, then `kode init`.")
    settings = _with_values({"provider": row.name}, base_url=reached.url)
    return _choose_model(screen, settings, reached)


def _use_service(screen: Screen, row: ProviderRow) -> Settings:
    settings: Settings = {"provider": row.name}
    if row.needs_key:
        example = row.url_example
        url = os.environ.get(row.url_variable) or (example and _ask_url(screen, example))
        return _ask_key(screen, _with_values(settings, base_url=url))
    variables = ", ".join(filter(None, (row.key_variable, *row.reads)))
    screen.print(
        f"kode keeps nothing for {row.shown}: its SDK finds your login, or reads {variables}.\n"
        f"It asks for {row.default_model}; `providers.{row.name}.model` names another."
    )
    return settings


def _use_address(screen: Screen) -> Settings:
    settings = _with_values({"provider": "server"}, base_url=_ask_url(screen))
    screen.show_line("Testing it…")
    return _choose_model(screen, settings, _reach_server(settings))


def _ask_key(screen: Screen, settings: Settings) -> Settings:
    """Asks for a key that the server does not refuse, and a model; returns all settings."""

    def test(key: str) -> Settings | None:
        if not (key and key.isascii() and key.isprintable() and " " not in key):
            screen.print("A key is one word without spaces.")
            return None
        screen.show_line("Testing it…")
        reached = _reach_server(complete := _with_values(settings, api_key=key))
        if reached.state == "refused":
            screen.print(f"✗ {reached.url}: {reached.detail}.", "error", "✗")
            return None
        return _choose_model(screen, complete, reached)

    question = "API key (not shown while you type): "
    return _ask(screen, question, test, "Enter another key", read=getpass.getpass)


def _choose_model(screen: Screen, settings: Settings, reached: "ServerAnswer") -> Settings:
    """Returns the settings with a model, unless the server offers the provider's default, and
    with a key if the server refused to answer without one."""
    if reached.state == "refused":
        screen.print("It requires a key.")
        return _ask_key(screen, settings)
    if reached.state == "ok":
        screen.print(f"● It works: {reached.url} answers.", "good", "●")
    else:
        screen.print(f"Not tested ({reached.detail}): run `kode doctor` later.", "warning")
    row, names = provider_row(settings["provider"]), reached.models
    default = row.default_model if row is not None else ""
    if default and not reached.lacks(default):
        return settings
    if names:
        return _with_values(settings, model=_pick(screen, "Which model?", {it: it for it in names}))
    name = _ask(screen, "Model name: ", lambda name: name or None, "Enter the name of a model")
    return _with_values(settings, model=name)


def _ask_url(screen: Screen, example: str = "https://host/v1 or 192.168.1.5:8080") -> str:
    hint = "Enter a host and port, like 192.168.1.5:8080, or a whole URL"
    return _ask(screen, f"Address, e.g. {example}: ", _read_url, hint)


def _pick(screen: Screen, question: str, choices: Mapping[str, T]) -> T:
    """Asks for a choice, in a menu or by its number or text, and returns its value. Does not
    ask about a single choice."""
    if len(choices) == 1:
        return next(iter(choices.values()))
    from kode.cli.prompt.repl import pick_below

    rows = [Choice(text, text, str(number)) for number, text in enumerate(choices, 1)]
    pick = lambda title: asyncio.run(pick_below(screen, title, rows)) or "q"  # noqa: E731
    return _ask(screen, question, choices.get, "Enter one of these numbers or names", pick)


def _ask(
    screen: Screen,
    question: str,
    use: Callable[[str], T | None],
    hint: str,
    read: Callable[[str], str] | None = None,
) -> T:
    """Returns what `use` makes of an answer; asks again as long as that is None. Raises:
    UserError if the person leaves (q, Ctrl-C, Ctrl-D)."""
    while True:
        try:
            answer = read(question) if read else asyncio.run(screen.read_answer(question))
        except (EOFError, KeyboardInterrupt):
            answer = None
        if answer is None or answer.strip().lower() in ("q", "quit", "exit"):
            raise _Quit("Nothing was set up. Run `kode init` when ready, or try `kode demo`.")
        if (result := use(answer.strip())) is not None:
            return result
        screen.print(f"{hint}, or q to quit.", "warning")


def _write_config(screen: Screen, target: Path, settings: Settings) -> None:
    """Writes the settings (0600, folder 0700), and says so. Raises: StorageError."""
    durable.make_folder(target.parent)
    durable.replace_file(target, (json.dumps(settings, indent=2) + "\n").encode())
    row, part = provider_row(settings["provider"]), settings.get("providers", {})
    model = part.get(settings["provider"], {}).get("model") or (row and row.default_model)
    screen.print(
        f"Model: {one_line(model or 'not chosen yet')} (/model changes it)\n"
        f"Saved {paths.short_path(target)}; `kode config show` shows every value.\n"
    )


def list_local_addresses() -> tuple[tuple[ProviderRow, str], ...]:
    """Returns (server, usual address) for the model servers that people run themselves."""
    rows = {row.name: row for row in PROVIDERS if row.is_local}
    further = (rows["llamacpp"], "http://127.0.0.1:9931/v1")  # llama.cpp is moving to this port
    return (*((row, row.own_url) for row in rows.values()), further)


def find_local_servers() -> list[tuple[ProviderRow, "ServerAnswer"]]:
    """The model servers that answer on their usual local ports."""
    answers = [
        (row, _reach_server(_with_values({"provider": row.name}, base_url=url), LIST_TIMEOUT_S))
        for row, url in list_local_addresses()
    ]
    return [it for it in answers if it[1].state not in ("unreachable", "odd")]


def _reach_server(settings: Settings, *timeout_s: float) -> "ServerAnswer":
    from kode.config.choice import resolve_provider
    from kode.config.model import Config
    from kode.providers import server

    config = validator(Config).validate_python(settings)
    return server.reach_server(resolve_provider(config, {}), *timeout_s)


def _with_values(settings: Settings, **values: str | None) -> Settings:
    """Returns the settings with more values for their provider; a default address is left out."""
    name = settings["provider"]
    row, part = provider_row(name), dict(settings.get("providers", {}).get(name, {}))
    part |= {key: value for key, value in values.items() if value}
    if row is not None and part.get("base_url") == row.own_url:
        del part["base_url"]
    return {"provider": name, "providers": {name: part}} if part else {"provider": name}


def _read_url(answer: str) -> str | None:
    """Returns the URL that an answer names; None for a single word and the like. The default scheme
    is `http` in the local network, where servers seldom have a certificate, else `https`."""
    from kode.config.choice import is_url
    from kode.providers.server import is_near

    if "://" not in answer:
        if not any(sign in answer for sign in ".:/") and answer != "localhost":
            return None
        answer = f"http://{answer}"
        if is_url(answer) and not is_near(answer):
            answer = answer.replace("http", "https", 1)
    return answer if is_url(answer) and " " not in answer else None


def print_completion(argv: Sequence[str]) -> int:
    """Runs `kode completion ...`: prints a script that calls kode at each Tab, see
    `Parser.parse`. Raises: ConfigError."""
    from argcomplete.shell_integration import shellcode

    about = "Prints a script that completes kode's commands, flags and what they take."
    parser = Parser("kode completion", about)
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL")
    parser.epilog = EPILOG
    sys.stdout.write(shellcode(["kode"], shell=parser.parse(argv).shell))
    return EXIT_OK

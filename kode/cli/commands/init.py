"""`kode init`: guided set-up, and the first run of a machine without key or config.

Offers a key, a local server that it has found, or the demo; tests the choice, says what it writes
and where, and writes a config file with mode 0600, never overwriting one without `--force`.
"""

import difflib
import getpass
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import durable, paths
from kode.cli.parser import Parser
from kode.cli.screen.lines import fold, one_line
from kode.errors import EXIT_OK, ConfigError, UserError
from kode.registry import COMPATIBLE, owner_of_key

if TYPE_CHECKING:
    from kode.cli.commands.diagnosis import Reached
    from kode.config.choice import ProviderChoice

LOCAL_SERVERS = (
    ("Ollama", 11434),
    ("LM Studio", 1234),
    ("llama.cpp", 8080),
    ("llama.cpp", 9931),
    ("vLLM", 8000),
)
"""Servers that people run at home, on their usual ports; all support Chat Completions. llama.cpp is
moving from the first of its ports to the second."""

SERVICES = (
    ("sk-or-", "OpenRouter", "https://openrouter.ai/api/v1"),
    ("gsk_", "Groq", "https://api.groq.com/openai/v1"),
    ("xai-", "xAI", "https://api.x.ai/v1"),
    ("AIza", "Google Gemini", "https://generativelanguage.googleapis.com/v1beta/openai"),
)
"""Compatible services with recognizable keys: key prefix, name, base URL."""

LIST_TIMEOUT_S = 2.0
LISTED_MODELS = 20
MAX_TRIES = 3


@dataclass(frozen=True, kw_only=True)
class LocalServer:
    name: str
    reached: "Reached"


def main(argv: Sequence[str]) -> int:
    """Runs `kode init` and returns its exit code."""
    parser = Parser("kode init", "Guided set-up; writes a config file that only you can read.")
    parser.add_argument(
        "--global",
        action="store_true",
        dest="for_all",
        help="write $KODE_HOME/config.json (the default; project files may not hold keys)",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing config file")
    arguments = parser.parse(argv)
    target = paths.config_file(paths.home())
    if target.exists() and not arguments.force:
        raise ConfigError(
            f"{target} exists already. Edit it, see it with `kode config show`, or replace it "
            "with `kode init --force`."
        )
    if sys.stdin is None or not sys.stdin.isatty():
        raise UserError(
            "`kode init` asks questions, and there is no terminal to ask at. In scripts set "
            "OPENAI_API_KEY or ANTHROPIC_API_KEY instead, or write the file yourself: "
            "docs/configuration.md has every key."
        )
    _say(
        f"Sets up a model. Your answers are saved in {target} (only you can read it) and tested "
        "with one free request.\n"
    )
    settings = choose()
    if settings is None:
        return _demo()
    write_config(target, settings)
    _say("Run `kode` in your project. `kode doctor` checks everything else.")
    return EXIT_OK


def first_run(home: Path) -> int | None:
    """Sets up before the first prompt; returns None to continue to the prompt, or an exit code.

    Raises: UserError if the person leaves without choosing.
    """
    _say(
        "Welcome to kode. It needs a model to work with; nothing is set up yet.\n"
        f"Your answers are saved in {paths.config_file(home)}; only you can read it.\n"
    )
    settings = choose()
    if settings is None:
        return _demo()
    write_config(paths.config_file(home), settings)
    return None


def choose() -> dict[str, Any] | None:
    """Asks how to reach a model; the settings to write, or None for the demo.

    Raises: UserError if the person leaves.
    """
    servers = find_local_servers()
    options = [("an API key (OpenAI, Anthropic, or a compatible service)", "key")]
    options += [
        (f"{s.name} on this machine ({s.reached.url})", str(i)) for i, s in enumerate(servers)
    ]
    options += [("a server at another address", "address")]
    options += [("a demo first: everything works, no key needed", "demo")]
    _say("How should kode reach a model?")
    for number, (text, _) in enumerate(options, 1):
        _say(f"  {number}  {text}")
    if not servers:
        names = ", ".join(dict.fromkeys(name for name, _ in LOCAL_SERVERS))
        _say(f"     (no local server answered: looked for {names})")
    answer = _ask(f"Number [1-{len(options)}], or q to quit:  ")
    choice = options[_index(answer, len(options))][1]
    if choice == "demo":
        return None
    if choice == "key":
        return _with_key()
    if choice == "address":
        return _with_address()
    return _with_local(servers[int(choice)])


def find_local_servers() -> list[LocalServer]:
    """The model servers that answer on their usual local ports."""
    from kode.cli.commands.diagnosis import reach

    found = []
    for name, port in LOCAL_SERVERS:
        reached = reach(_choice(_settings_for(f"http://127.0.0.1:{port}/v1")), LIST_TIMEOUT_S)
        if reached.state in ("ok", "refused", "loading"):
            found.append(LocalServer(name=name, reached=reached))
    return found


def write_config(target: Path, settings: dict[str, Any]) -> None:
    """Writes the settings (0600, folder 0700), and says so. Raises: StorageError."""
    durable.make_folder(target.parent)
    durable.replace(target, (json.dumps(settings, indent=2) + "\n").encode())
    _say(f"Saved {target} (only you can read it). `kode config show` shows every value.")


def _asked_key() -> str:
    return _left(getpass.getpass, "API key (not shown while you type): ").strip()


def _with_key() -> dict[str, Any]:
    for left in reversed(range(MAX_TRIES)):
        key = _asked_key()
        if not (key and key.isascii() and key.isprintable() and " " not in key):
            _say("A key is one word without spaces. Try again, or q to quit.")
            continue
        settings, reached = _tried(key)
        if reached.state != "refused":
            return _with_model(settings, reached, has_default=owner_of_key(key) is not None)
        _say(f"{reached.url}: {reached.detail}." + (" Try again, or q to quit." if left else ""))
    raise UserError("No working key was entered. Run `kode init` again, or try `kode demo`.")


def _tried(key: str) -> "tuple[dict[str, Any], Reached]":
    """The settings for a key, and its server's answer."""
    owner = owner_of_key(key)
    provider = owner.name if owner else COMPATIBLE
    settings: dict[str, Any] = {"provider": provider, "api_key": key}
    if owner is None:
        settings["base_url"] = _base_url(key)
    elif url := os.environ.get(owner.url_variable):
        settings["base_url"] = url
    return settings, _test(settings)


def _test(settings: dict[str, Any]) -> "Reached":
    from kode.cli.commands.diagnosis import reach

    _say("Testing it ...")
    return reach(_choice(settings))


def _choice(settings: dict[str, Any]) -> "ProviderChoice":
    from kode.config.choice import ProviderChoice

    return ProviderChoice(
        name=settings["provider"],
        model=None,
        base_url=settings.get("base_url"),
        api_key=settings.get("api_key"),
    )


def _settings_for(base_url: str) -> dict[str, Any]:
    return {"provider": COMPATIBLE, "base_url": base_url}


def _with_address() -> dict[str, Any]:
    settings = _settings_for(_asked_url())
    return _with_server(settings, _test(settings))


def _with_local(server: LocalServer) -> dict[str, Any]:
    if server.reached.state == "loading":
        raise UserError(
            f"{server.name} is still loading its model. Run `kode init` again when it is ready."
        )
    if server.reached.state == "ok" and not server.reached.models:
        raise UserError(f"{server.name} has no model loaded. Load one there, then `kode init`.")
    return _with_server(_settings_for(server.reached.url), server.reached)


def _with_server(settings: dict[str, Any], reached: "Reached") -> dict[str, Any]:
    if reached.state == "refused":
        _say("It requires a key.")
        settings["api_key"] = _asked_key()
        reached = _test(settings)
    if reached.state == "refused":
        raise UserError(f"{reached.url}: {reached.detail}. Run `kode init` again.")
    return _with_model(settings, reached, has_default=False)


def _base_url(key: str) -> str:
    for beginning, name, url in SERVICES:
        if key.startswith(beginning):
            _say(f"This is a {name} key: {url}")
            return url
    _say("kode does not recognize this key. Which service is it for?")
    return _asked_url()


def _asked_url() -> str:
    from kode.config.choice import is_url

    for _ in range(MAX_TRIES):
        url = _ask("Base URL, e.g. https://host/v1 or http://192.168.1.5:8080/v1: ")
        if is_url(url):
            return url
        _say("Enter a URL that starts with https:// or http://, or q to quit.")
    raise UserError("No address was entered. Run `kode init` again, or try `kode demo`.")


def _with_model(
    settings: dict[str, Any], reached: "Reached", *, has_default: bool
) -> dict[str, Any]:
    """OpenAI and Anthropic have a default; for others asks for the model."""
    if reached.state == "ok":
        _say(f"It works: {reached.url} answers.")
    else:
        _say(f"Could not test it ({reached.detail}). Saved anyway; run `kode doctor` later.")
    if has_default:
        return settings
    names = reached.models
    if len(names) == 1:
        return {**settings, "model": names[0]}
    if 1 < len(names) <= LISTED_MODELS:
        return {**settings, "model": _pick(names, "Which model? Number")}
    for _ in range(MAX_TRIES):
        model = _ask("Model name: ")
        if model and (not names or model in names):
            return {**settings, "model": model}
        near = difflib.get_close_matches(model, names, n=3, cutoff=0.3)
        hint = f" Closest: {', '.join(map(one_line, near))}." if near else ""
        _say(f"There is no model with that name.{hint}")
    raise UserError("No model chosen. Run `kode init` again, or try `kode demo`.")


def _pick(names: Sequence[str], question: str) -> str:
    for number, name in enumerate(names, 1):
        _say(f"  {number}  {one_line(name)}")
    return names[_index(_ask(f"{question} [1-{len(names)}]: "), len(names))]


def _index(answer: str, count: int) -> int:
    for left in reversed(range(MAX_TRIES)):
        if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= count:
            return int(answer) - 1
        if left:
            answer = _ask(f"Enter a number from 1 to {count}, or q to quit:  ")
    raise UserError("Nothing was chosen. Run `kode init` when you are ready, or try `kode demo`.")


def _say(text: str) -> None:
    """Prints text, wrapped between words on a narrow terminal."""
    print(
        fold(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text, flush=True
    )


def _ask(question: str) -> str:
    return _left(input, question)


def _left(read: Any, question: str) -> str:
    """Reads one answer; leaving (q, Ctrl-C, Ctrl-D) is an error that says how to come back."""
    try:
        answer: str = read(question).strip()
    except (EOFError, KeyboardInterrupt):
        print()
        answer = "q"
    if answer.lower() in ("q", "quit", "exit"):
        raise UserError("Nothing was set up. Run `kode init` when you are ready, or `kode demo`.")
    return answer


def _demo() -> int:
    from kode.cli.commands.demo import main as demo

    return demo([])

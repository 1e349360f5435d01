"""`kode init`: guided set-up, and the first run of a machine without key or config.

Offers a key, a local server that it has found, or the demo; writes a config file with mode 0600,
never over an existing one without `--force`.
"""

import getpass
import json
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kode import durable, paths
from kode.cli.main import Parser
from kode.errors import EXIT_OK, ConfigError, UserError

LOCAL_SERVERS = (("Ollama", 11434), ("LM Studio", 1234), ("llama.cpp", 8080))
"""The servers people run at home, on their usual ports; all speak Chat Completions."""

PROBE_TIMEOUT_S = 0.3
MAX_TRIES = 3


@dataclass(frozen=True, kw_only=True)
class LocalServer:
    name: str
    base_url: str
    models: tuple[str, ...]


def main(argv: Sequence[str]) -> int:
    """Runs `kode init` and returns its exit code."""
    parser = Parser("kode init", "Guided set-up; writes a config file that only you can read.")
    parser.add_argument(
        "--global",
        action="store_true",
        dest="for_all",
        help="write $KODE_HOME/config.json (the default; a project file may hold no key)",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing config file")
    arguments = parser.parse(argv)
    target = paths.config_file(paths.home())
    if target.exists() and not arguments.force:
        raise ConfigError(
            f"{target} exists already. Edit it, see it with `kode config show`, or replace it "
            "with `kode init --force`."
        )
    if not sys.stdin.isatty():
        raise UserError(
            "`kode init` asks questions, and there is no terminal to ask at. In scripts set "
            "OPENAI_API_KEY or ANTHROPIC_API_KEY instead, or write the file yourself: "
            "docs/configuration.md has every key."
        )
    settings = choose()
    if settings is None:
        return _demo()
    write_config(target, settings)
    return EXIT_OK


def first_run(home: Path) -> int | None:
    """Before the first prompt: sets up, and returns None to go on to the prompt, or an exit code.

    Raises: UserError when the person leaves without choosing.
    """
    print("Welcome to kode. It needs a model to work with; nothing is set up yet.\n")
    settings = choose()
    if settings is None:
        return _demo()
    write_config(paths.config_file(home), settings)
    return None


def choose() -> dict[str, Any] | None:
    """Asks how to reach a model; the settings to write, or None for the demo.

    Raises: UserError when the person leaves.
    """
    servers = find_local_servers()
    options = [("an API key (OpenAI, Anthropic, or a compatible service)", "key")]
    options += [(f"{s.name} on this machine ({s.base_url})", str(i)) for i, s in enumerate(servers)]
    options += [("a demo first: everything works, no key needed", "demo")]
    print("How should kode reach a model?")
    for number, (text, _) in enumerate(options, 1):
        print(f"  {number}  {text}")
    if not servers:
        names = ", ".join(name for name, _ in LOCAL_SERVERS)
        print(f"     (no local server answered: looked for {names})")
    answer = _ask(f"Number [1-{len(options)}], or q to leave: ")
    choice = options[_index(answer, len(options))][1]
    if choice == "demo":
        return None
    if choice == "key":
        return _with_key()
    return _with_server(servers[int(choice)])


def find_local_servers() -> list[LocalServer]:
    """The model servers that answer on their usual ports of this machine."""
    import http.client

    found = []
    for name, port in LOCAL_SERVERS:
        try:
            with socket.create_connection(("127.0.0.1", port), PROBE_TIMEOUT_S):
                pass
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            try:
                connection.request("GET", "/v1/models")
                answer = json.loads(connection.getresponse().read(1_000_000))
            finally:
                connection.close()
            models = tuple(str(model["id"]) for model in answer["data"])
        except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
            continue
        found.append(LocalServer(name=name, base_url=f"http://127.0.0.1:{port}/v1", models=models))
    return found


def provider_of_key(key: str) -> str | None:
    """The provider whose keys look like this one; None for a compatible service."""
    if key.startswith("sk-ant-"):
        return "anthropic"
    if key.startswith(("sk-proj-", "sk-svcacct-", "sk-")) and not key.startswith("sk-or-"):
        return "openai"
    return None


def write_config(target: Path, settings: dict[str, Any]) -> None:
    """Writes the settings, 0600 in a folder 0700, and says so. Raises: StorageError."""
    durable.make_folder(target.parent)
    durable.replace(target, (json.dumps(settings, indent=2) + "\n").encode())
    print(f"Wrote {target} (readable by you alone). `kode config show` explains every value.")


def _with_key() -> dict[str, Any]:
    for _ in range(MAX_TRIES):
        key = _secret("API key (not shown while you type): ").strip()
        if key and key.isascii() and key.isprintable() and " " not in key:
            break
        print("That does not look like a key: one word without spaces. Try again, or q to leave.")
    else:
        raise UserError("No key was given. Run `kode init` again, or try `kode demo`.")
    provider = provider_of_key(key)
    settings: dict[str, Any] = {"provider": provider or "openai", "api_key": key}
    if provider is None:
        settings["base_url"] = _ask("Base URL of the service (as https://host/v1): ")
        settings["model"] = _ask("Model name: ")
    return settings


def _with_server(server: LocalServer) -> dict[str, Any]:
    model = server.models[0] if server.models else ""
    if len(server.models) > 1:
        print("Its models:")
        for number, name in enumerate(server.models, 1):
            print(f"  {number}  {name}")
        answer = _ask(f"Number [1-{len(server.models)}]: ")
        model = server.models[_index(answer, len(server.models))]
    if not model:
        raise UserError(f"{server.name} has no model loaded. Load one there, then `kode init`.")
    return {"provider": "openai", "base_url": server.base_url, "model": model}


def _index(answer: str, count: int) -> int:
    for left in reversed(range(MAX_TRIES)):
        if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= count:
            return int(answer) - 1
        if left:
            answer = _ask(f"Please give a number from 1 to {count}, or q to leave: ")
    raise UserError("Nothing was chosen. Run `kode init` when you are ready, or try `kode demo`.")


def _ask(question: str) -> str:
    return _left(input, question)


def _secret(question: str) -> str:
    return _left(getpass.getpass, question)


def _left(read: Any, question: str) -> str:
    """One answer; leaving (q, Ctrl-C, Ctrl-D) is an error that says how to come back."""
    try:
        answer: str = read(question).strip()
    except (EOFError, KeyboardInterrupt):
        print()
        answer = "q"
    if answer.lower() in ("q", "quit", "exit"):
        raise UserError("Nothing was set up. Run `kode init` when you are ready, or `kode demo`.")
    return answer


def _demo() -> int:
    from kode.cli.demo import main as demo

    return demo([])

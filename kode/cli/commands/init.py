"""`kode init`: guided set-up, and the first run of a machine without key or config.

Offers a key, a local server that it has found, a cloud account, or the demo; tests the choice, says
what it writes and where, and writes a config file with mode 0600, never overwriting one without
`--force`. The services are those of `kode.registry`.
"""

import contextlib
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
from kode.registry import PROVIDERS, ProviderRow, owner_of_key, provider_row, row_with_address

if TYPE_CHECKING:
    from kode.config import ProviderChoice
    from kode.providers.reach import Reached

Settings = dict[str, Any]
"""What is written: `provider`, and its part of `providers`."""

FURTHER_PORTS = (("llamacpp", 9931),)
"""Where local servers are found beside the port of their row: llama.cpp is moving to this one."""

LIST_TIMEOUT_S = 2.0  # the person waits; the names can be typed
LISTED_MODELS = 20  # one screen
MAX_TRIES = 3  # as a login prompt
WAYS_OUT = "back, or q to quit"


class _Quit(UserError):
    """The person leaves without choosing."""


class _Back(Exception):
    """The person goes back to the first question."""


@dataclass(frozen=True, kw_only=True)
class LocalServer:
    row: ProviderRow
    reached: "Reached"


def main(argv: Sequence[str]) -> int:
    """Runs `kode init` and returns its exit code. Raises: ConfigError if there is a config already;
    UserError without a terminal."""
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
            "`kode init` asks questions, and there is no terminal to ask at. In scripts set your "
            "service's own variable instead, like OPENAI_API_KEY or ANTHROPIC_API_KEY, or write "
            "the file yourself: docs/models.md lists the services."
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


def first_run() -> int | None:
    """Sets up before the first prompt; returns None to continue to the prompt, or an exit status.
    Leaving is no fault. Raises: UserError if nothing could be set up."""
    home = paths.home()
    _say(
        "Welcome to kode. It needs a model to work with; nothing is set up yet.\n"
        f"Your answers are saved in {paths.config_file(home)}; only you can read it.\n"
    )
    try:
        settings = choose()
    except _Quit as quitting:
        _say(str(quitting))
        return EXIT_OK
    if settings is None:
        return _demo()
    write_config(paths.config_file(home), settings)
    return None


def choose() -> Settings | None:
    """Asks how to reach a model, again when the answer to a later question is `back`; the settings
    to write, or None for the demo.

    Raises: UserError if the person leaves.
    """
    while True:
        with contextlib.suppress(_Back):
            return _choose_once()


def _choose_once() -> Settings | None:
    _say("Looking for a model server on this machine ...")
    servers = find_local_servers()
    options = [("an API key (OpenAI, Anthropic, Gemini, OpenRouter, ...)", "key")]
    options += [
        (f"{s.row.shown} on this machine ({s.reached.url})", str(i)) for i, s in enumerate(servers)
    ]
    cloud_names = ", ".join(row.shown for row in _clouds())
    options += [(f"a cloud account ({cloud_names})", "cloud")]
    options += [("a server at another address", "address")]
    options += [("a demo first: everything works, no key needed", "demo")]
    _say("How should kode reach a model?")
    _say_numbered([text for text, _ in options])
    if not servers:
        names = ", ".join(dict.fromkeys(row.shown for row, _ in local_places()))
        _say(f"     No local server found. kode looked for {names}.")
    answer = _ask(f"Number [1-{len(options)}], or q to quit:  ")
    choice = options[_index(answer, len(options))][1]
    match choice:
        case "demo":
            return None
        case "key":
            return _with_key()
        case "cloud":
            clouds = _clouds()
            return _with_cloud(clouds[_picked([row.shown for row in clouds], "Which one?")])
        case "address":
            return _with_address()
    return _with_local(servers[int(choice)])


def local_places() -> tuple[tuple[ProviderRow, str], ...]:
    """The servers that people run at home → the usual addresses of each."""
    usual = [(row, row.own_url) for row in PROVIDERS if row.is_local]
    further = [(provider_row(name), f"http://127.0.0.1:{port}/v1") for name, port in FURTHER_PORTS]
    return (*usual, *((row, url) for row, url in further if row is not None))


def find_local_servers() -> list[LocalServer]:
    """The model servers that answer on their usual local ports."""
    from kode.providers.reach import reach

    servers = []
    for row, url in local_places():
        reached = reach(_choice(_settings(row.name, base_url=url)), LIST_TIMEOUT_S)
        if reached.state in ("ok", "refused", "loading"):
            servers.append(LocalServer(row=row, reached=reached))
    return servers


def write_config(target: Path, settings: dict[str, Any]) -> None:
    """Writes the settings (0600, folder 0700), and says so. Raises: StorageError."""
    durable.make_folder(target.parent)
    durable.replace(target, (json.dumps(settings, indent=2) + "\n").encode())
    row, part = provider_row(settings["provider"]), settings.get("providers", {})
    model = part.get(settings["provider"], {}).get("model") or (row and row.default_model)
    _say(f"The model is {one_line(model or 'not chosen yet')}; /model changes it.")
    _say(f"Saved {target} (only you can read it). `kode config show` shows every value.")


def _asked_key(question: str = "API key (not shown while you type): ") -> str:
    return _left(getpass.getpass, question).strip()


def _with_key() -> Settings:
    """Asks for a key, and of a service only if the key does not show it."""
    key, question = "", "API key (not shown while you type): "
    for left in reversed(range(MAX_TRIES)):
        typed = _asked_key(question)
        if not (typed and typed.isascii() and typed.isprintable() and " " not in typed):
            _say(f"A key is one word without spaces. Try again, {WAYS_OUT}.")
            continue
        named = typed == ANOTHER and bool(key)
        key = key if named else typed
        row = None if named else owner_of_key(key)
        settings = _settings_of_key(key, row or _asked_service())
        reached = _test(settings)
        if reached.state != "refused":
            return _with_model(settings, reached)
        _say(f"{reached.url}: {reached.detail}.")
        if left:
            question = f"Another key, {ANOTHER} if this one is for another service, {WAYS_OUT}: "
    raise UserError("No working key was entered. Run `kode init` again, or try `kode demo`.")


ANOTHER = "s"


def _asked_service() -> ProviderRow | None:
    """The service that a key is for; None for one that kode does not know."""
    services = [row for row in PROVIDERS if row.needs_key]
    names = [*(row.shown for row in services), "another one"]
    return dict(enumerate(services)).get(_picked(names, "Which service is this key for?"))


def _settings_of_key(key: str, row: ProviderRow | None) -> Settings:
    if row is None:
        return _settings_for(_asked_url(), api_key=key)
    base_url = os.environ.get(row.url_variable)
    if row.url_example and not base_url:
        base_url = _asked_url(row.url_example)
    return _settings(row.name, api_key=key, base_url=base_url)


def _test(settings: Settings) -> "Reached":
    from kode.providers.reach import reach

    _say("Testing it ...")
    return reach(_choice(settings))


def _choice(settings: Settings) -> "ProviderChoice":
    from kode.config import Config, resolve_provider

    return resolve_provider(Config.model_validate(settings), {})


def _settings(provider: str, **given: str | None) -> Settings:
    """The settings of one provider; an address that is its own is left out."""
    row = provider_row(provider)
    part = {key: value for key, value in given.items() if value}
    if row is not None and part.get("base_url") == row.own_url:
        del part["base_url"]
    return {"provider": provider, "providers": {provider: part}} if part else {"provider": provider}


def _with(settings: Settings, **given: str) -> Settings:
    """The settings with more of their provider's part."""
    name = settings["provider"]
    part = settings.get("providers", {}).get(name, {})
    return {**settings, "providers": {name: {**part, **given}}}


def _settings_for(base_url: str, api_key: str | None = None) -> Settings:
    """The settings for an address: the vendor's whose it is, else a provider of the person's own,
    under the name of the host."""
    from urllib.parse import urlsplit

    row = row_with_address(base_url)
    if row is not None:
        return _settings(row.name, base_url=base_url, api_key=api_key)
    host = urlsplit(base_url).hostname or ""
    label = host.split(".")[0]
    is_name = label.isascii() and label[:1].isalpha() and label.replace("-", "").isalnum()
    name = label if is_name and len(label) <= 40 and provider_row(label) is None else "server"
    return _settings(name, base_url=base_url, api_key=api_key)


def _with_address() -> Settings:
    settings = _settings_for(_asked_url())
    row = provider_row(settings["provider"])
    if row is not None and row.needs_key:
        settings = _with(settings, api_key=_asked_key())
    return _with_server(settings, _test(settings))


def _with_local(server: LocalServer) -> Settings:
    name = server.row.shown
    if server.reached.state == "loading":
        raise UserError(
            f"{name} is still loading its model. Run `kode init` again when it is ready."
        )
    if server.reached.state == "ok" and not server.reached.models:
        raise UserError(f"{name} has no model loaded. Load one there, then `kode init`.")
    settings = _settings(server.row.name, base_url=server.reached.url)
    return _with_server(settings, server.reached)


def _with_server(settings: Settings, reached: "Reached") -> Settings:
    if reached.state == "refused":
        _say("It requires a key.")
        settings = _with(settings, api_key=_asked_key())
        reached = _test(settings)
    if reached.state == "refused":
        raise UserError(f"{reached.url}: {reached.detail}. Run `kode init` again.")
    return _with_model(settings, reached)


def _clouds() -> list[ProviderRow]:
    """The providers where each account has its own address, or an SDK finds it."""
    return [row for row in PROVIDERS if row.client or row.url_example]


def _with_cloud(row: ProviderRow) -> Settings:
    """Azure and Foundry: address and key. For the others says what the SDK reads."""
    if row.url_example:
        settings = _settings_of_key(_asked_key(), row)
        reached = _test(settings)
        if reached.state == "refused":
            raise UserError(f"{reached.url}: {reached.detail}. Run `kode init` again.")
        return _with_model(settings, reached)
    variables = [name for name in (row.key_variable, *row.reads) if name]
    _say(f"kode keeps nothing for {row.shown}: its SDK reads these variables, or your login there.")
    for name in variables:
        _say(f"  {name}  ({'set' if os.environ.get(name) else 'not set'})")
    _say(f"It asks for {row.default_model}; `providers.{row.name}.model` names another.")
    return _settings(row.name)


def _asked_url(example: str = "https://host/v1 or 192.168.1.5:8080") -> str:
    for _ in range(MAX_TRIES):
        if url := _url_of(_ask(f"Address, e.g. {example}: ")):
            return url
        _say(f"Enter a host and port, like 192.168.1.5:8080, or a whole URL, {WAYS_OUT}.")
    raise UserError("No address was entered. Run `kode init` again, or try `kode demo`.")


def _url_of(answer: str) -> str:
    """The URL that an answer names; "" if none, as for a single word. Without a scheme: `http` for
    an address or a name of the local network, where servers seldom have a certificate, else
    `https`."""
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    from kode.config.choice import is_url

    if "://" in answer:
        return answer if is_url(answer) else ""
    is_word = not any(sign in answer for sign in ".:/") and answer != "localhost"
    if is_word or " " in answer or not is_url(f"http://{answer}"):
        return ""
    host = urlsplit(f"http://{answer}").hostname or ""
    with contextlib.suppress(ValueError):
        return f"http{'s' * ip_address(host).is_global}://{answer}"
    is_local = "." not in host or host.endswith((".localhost", ".local", ".lan", ".internal"))
    return f"http{'s' * (not is_local)}://{answer}"


def _with_model(settings: Settings, reached: "Reached") -> Settings:
    """The settings with a model, unless the provider has a default that its server offers."""
    if reached.state == "ok":
        _say(f"It works: {reached.url} answers.")
    else:
        _say(f"Could not test it ({reached.detail}). Saved anyway; run `kode doctor` later.")
    row = provider_row(settings["provider"])
    default = row.default_model if row is not None else ""
    if default and reached.offers(default) is not False:
        return settings
    names = reached.models
    if len(names) == 1:
        return _with(settings, model=names[0])
    if 1 < len(names) <= LISTED_MODELS:
        return _with(settings, model=names[_picked(list(map(one_line, names)), "Which model?")])
    for _ in range(MAX_TRIES):
        model = _ask("Model name: ")
        if model and (not names or model in names):
            return _with(settings, model=model)
        near = difflib.get_close_matches(model, names, n=3, cutoff=0.3)
        hint = f" Closest: {', '.join(map(one_line, near))}." if near else ""
        _say(f"There is no model with that name.{hint}")
    raise UserError("No model chosen. Run `kode init` again, or try `kode demo`.")


def _picked(names: Sequence[str], question: str) -> int:
    _say(question)
    _say_numbered(names)
    return _index(_ask(f"Number [1-{len(names)}], {WAYS_OUT}:  "), len(names))


def _say_numbered(texts: Sequence[str]) -> None:
    for number, text in enumerate(texts, 1):
        _say(f"  {number:>{len(str(len(texts)))}}  {text}")


def _index(answer: str, count: int) -> int:
    for left in reversed(range(MAX_TRIES)):
        if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= count:
            return int(answer) - 1
        if left:
            answer = _ask(f"Enter a number from 1 to {count}, {WAYS_OUT}:  ")
    raise UserError("Nothing was chosen. Run `kode init` when you are ready, or try `kode demo`.")


def _say(text: str) -> None:
    """Prints text, wrapped between words on a narrow terminal."""
    print(
        fold(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text, flush=True
    )


def _ask(question: str) -> str:
    return _left(input, question)


def _left(read: Any, question: str) -> str:
    """Reads one answer; leaving (q, Ctrl-C, Ctrl-D) is an error that says how to come back.

    Raises: _Back; UserError if the person leaves.
    """
    try:
        answer: str = read(question).strip()
    except (EOFError, KeyboardInterrupt):
        print()
        answer = "q"
    if answer.lower() == "back":
        raise _Back
    if answer.lower() in ("q", "quit", "exit"):
        raise _Quit("Nothing was set up. Run `kode init` when you are ready, or `kode demo`.")
    return answer


def _demo() -> int:
    from kode.cli.commands import demo

    return demo.main([])

"""What may follow a command of the REPL, or a flag in the shell: models, sessions, modes, words.

Each is a list of (value, a few words about it), made when somebody completes and never on the
loop's thread. How they are offered is `complete` and `completion`.
"""

import argparse
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kode.cli.flags import MODE_MEANS
from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import clip, count, one_line, plural
from kode.errors import KodeError, UserError
from kode.registry import provider_row

if TYPE_CHECKING:
    from kode.config import Config
    from kode.contracts import ModelInfo
    from kode.conversation import Conversation

Choice = tuple[str, str]
"""(what is put into the line, what it is)"""

Choices = Callable[[tuple[str, ...]], Iterable[Choice]]
"""The words before the one that is typed → what may stand there."""

BACKGROUND_WORDS = (
    ("list", "what runs in the background"),
    ("read", "the output of one: /bg read ID"),
    ("kill", "end one: /bg kill ID"),
)
OFFERED_SESSIONS = 50
TASK_COLUMNS = 50
SERVER_TIMEOUT_S = 1.0
SERVER_FRESH_S = 60.0
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


def choices_of(state: PromptState) -> Mapping[str, Choices]:
    """Command → what may follow it, in the conversation that is open by then."""
    server = ServedModels()

    def models(before: tuple[str, ...]) -> Iterable[Choice]:
        return () if before or state.opened is None else models_of(state.opened, server)

    def sessions(before: tuple[str, ...]) -> Iterable[Choice]:
        if before or state.opened is None:
            return ()
        return session_choices(state.opened.home, state.opened.cwd)

    def modes(before: tuple[str, ...]) -> Iterable[Choice]:
        return () if before else MODE_MEANS.items()

    def background(before: tuple[str, ...]) -> Iterable[Choice]:
        if state.opened is None:
            return ()
        known = state.opened.commands.commands
        match before:
            case ():
                return BACKGROUND_WORDS
            case ("kill",):
                known = [command for command in known if command.runs]
            case ("read",):
                pass
            case _:
                return ()
        return [(command.name, clip(one_line(command.command), TASK_COLUMNS)) for command in known]

    return {
        "/bg": background,
        "/model": models,
        "/resume": sessions,
        "/permissions": modes,
        "/memory": memory_choices,
    }


def models_of(conversation: "Conversation", server: "ServedModels") -> list[Choice]:
    """What the conversation could use from now on; asks a server on this machine, so call it in a
    thread."""
    config, provider = conversation.config, conversation.agent.provider
    named = [provider.model, config.model or "", *config.prices]
    return model_choices(provider.name, named, server.of(base_url_of(config)))


def served_models(conversation: "Conversation") -> tuple[str, ...]:
    """The models that the server on this machine offers; () where requests go elsewhere, or it
    cannot say. Asks it, so call it in a thread."""
    return ServedModels().of(base_url_of(conversation.config))


def offers(served: Sequence[str], model: str) -> bool:
    """Whether a server that lists these has the model: a longer name that begins so counts (tags,
    dates), and a wildcard of a proxy."""
    return any(known.startswith(model) or "*" in known for known in served)


def base_url_of(config: "Config") -> str:
    """Where requests go, when that is not the provider's own address; "" else."""
    from kode.config.choice import resolve_provider

    with contextlib.suppress(UserError):
        return resolve_provider(config, os.environ).base_url or ""
    return ""


def model_choices(
    provider: str | None, configured: Iterable[str], served: Sequence[str] = ()
) -> list[Choice]:
    """The models that a provider may be asked for: those that the config names, those that the
    person's own server has, else those that kode knows of the provider."""
    from kode.providers.models import MODELS, info_of

    known = [] if served else [n for n, info in MODELS.items() if info.input_price]
    if provider is not None:
        row = provider_row(provider)
        beginnings = row.models if row else ()
        known = [name for name in known if name.startswith(beginnings)]
    names = dict.fromkeys(name for name in (*configured, *served, *known) if name)
    return [(name, _told_of(info_of(name))) for name in names]


def _told_of(info: "ModelInfo") -> str:
    parts = [f"{count(info.context_window)} tokens"] if info.known else []
    if info.input_price and info.output_price:
        parts.append(f"${info.input_price:g} in, ${info.output_price:g} out")
    return " · ".join(parts)


def session_choices(home: Path, cwd: Path | None) -> list[Choice]:
    """Ids of the sessions of a directory (None: of all), the last used first, with what was asked
    first in each."""
    from kode.session.index import list_sessions

    try:
        found = list_sessions(home, cwd=cwd, limit=OFFERED_SESSIONS)
    except KodeError:
        return []
    return [
        (row.id, clip(f"{plural(row.turns, 'turn')} · {one_line(row.task)}", TASK_COLUMNS))
        for row in found
        if row.turns and not row.parent and not row.damaged
    ]


def memory_choices(before: tuple[str, ...]) -> Iterable[Choice]:
    """The words of `/memory`."""
    from kode.memory.commands import add_commands

    parser = argparse.ArgumentParser(add_help=False)
    add_commands(parser)
    commands = subcommands(parser)
    if not before:
        yield from ((name, what) for name, (_, what) in commands.items())
        yield ("used", "which entries the last request held, and what they cost")
        yield ("reload", "show it to the model as it is now")
        return
    if before[0] in commands:
        yield from next_words(commands[before[0]][0], before[1:])


def subcommands(
    parser: argparse.ArgumentParser,
) -> dict[str, tuple[argparse.ArgumentParser, str]]:
    """The commands of a parser, each with its own parser and what it does."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            told = {a.dest: a.help or "" for a in action._get_subactions()}
            return {name: (own, told.get(name, "")) for name, own in action.choices.items()}
    return {}


def next_words(parser: argparse.ArgumentParser, before: Sequence[str]) -> Iterable[Choice]:
    """The choices of the positional argument that comes next."""
    positional = [action for action in parser._actions if not action.option_strings]
    at = sum(not word.startswith("-") for word in before)
    if at < len(positional):
        yield from ((str(choice), "") for choice in positional[at].choices or ())


@dataclass
class ServedModels:
    """The models that a server on this machine offers; others are not asked by completing."""

    _known: dict[str, tuple[float, tuple[str, ...]]] = field(default_factory=dict)

    def of(self, base_url: str) -> tuple[str, ...]:
        """Their names, () where the server cannot say; asked at most once a minute."""
        at, names = self._known.get(base_url, (float("-inf"), ()))
        if time.monotonic() - at > SERVER_FRESH_S:
            names = _served(base_url)
            self._known[base_url] = (time.monotonic(), names)
        return names


def _served(base_url: str) -> tuple[str, ...]:
    url = urlsplit(base_url)
    if url.scheme != "http" or url.hostname not in LOCAL_HOSTS:
        return ()
    import http.client

    with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        connection = http.client.HTTPConnection(
            url.hostname, url.port or 80, timeout=SERVER_TIMEOUT_S
        )
        with contextlib.closing(connection):
            # Addresses of the one format end in /v1, those of the other do not have to.
            connection.request("GET", f"{url.path.rstrip('/') or '/v1'}/models")
            data = json.loads(connection.getresponse().read(1 << 20))["data"]
            names = [str(model["id"]) for model in data]
            return tuple(name for name in names if name.isprintable() and name)
    return ()

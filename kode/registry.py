"""The tables of providers and memory systems, read by config, flags, `init` and `doctor`. A row is
data: the module that it names, in `kode.providers` or `kode.memory`, is imported when it is opened.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from kode import installed
from kode.errors import Setting
from kode.provider import Api
from kode.values import Value, field


class Dialect(Value):
    """How a server's Chat Completions differ; the defaults suit an unknown server."""

    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    switch: str = "reasoning_effort"
    """How a request asks for thinking, a case of `thinking_settings` in `kode.providers.chat`."""
    thinks_by_default: bool = False
    """Whether the level that the vendor recommends is sent if the person set none."""
    thinks_in: tuple[str, ...] = ("reasoning_details", "reasoning_content", "reasoning")
    """Fields in which thinking may arrive; the first that did goes back with its message."""
    is_open: bool = True
    """Whether the server takes unknown fields: those of a reply are then sent back to it."""
    empty_thinking: str | None = None
    """Sent in the first field of `thinks_in` for a reply without thinking, such as another model's,
    if the server refuses one without. None: nothing is sent."""
    older_models: tuple[str, ...] = ()
    """Prefixes of models that neither sign their calls nor take a `thinking_config`."""
    binds_thinking_of: tuple[str, ...] = ()
    """Prefixes of models whose thinking is only taken back after the same conversation."""
    ids: Literal["short", "nine", "any"] = "short"
    """The call ids that the server takes: 40 characters, nine letters and digits, or any."""
    takes_plain_results: bool = True
    """Whether a result may lack the name of its tool, and a user message follow it; else an
    assistant's goes between."""
    takes_pdf: bool = False
    counts_usage: bool = True
    """Whether it takes `stream_options.include_usage`; others send the usage unasked."""
    remembers_by: str = ""
    """The field for a key that brings a session back to the same cache."""


class ProviderRow(Value):
    name: str
    title: str = ""
    """The name for a person: "OpenRouter"; "": `name`."""
    apis: tuple[Api, ...] = ("chat",)
    """The formats that its server speaks; the first is the default."""
    default_model: str = ""
    """The model if none is named; "" where a server offers what it was started with."""
    small_model: str = ""
    """The vendor's cheap model, for small work; "" uses the session's."""
    models: tuple[str, ...] = ()
    """Prefixes of model names that only this provider's own server has."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Short names → the model of this provider that each means."""
    key_variable: str = ""
    """The vendor's own environment variable for the key; "" for a provider without keys."""
    url_variable: str = ""
    own_url: str = ""
    """The address of the provider's own server; "" where each account or machine has its own."""
    url_example: str = ""
    """What such an address looks like."""
    keys_begin: tuple[str, ...] = ()
    """Prefixes of its own keys."""
    models_path: str = "/models"
    """Where a server lists its models, after the base URL."""
    patches: tuple[str, ...] = ()
    """Prefixes of models trained on `apply_patch`, which its server takes as free text."""
    needs_key: bool = True
    """False for a server on the person's machine, and for a cloud whose SDK finds credentials."""
    client: Literal["", "bedrock", "vertex", "foundry"] = ""
    """The client of the SDK to use; "" is the ordinary one."""
    reads: tuple[str, ...] = ()
    """Further variables that this client reads itself: the account, the region, credentials."""
    dialect: Dialect = field(default_factory=Dialect)
    """For `chat`."""

    @property
    def shown(self) -> str:
        return self.title or self.name

    @property
    def is_local(self) -> bool:
        """Whether its server runs on the person's own machine."""
        return host_of(self.own_url) == "127.0.0.1"


def _read_table(path: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).parent.joinpath(path).read_text("utf-8"))


def _with_tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(it) if isinstance(it, list) else it for key, it in fields.items()}


PROVIDERS = tuple(
    ProviderRow(dialect=Dialect(**_with_tuples(row.pop("dialect", {}))), **_with_tuples(row))
    for row in _read_table("providers/providers.toml")["provider"]
)
"""The rows of `providers.toml`; the default is the first for which there is a key."""


class SystemRow(Value):
    """One memory system: all that the rest of kode knows about it."""

    opens: str = ""
    """module:class of its `Policy`; "" for a system of a plug-in."""
    targets: Mapping[str, str] = field(default_factory=dict)
    """What `kode memory add` accepts → what it is; NAME is any other word. {}: every word."""
    about_user: str = "memory"
    """The target of proposals about the person, and of what is added without a target."""
    about_project: str = "memory"
    """The target of proposals about the project."""
    options: tuple[str, ...] = ()
    """The flags of `kode memory add` whose values the system stores."""
    commands: tuple[str, ...] = ()
    """The subcommands of `kode memory` that only this system has."""
    readable: str = ""
    """A pattern of its files in a project's folder that tools may read."""


SYSTEMS: Mapping[str, SystemRow] = {
    name: SystemRow(**_with_tuples(row)) for name, row in _read_table("memory/systems.toml").items()
}
"""System name → its row of `systems.toml`."""

COMPATIBLE = "openai"
"""The provider whose wire format compatible servers speak."""


def plugin_rows() -> Iterator[ProviderRow]:
    """The rows that plug-ins add. Looked for only where kode's own do not decide."""
    for plugin in installed.enabled_plugins():
        load = partial(installed.load_part, plugin, plugin.providers or ())
        yield from installed.try_plugin(plugin, load, ())


def provider_row(name: str) -> ProviderRow | None:
    """The row of a provider; None for a name that is not in the table."""
    return next((row for row in chain(PROVIDERS, plugin_rows()) if row.name == name), None)


def describe_unknown(name: str, described: Iterable[str] = ()) -> str:
    """The sentences for a name that is not in the table, nor among those that the config
    describes: the nearest one, and how to describe another."""
    import difflib

    names = [*described, *(row.name for row in PROVIDERS)]
    words = {word: row.name for row in PROVIDERS[::-1] for word in row.title.lower().split()}
    words |= {model.rstrip("-"): row.name for row in PROVIDERS for model in row.models}
    words |= {word: word for word in names}
    near = difflib.get_close_matches(name.lower(), words, n=1, cutoff=0.7)
    hint = f"Did you mean {words[near[0]]}?" if near else f"Known are {', '.join(names)}."
    return (
        f"There is no provider {name!r}. {hint} For a server of your own set "
        f"`providers.{name}.base_url` in the config, and `api` if it speaks another format than "
        "Chat Completions."
    )


def provider_of_model(model: str | None) -> ProviderRow | None:
    """The only provider whose own server has this model; None if the name does not tell. A name
    with a tag, as in `gpt-oss:20b`, is never a vendor's model, but a local server's."""
    if not model or ":" in model:
        return None
    rows = chain(PROVIDERS, plugin_rows())
    return next((row for row in rows if row.models and model.startswith(row.models)), None)


def settings_to_set(row: ProviderRow) -> dict[str, Setting]:
    variables = (("api_key", row.key_variable), ("base_url", row.url_variable))
    return {key: Setting(f"providers.{row.name}.{key}", of or "default") for key, of in variables}


def provider_of_key(key: str) -> ProviderRow | None:
    """The provider whose keys look like this one; None for a compatible service."""
    fitting = [row for row in PROVIDERS if row.keys_begin and key.startswith(row.keys_begin)]
    return max(fitting, key=lambda row: max(map(len, row.keys_begin)), default=None)


def host_of(url: str) -> str:
    """The host of an address; "" if it has none, or is no address."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""

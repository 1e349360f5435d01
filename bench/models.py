"""Whom a benchmark asks: a local server, or any API by flag, its key by environment."""

import argparse
import os
from dataclasses import dataclass

KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}


@dataclass(frozen=True, kw_only=True)
class Model:
    """Whom an agent asks."""

    provider: str
    """`openai` (any server that speaks its format) or `anthropic`."""
    name: str
    base_url: str = ""
    """"" for the provider's own server."""
    key: str

    @property
    def flags(self) -> list[str]:
        """For kode's command line."""
        words = ["--provider", self.provider, "--model", self.name]
        return [*words, "--base-url", self.base_url] if self.base_url else words

    @property
    def environment(self) -> dict[str, str]:
        return {KEYS[self.provider]: self.key}


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Without any of these flags, a script plays."""
    add = parser.add_argument
    add("--server", metavar="URL", default="", help="a local server in OpenAI's format")
    add("--provider", choices=tuple(KEYS), help="an API; its key comes by environment")
    add("--model", default="", help="the model's name there")


def model_of(options: argparse.Namespace) -> Model | None:
    """The model that the flags name; None for a script.

    Raises: SystemExit that says what is missing.
    """
    if options.server:
        key = os.environ.get(KEYS["openai"], "none-needed")
        name = options.model or "local"
        return Model(provider="openai", name=name, base_url=options.server, key=key)
    if not options.provider:
        return None
    key = os.environ.get(KEYS[options.provider], "")
    if not key or not options.model:
        raise SystemExit(f"Give --model, and {KEYS[options.provider]} in the environment.")
    return Model(provider=options.provider, name=options.model, key=key)

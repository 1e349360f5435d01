"""Imports the package `acp` with its 400 models built on first use: a session needs a tenth of
them, and building all takes a quarter of a second of processor time."""

import contextlib
from collections.abc import Iterator

from pydantic import BaseModel


@contextlib.contextmanager
def built_on_use() -> Iterator[None]:
    """Models that are defined meanwhile are built when they are first used; nothing else about them
    differs."""
    BaseModel.model_config["defer_build"] = True
    try:
        yield
    finally:
        del BaseModel.model_config["defer_build"]


with built_on_use():
    import acp.schema  # noqa: F401

"""The flags of `kode fleet` for a Ray cluster."""

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from kode.cli.flags import amount, natural
from kode.cli.parser import Parser
from kode.errors import ConfigError

if TYPE_CHECKING:
    from kode.plugins.fleet.executors import Executor

RAY = "ray"


def add_ray_flags(parser: Parser) -> None:
    """Adds the flags."""
    add = parser.add_argument
    where = "the cluster; default: RAY_ADDRESS, one running here, or a new one"
    add("--ray-address", metavar="ADDR", help=where)
    add(
        "--ray-resources",
        metavar="R",
        type=_resources,
        help="resources of each task: CPU=0.5,GPU=1 (CPU=1)",
    )
    add(
        "--ray-retries",
        metavar="N",
        type=natural,
        help="retries when a worker or a node is lost (3)",
    )


def executor_of(arguments: argparse.Namespace) -> "Executor":
    """The executor that the flags name. Raises: ConfigError for flags that do not fit it."""
    from kode.plugins.fleet.executors import find_executor

    given = _given(arguments)
    if given and arguments.executor != RAY:
        raise ConfigError(f"--ray-{next(iter(given))} goes with --executor {RAY}. Add it.")
    return partial(find_executor(arguments.executor), **given)


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        name.removeprefix("ray_"): value
        for name, value in vars(arguments).items()
        if name.startswith("ray_") and value is not None
    }


def _resources(text: str) -> dict[str, float]:
    """Parses `CPU=0.5,GPU=1,fast_disk=1`, with the cluster's names."""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and number for name, _, number in pairs):
        raise argparse.ArgumentTypeError(f"{text!r} does not look like CPU=0.5,GPU=1")
    return {name.strip(): amount(number) for name, _, number in pairs}

"""The flags of `kode fleet` for a Ray cluster."""

import argparse
import math
from functools import partial
from typing import TYPE_CHECKING, Any

from kode.plugin import ConfigError, Parser

if TYPE_CHECKING:
    from kode.plugins.fleet.executors import Executor

RAY = "ray"


def add_ray_flags(parser: Parser) -> None:
    """Adds the flags, whose names begin with `--ray-`."""
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
        type="natural",
        help="retries when a worker or a node is lost (3)",
    )


def executor_of(arguments: argparse.Namespace) -> "Executor":
    """The executor that the flags choose, with their options. Raises: ConfigError for options of
    another executor."""
    from kode.plugins.fleet.executors import find_executor

    options = _options(arguments)
    if options and arguments.executor != RAY:
        raise ConfigError(f"--ray-{next(iter(options))} goes with --executor {RAY}. Add it.")
    return partial(find_executor(arguments.executor), **options)


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        name.removeprefix("ray_"): value
        for name, value in vars(arguments).items()
        if name.startswith("ray_") and value is not None
    }


def _resources(text: str) -> dict[str, float]:
    """Parses `CPU=0.5,GPU=1,fast_disk=1`, where the names are the cluster's."""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and number for name, _, number in pairs):
        raise argparse.ArgumentTypeError(f"{text!r} does not look like CPU=0.5,GPU=1")
    return {name.strip(): _amount(number) for name, _, number in pairs}


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not 0 < amount < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount above 0")
    return amount

"""kode in Harbor's containers.

agent         kode as an agent of Harbor
trajectory    a session → the trajectory that Harbor reads (ATIF)
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.harbor.agent import KodeAgent as KodeAgent


def __getattr__(name: str) -> object:
    if name != "KodeAgent":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bench.harbor.agent import KodeAgent

    return KodeAgent

"""kode in Harbor's containers, and a session as the trajectory that Harbor reads.

agent         kode as an agent of Harbor
trajectory    a session → a trajectory (ATIF)
"""

from typing import TYPE_CHECKING

from kode.plugin import Plugin

if TYPE_CHECKING:
    from kode.plugins.harbor.agent import KodeAgent as KodeAgent

PLUGIN = Plugin(
    name="harbor",
    summary="kode as an agent of Harbor; sessions as ATIF trajectories",
    exports={"atif": "kode.plugins.harbor.trajectory:export"},
)


def __getattr__(name: str) -> object:
    if name != "KodeAgent":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kode.plugins.harbor.agent import KodeAgent

    return KodeAgent

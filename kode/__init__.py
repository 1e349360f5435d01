"""kode: a terminal coding agent. Start reading in `kode/engine/turn.py`; the plan of the house
is in `docs/architecture.md`. This module imports nothing, so that `kode --version` is instant.
"""

__version__ = "0.1.0"

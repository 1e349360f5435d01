"""Where the development corpora are. Not here: reading them, each benchmark knows its own."""

from __future__ import annotations

from pathlib import Path


def corpus(name: str) -> Path:
    """Path of the corpus `name`, in the folder `shared/corpora` beside the project folder."""
    return Path(__file__).resolve().parent.parent.parent / "shared" / "corpora" / name

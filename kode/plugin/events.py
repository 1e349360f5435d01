"""The names of `kode.events`, for plug-ins."""

from kode.events import *  # noqa: F403

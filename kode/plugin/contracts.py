"""The names of `kode.contracts`, for plug-ins."""

from kode.contracts import *  # noqa: F403

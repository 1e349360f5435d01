"""The names of `kode.errors`, for plug-ins."""

from kode.errors import *  # noqa: F403

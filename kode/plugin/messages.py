"""The names of `kode.messages`, for plug-ins."""

from kode.messages import *  # noqa: F403

"""The entries of a session file, for plug-ins that read one."""

from kode.session.entries import *  # noqa: F403

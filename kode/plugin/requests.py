"""The records of requests, for plug-ins that look into what was sent."""

from kode.session.requests import *  # noqa: F403

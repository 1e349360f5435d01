"""The server on 127.0.0.1: its socket, its link, and its end by Ctrl-C."""

import contextlib
import os
import socket
import sys
import webbrowser
from collections.abc import Callable

import uvicorn

from kode.plugin import ConfigError, Place
from kode.plugins.view.access import Keys
from kode.plugins.view.pages import application

HOST = "127.0.0.1"
GRACE_S = 2  # a page is made in milliseconds


def serve(place: Place, *, port: int, browser: bool, say: Callable[[str], None]) -> None:
    """Serves until Ctrl-C. `port` 0 takes a free one; `browser` opens the page if there is a
    screen. Raises: ConfigError if the port is unavailable."""
    with _listening(port) as listener:
        keys = Keys(address=f"{HOST}:{listener.getsockname()[1]}")
        say(f"{keys.link}\nThe link works once, in one browser. Ctrl-C ends kode view.")
        if browser and has_screen():
            webbrowser.open(keys.link)
        config = uvicorn.Config(
            application(place, keys),
            lifespan="off",
            ws="none",
            access_log=False,
            log_config=None,
            log_level="critical",
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])


def has_screen() -> bool:
    """Whether a graphical browser can open; a text browser would take over the terminal."""
    shows = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return sys.platform == "darwin" or shows


def _listening(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # Otherwise a port stays blocked for a minute after kode view has ended.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"kode view: port {port} cannot be used ({error.strerror}). Leave out --port, and a "
            "free one is taken."
        ) from error
    return listener

"""`kode view`: the pages on 127.0.0.1, with a link that works once, until Ctrl-C."""

import contextlib
import os
import socket
import sys
import webbrowser
from collections.abc import Sequence

from kode.plugin import (
    ConfigError,
    Parser,
    kode_home,
    load_config,
    print_either,
    require_extra,
    working_directory,
)

HOST = "127.0.0.1"
GRACE_S = 2  # a page is made in milliseconds


def main(argv: Sequence[str]) -> int:
    """Runs `kode view` with these arguments until Ctrl-C. Raises: ConfigError."""
    parser = Parser(
        "kode view", "Show sessions, cost and memory in the browser, on this machine only."
    )
    add = parser.add_argument
    add("--port", type="port", default=0, metavar="N", help="the port (default: a free one)")
    add("--no-browser", action="store_true", help="print the link without opening a browser")
    add("--cwd", metavar="DIR", help="the project whose settings and memory to use")
    arguments = parser.parse(argv)
    require_extra("view")
    home, cwd = kode_home(), working_directory(arguments)
    loaded = load_config(home, cwd, environ=os.environ, flags={})
    print_either(faults=loaded.warnings)
    import uvicorn

    from kode.plugins.view.access import Keys
    from kode.plugins.view.pages import PageSubject, make_application

    place = PageSubject(home=home, cwd=cwd, config=loaded.config)
    with _open_socket(arguments.port) as listener:
        keys = Keys(address=f"{HOST}:{listener.getsockname()[1]}")
        print(
            f"{keys.link}\nThe link works once, in one browser. Ctrl-C ends kode view.", flush=True
        )
        if not arguments.no_browser and has_screen():
            webbrowser.open(keys.link)
        config = uvicorn.Config(
            make_application(place, keys),
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
    return 0


def has_screen() -> bool:
    """Whether a graphical browser can open; a text browser would take over the terminal."""
    displays = map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY"))
    return sys.platform == "darwin" or any(displays)


def _open_socket(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise ConfigError(
            f"kode view: port {port} cannot be used ({error.strerror}). Leave out --port, and a "
            "free one is taken."
        ) from error

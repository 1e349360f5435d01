"""`kode view`: sessions, cost and memory in the browser."""

import argparse
import os
import sys
from collections.abc import Sequence

from kode.plugin import EXIT_OK, Parser, clean, extras, paths, working_directory

MAX_PORT = 65_535
"""The largest number of a TCP port."""


def main(argv: Sequence[str]) -> int:
    """Runs `kode view` with these arguments until Ctrl-C. Raises: ConfigError."""
    parser = Parser(
        "kode view", "Show sessions, cost and memory in the browser, on this machine only."
    )
    parser.add_argument(
        "--port", type=_port, default=0, metavar="N", help="the port (default: a free one)"
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="print the link without opening a browser"
    )
    parser.add_argument("--cwd", metavar="DIR", help="the project whose settings and memory to use")
    arguments = parser.parse(argv)
    extras.require("view")
    from kode.plugin import Place, load_config
    from kode.plugins.view.serve import serve

    home, cwd = paths.home(), working_directory(arguments)
    loaded = load_config(home, cwd, environ=os.environ, flags={})
    for warning in filter(None, (paths.home_fault(home), *loaded.warnings)):
        print(clean(f"kode: {warning}"), file=sys.stderr)
    serve(
        Place(home=home, cwd=cwd, config=loaded.config),
        port=arguments.port,
        browser=not arguments.no_browser,
        say=lambda text: print(text, flush=True),
    )
    return EXIT_OK


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number up to {MAX_PORT}")
    return int(text)

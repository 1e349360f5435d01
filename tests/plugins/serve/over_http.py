"""The server over HTTP, which the conformance suite needs: `python -m tests.plugins.serve.over_http
PORT FOLDER`. The command itself has no such option: on a port of the loopback everybody with an
account on the machine could have kode work.
"""

import asyncio
import sys
from pathlib import Path

from kode.plugins.serve.bounds import Bounds
from kode.plugins.serve.server import make_server
from kode.plugins.serve.sessions import ServedSessions


async def serve(port: int, folder: Path) -> None:
    server = make_server(ServedSessions(Bounds(roots=(folder,))))
    await server.run_streamable_http_async(host="127.0.0.1", port=port)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2])))

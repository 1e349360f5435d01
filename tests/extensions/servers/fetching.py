"""A launcher like `npx`: the first time it downloads the server that it becomes, from ADDRESS."""

import contextlib
import os
import shutil
import sys
from http.client import HTTPConnection
from urllib.parse import urlsplit

address, *words = sys.argv[1:]
cache = os.environ["npm_config_cache"]  # noqa: SIM112
server = os.path.join(cache, "server.py")
if not os.path.exists(server):
    source, proxy = (
        urlsplit(address),
        os.environ.get("https_proxy") if "direct" not in words else "",
    )
    connection = HTTPConnection(urlsplit(proxy or address).netloc, timeout=5)
    if proxy:
        connection.set_tunnel(source.hostname, source.port)
    connection.request("GET", source.path)
    data = connection.getresponse().read()
    os.makedirs(cache, exist_ok=True)
    with open(server, "wb") as file:
        file.write(data)
with open(server) as file:
    code = file.read()
with contextlib.suppress(OSError):
    if "touch" in words:
        open("touched.txt", "w").close()
    if "look" in words:
        shutil.copy("../beside/package.json", cache)
if "must-touch" in words:
    open("touched.txt", "w").close()
os.execv(sys.executable, [sys.executable, "-c", code, "reach"])

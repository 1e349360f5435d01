"""A launcher like `npx`: the first time it downloads the server that it becomes, from ADDRESS."""

import contextlib
import os
import shutil
import sys
import urllib.request

address, *words = sys.argv[1:]
cache = os.environ["npm_config_cache"]  # noqa: SIM112
server = os.path.join(cache, "server.py")
if not os.path.exists(server):
    with urllib.request.urlopen(address, timeout=5) as answer:
        data = answer.read()
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

"""Runs command lines in kode's sandbox with nobody judging them first: what the kernel alone holds.

It reads lines as JSON, one a line, and answers each with what it printed.
"""

import contextlib
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

from kode.errors import SandboxError
from kode.sandbox.sandbox import Sandbox
from kode.tools import processes
from tests.workplaces import workplace

LINE_S = 3
MAX_OUTPUT_BYTES = 1 << 20


def main() -> int:
    project, home = Path.cwd(), Path.home() / ".kode"
    place = workplace(project, home=home, outputs=home / "sessions" / "2" / "outputs")
    sandbox = Sandbox(place=place)
    print(json.dumps(sandbox.support().kind), flush=True)
    for row in sys.stdin:
        attempt = sandbox.begin()
        wrapped = attempt.wrap(("/bin/bash", "-c", json.loads(row)))
        mark = secrets.token_hex(12)
        with subprocess.Popen(
            wrapped.argv,
            env={**os.environ, **processes.mark_environment(mark)},
            pass_fds=wrapped.descriptors,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=LINE_S)
            except subprocess.TimeoutExpired:
                processes.ProcessTree(mark).kill()
                output, _ = process.communicate()
        wrapped.settle()
        with contextlib.suppress(SandboxError, OSError):
            attempt.changes()
        attempt.close()
        print(json.dumps(output[:MAX_OUTPUT_BYTES].decode(errors="replace")), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

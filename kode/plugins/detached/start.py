"""`kode start`: checks a task for foreseeable faults, starts its holder, and returns to the
shell."""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kode.plugin import (
    ConfigError,
    RunOptions,
    UserError,
    kode_home,
    print_either,
    shorten,
    working_directory,
)
from kode.plugins.detached import holder, places
from kode.plugins.detached.branch import make_session_worktree
from kode.plugins.detached.places import Spec
from kode.plugins.worktrees import remove_branch

HELD = "--held"
"""The first argument with which a holder starts the prompt, for `kode.plugins.detached.inside`."""

ABOUT = "Start a task in the background: a session without a terminal."

READY_S = 30.0
"""How long a holder may take to start, on a very busy machine."""

SIZE = os.terminal_size((100, 30))
"""Size of the session's terminal if it is started without a terminal."""


def main(argv: Sequence[str]) -> int:
    """Starts a session and returns at once. Raises: UserError."""
    if argv[:1] == [HELD]:
        from kode.plugins.detached.inside import main as inside

        return inside(argv[1:])
    options = RunOptions.parse(argv, "kode start", ABOUT)
    arguments, home = options.arguments, kode_home()
    _refuse_flags_of_run(arguments)
    cwd = working_directory(arguments)
    options.check(cwd)
    options.read_task()
    id, tree, note = places.new_id(), None, ""
    if (name := vars(arguments).get("worktree")) is not None:
        tree, cwd, note = make_session_worktree(cwd, name, id)
    spec = Spec(
        id=id,
        words=tuple(argv),
        title=vars(arguments).get("goal") or options.title,
        task=options.task,
        piped=options.piped,
        cwd=str(cwd),
        here=os.getcwd(),
        at=time.time(),
        tty=_terminal_name(),
        tree=tree,
    )
    folder, lock = places.create_folder(home, spec)
    try:
        if tree is not None:
            options.check(cwd)  # again, because the worktree lacks files that are not committed
        launch_holder(folder, lock, spec)
    except UserError:
        places.forget_background(folder)
        if tree is not None:
            remove_branch(tree, tree.base)
        raise
    lines = [f"started {id} · kode attach {id[-6:]} · kode ps", *filter(None, [note])]
    value = {"id": id, "cwd": spec.cwd, "branch": tree.branch if tree else None}
    print_either(value, lines, as_json=arguments.output_format == "json")
    return 0


def _refuse_flags_of_run(arguments: Any) -> None:
    if arguments.no_session or arguments.session_id:
        raise ConfigError(
            "--no-session and --session-id are for `kode run`: what happens while nobody watches "
            "is kept, and --output-format json prints its id."
        )
    if "stream-json" in (arguments.input_format, arguments.output_format):
        raise ConfigError(
            "stream-json is for `kode run`. Here --output-format json prints the id, `kode ps "
            "--json` says how it stands, and `kode session export ID` gives all of it."
        )


def _terminal_name() -> str:
    for stream in (1, 2, 0):
        try:
            return os.ttyname(stream)
        except OSError:
            continue
    return ""


def launch_holder(folder: Path, lock: int, spec: Spec) -> None:
    """Starts the holder of a session, waits until it has started the prompt, and writes the spec to
    its standard input, which the prompt reads. Closes `lock` here: holder and prompt inherit it.
    Raises: UserError, after which nothing runs."""
    size = shutil.get_terminal_size(SIZE) if spec.tty else SIZE
    environ = dict(os.environ)
    if environ.get("TERM", "dumb") in ("", "dumb") and not spec.tty:
        environ["TERM"] = "xterm-256color"
    numbers = map(str, (lock, size.lines, size.columns))
    command = [sys.executable, "-I", "-S", str(holder.__file__), str(folder), *numbers]
    command += [sys.executable, "-P", "-m", "kode", "start", HELD]
    output = ""
    try:
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(
                command,
                cwd=spec.cwd,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                pass_fds=(lock,),
            ) as process,
        ):
            assert process.stdin is not None
            assert process.stdout is not None
            if select.select([process.stdout], [], [], READY_S)[0] and process.stdout.read(1):
                process.returncode = 0  # the holder outlives this process, so do not wait for it
                # `model_dump_json` would redact it.
                process.stdin.write(json.dumps(spec.model_dump()).encode())
                return
            process.kill()
            errors.seek(0)
            output = shorten(errors.read(2000).decode("utf-8", "replace"), 1000)
    except OSError as error:
        output = str(error)
    finally:
        os.close(lock)
    raise UserError(f"The session could not be started: {output or 'its holder ended'}.")

"""`kode start`: checks a task as far as can be foreseen, starts its holder, and gives back the
shell."""

import argparse
import json
import os
import re
import secrets
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from kode.plugin import (
    EXIT_OK,
    ConfigError,
    UserError,
    config_flags,
    load_config,
    one_line,
    paths,
    print_either,
    resolve_provider,
    working_directory,
)
from kode.plugins.detached import holder, places, trees
from kode.plugins.detached.flags import parser_of_run
from kode.plugins.detached.places import Spec
from kode.plugins.worktrees import has_changes

HELD = "--held"
"""The first word of a prompt's own command line, which `kode.plugins.detached.inside` reads."""

READY_S = 30.0
"""How long a holder may take to start, on a very busy machine."""

SIZE = os.terminal_size((100, 30))
"""Of the session's terminal, where it is started without one."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def main(argv: Sequence[str]) -> int:
    """Starts a session and returns at once. Raises: UserError."""
    if argv[:1] == [HELD]:
        from kode.plugins.detached.inside import main as inside

        return inside(argv[1:])
    arguments = parser_of_run().parse(argv)
    cwd, home = working_directory(arguments), paths.home()
    _check(arguments, cwd, home)
    task, asks, texts = _task(arguments)
    id = arguments.session_id or f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    if not _ID.fullmatch(id):
        raise ConfigError(f"--session-id {id}: use letters, digits, dots and hyphens.")
    if paths.session_file(home, id).exists() or (places.all_folder(home) / id).exists():
        raise ConfigError(f"There is a session {id} already. Give another --session-id.")
    tree, note = None, ""
    if arguments.worktree:
        project = paths.repository_root(cwd)
        tree, where = trees.make(home, cwd, id)
        if project is not None and has_changes(project):
            note = f"Uncommitted changes of {paths.short_path(project)} are not in its worktree."
        cwd = where
    spec = Spec(
        id=id,
        words=tuple(argv),
        task=task,
        asks=asks,
        cwd=str(cwd),
        here=os.getcwd(),
        at=time.time(),
        tty=_tty(),
        tree=tree,
    )
    folder, lock = places.make(home, spec)
    try:
        if tree is not None:
            _check(arguments, cwd, home)  # a file that is not committed is not there
        if texts:
            places.write_piped(folder, texts)
        _start(folder, cwd, lock, places.Task(spec=spec, piped=texts))
    except UserError:
        places.remove(folder)
        if tree is not None:
            trees.remove(home, tree, tree.base)
        raise
    finally:
        os.close(lock)
    short = id.rpartition("-")[2] if not arguments.session_id else id
    lines = [f"started {id} · kode attach {short} · kode ps", *filter(None, [note])]
    value = {"id": id, "cwd": spec.cwd, "branch": tree.branch if tree else None}
    print_either(value, lines, as_json=arguments.output_format == "json")
    return EXIT_OK


def _check(arguments: argparse.Namespace, cwd: Path, home: Path) -> None:
    """Finds what would end the session at once. Raises: UserError."""
    from kode.plugin import (
        answer_form,
        cassette_settings,
        check_rules,
        model_of,
        named_servers,
        read_attachments,
    )

    if arguments.no_session:
        raise ConfigError(
            "--no-session is for `kode run`: what happens while nobody watches is kept. `kode "
            "session delete ID` deletes it afterwards."
        )
    if arguments.input_format == "stream-json" or arguments.output_format == "stream-json":
        raise ConfigError(
            "stream-json is for `kode run`. Here --output-format json prints the id, `kode ps "
            "--json` says how it stands, and `kode session export ID` gives all of it."
        )
    if fault := paths.home_fault(home):
        raise ConfigError(fault)
    flags = {**config_flags(arguments), **cassette_settings(arguments)}
    loaded = load_config(home, cwd, environ=os.environ, flags=flags)
    check_rules(loaded)
    answer_form(arguments, cwd)
    with model_of(arguments) as recorded:
        if recorded is None:
            resolve_provider(loaded.config, os.environ, loaded.origins)
    named_servers(arguments, cwd)
    read_attachments(arguments.ctx, cwd, loaded.config.roots(cwd), lambda event: None)


def _task(arguments: argparse.Namespace) -> tuple[str, str, tuple[str, ...]]:
    """The task, what a plug-in's flag asks in its place, and piped input. Raises: ConfigError."""
    from kode.plugin import asked, read_task

    if arguments.task is None and (asks := asked(arguments, None, None)):
        return "", asks, ()
    task, piped = read_task(arguments.task)
    asks = (asked(arguments, task, None) or "").strip()
    if not asks:
        raise ConfigError(
            'There is no task. Give one in quotes, e.g. `kode start "fix the failing test"`, '
            "or pipe it in. `kode` opens a chat."
        )
    return task, asks if asks != task.strip() else "", tuple(part.text for part in piped)


def _tty() -> str:
    for stream in (1, 2, 0):
        try:
            return os.ttyname(stream)
        except OSError:
            continue
    return ""


def _size() -> os.terminal_size:
    if not _tty():
        return SIZE
    return shutil.get_terminal_size(SIZE)


def _start(folder: Path, cwd: Path, lock: int, task: places.Task) -> None:
    """Starts the holder, waits until it has started the prompt, and writes the task to the prompt's
    pipe. Raises: UserError, after which nothing runs."""
    heard, ready = os.pipe()
    source, target = os.pipe()
    size = _size()
    environ = dict(os.environ)
    if environ.get("TERM", "dumb") in ("", "dumb") and not _tty():
        environ["TERM"] = "xterm-256color"
    prompt = [sys.executable, "-P", "-m", "kode", "start", HELD]
    command = [
        *(sys.executable, "-I", "-S", str(Path(holder.__file__)), str(folder)),
        *(str(ready), places.CONTROL, str(lock), str(source)),
        *(str(size.lines), str(size.columns), *prompt),
    ]
    try:
        with tempfile.TemporaryFile() as errors:
            started = subprocess.Popen(
                command,
                cwd=cwd,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                pass_fds=(ready, lock, source),
            )
            os.close(ready)
            os.close(source)
            ready = source = -1
            if select.select([heard], [], [], READY_S)[0] and os.read(heard, 1):
                started.returncode = 0  # it is on its own: nobody waits for it here
                with os.fdopen(target, "wb") as file:
                    target = -1
                    # `model_dump_json` would redact it.
                    file.write(json.dumps(task.model_dump()).encode())
                return
            started.kill()
            started.wait()
            errors.seek(0)
            said = one_line(errors.read(2000).decode("utf-8", "replace"))
        raise UserError(f"The session could not be started: {said or 'its holder ended'}.")
    except OSError as error:
        raise UserError(f"The session could not be started: {error}.") from None
    finally:
        for descriptor in (heard, ready, source, target):
            if descriptor >= 0:
                os.close(descriptor)

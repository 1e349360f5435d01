"""`kode session export`: a session as one document, in a format of kode's or of a plug-in's."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from kode import durable, installed, paths
from kode.cli.parser import Parser
from kode.cli.screen.printer import Answered
from kode.errors import EXIT_FAILED, EXIT_OK, ConfigError
from kode.installed import ExportFile
from kode.plain_text import clean
from kode.session import index
from kode.session.export import as_json, as_markdown
from kode.session.reading import session_path
from kode.session.transcript import Transcript


def export(parser: Parser, argv: Sequence[str]) -> Answered:
    """Runs the command. Raises: ConfigError, SessionError, StorageError."""
    of_plugins = installed.added("exports")
    parser.add_argument(
        "id", metavar="ID", nargs="?", help="a session id, or any unique prefix (the newest here)"
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="the file for the cassette")
    parser.add_argument("--format", choices=list({**FORMATS, **of_plugins}), default="json")
    parser.add_argument("--yes", action="store_true", help="write the cassette without asking")
    arguments = parser.parse(argv, mixed=True)
    name, file = arguments.format, arguments.file
    run = FORMATS[name] if name in FORMATS else partial(installed.call, *of_plugins[name])
    if arguments.id is None:
        id, _ = index.newest(paths.home(), Path.cwd())
    else:
        id = index.find(paths.home(), arguments.id)
    path = session_path(paths.home(), id)
    found = run(Transcript.read(path))
    if isinstance(found, ExportFile):
        if file is None:
            raise ConfigError(
                f"The format {name} is written to a file: `kode session export ID --format {name} "
                "FILE`."
            )
        return _write(found, Path(file), sure=arguments.yes)
    if file is not None:
        raise ConfigError(f"The format {name} goes to stdout: `kode session export ID > FILE`.")
    text = clean(found) if sys.stdout.isatty() else found
    print(text, end="" if text.endswith("\n") else "\n")
    return EXIT_OK


def _write(export_file: ExportFile, path: Path, *, sure: bool) -> Answered:
    """Says what is in it, then writes it, after a yes. Raises: ConfigError, StorageError."""
    print(f"{path} will contain:", file=sys.stderr)
    for line in export_file.contains:
        print(clean(f"  {line}"), file=sys.stderr)
    if not sure:
        if not sys.stdin.isatty():
            raise ConfigError("There is no terminal to ask in: `--yes` writes it without asking.")
        print("Write it? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            print("Nothing was written.", file=sys.stderr)
            return EXIT_FAILED
    durable.replace(path, export_file.data)
    size_kb = len(export_file.data) // 1024 + 1
    return (
        f"written: {path}, {size_kb} KB. {export_file.then.replace('{path}', str(path))}".rstrip()
    )


def _json(transcript: Transcript) -> str:
    return json.dumps(as_json(transcript), indent=2)


FORMATS: Mapping[str, Callable[[Transcript], str | ExportFile]] = {
    "json": _json,
    "markdown": as_markdown,
}
"""kode's own formats: name → a function of the session, as a plug-in's is."""

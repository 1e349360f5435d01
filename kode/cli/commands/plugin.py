"""`kode plugin`: lists the plug-ins installed beside kode, and turns them on and off."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from kode import installed, paths
from kode.cli.parser import Parser, command_of, nearest
from kode.cli.screen.printer import Answer
from kode.config.files import read_layer, write_document
from kode.errors import ConfigError
from kode.installed import SECTION, Installed, Plugin

COMMANDS = {
    "list": "list plug-ins: on, off, or faulty",
    "show": "what one adds",
    "enable": "turn one on: it runs with your rights, as kode does",
    "disable": "turn one off",
}


def main(argv: Sequence[str]) -> Answer:
    """Answers `kode plugin ...`. Raises: ConfigError, StorageError."""
    command, parser, rest = command_of("plugin", COMMANDS, argv)
    if command == "list":
        parser.add_argument("--json", action="store_true", help="one JSON list")
        return _list(as_json=parser.parse(rest).json)
    parser.add_argument("name", metavar="NAME", help="the name in `kode plugin list`")
    one = _named(parser, rest)
    lines = _lines_of(one) if command == "show" else _switched(one, on=command == "enable")
    return Answer(lines=lines)


def _named(parser: Parser, argv: Sequence[str]) -> Installed:
    """Raises: ConfigError with the nearest name."""
    name = parser.parse(argv).name
    known = {one.name: one for one in installed.installed()}
    if name not in known:
        raise ConfigError(
            f"There is no plug-in {name!r} here.{nearest(name, known)} Install its package beside "
            "kode first; `kode plugin list` lists those that are."
        )
    return known[name]


def _list(*, as_json: bool) -> Answer:
    known = installed.installed()
    return Answer(
        value=[_row(one) for one in known],
        as_json=as_json,
        lines=() if as_json else [*_listed(known), *installed.clashes()],
        empty="No plug-in is installed.",
    )


def _listed(known: Sequence[Installed]) -> Iterator[str]:
    width = max((len(one.name) for one in known), default=0)
    for one in known:
        origin = "comes with kode" if one.is_own else f"{one.distribution} {one.version}"
        about = f" · {one.plugin.summary}" if one.plugin is not None else ""
        yield f"{one.name:<{width}}  {_state(one):<6}  {origin}{about}"
        if one.fault:
            yield f"{'':<{width}}  {one.fault}"


def _state(one: Installed) -> str:
    return "faulty" if one.fault else "on" if one.enabled else "off"


def _row(one: Installed) -> dict[str, Any]:
    return {
        "name": one.name,
        "state": _state(one),
        "distribution": one.distribution,
        "version": one.version,
        "summary": one.plugin.summary if one.plugin is not None else None,
        "fault": one.fault or None,
    }


def _lines_of(one: Installed) -> Iterator[str]:
    origin = "comes with kode" if one.is_own else f"from {one.distribution} {one.version}"
    yield f"{one.name}: {_state(one)}, {origin} ({one.value})"
    if one.fault:
        yield one.fault
    if one.plugin is None:
        if not one.enabled:
            yield "It is off, so nothing of it is imported, and nothing is known of it."
        return
    yield one.plugin.summary
    for part in fields(Plugin)[2:]:
        held = getattr(one.plugin, part.name)
        names = ", ".join(held) if isinstance(held, Mapping) else held
        if names:
            yield f"  {part.name}: {names}"


def _switched(one: Installed, *, on: bool) -> Iterator[str]:
    """Writes it to the person's own config. Raises: ConfigError for a file that cannot be read."""
    path = paths.config_file(paths.home())
    layer = read_layer(path)
    document = dict(layer.values) if layer is not None else {}
    section = document.setdefault(SECTION, {})
    if not isinstance(section, dict) or not isinstance(section.get(one.name, {}), dict):
        raise ConfigError(f"{path}: `{SECTION}` must be a section: {{NAME: {{...}}}}.")
    section.setdefault(one.name, {})["enabled"] = on
    write_document(path, document)
    installed.forget()
    yield f"{one.name} is {'on' if on else 'off'} ({path})."
    if on and not one.is_own:
        yield ("Its code runs with your rights whenever kode uses it.")

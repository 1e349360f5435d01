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
    plugin = _named(parser, rest)
    lines = _lines_of(plugin) if command == "show" else _switched(plugin, on=command == "enable")
    return Answer(lines=lines)


def _named(parser: Parser, argv: Sequence[str]) -> Installed:
    """Raises: ConfigError with the nearest name."""
    name = parser.parse(argv).name
    plugins = {plugin.name: plugin for plugin in installed.installed()}
    if name not in plugins:
        raise ConfigError(
            f"There is no plug-in {name!r} here.{nearest(name, plugins)} Install its package "
            "beside kode first; `kode plugin list` lists those that are."
        )
    return plugins[name]


def _list(*, as_json: bool) -> Answer:
    plugins = installed.installed()
    return Answer(
        value=[_row(plugin) for plugin in plugins],
        as_json=as_json,
        lines=() if as_json else [*_listed(plugins), *installed.clashes()],
        empty="No plug-in is installed.",
    )


def _listed(plugins: Sequence[Installed]) -> Iterator[str]:
    width = max((len(one.name) for one in plugins), default=0)
    for plugin in plugins:
        origin = "comes with kode" if plugin.is_own else f"{plugin.distribution} {plugin.version}"
        about = f" · {plugin.plugin.summary}" if plugin.plugin is not None else ""
        yield f"{plugin.name:<{width}}  {_state(plugin):<6}  {origin}{about}"
        if plugin.fault:
            yield f"{'':<{width}}  {plugin.fault}"


def _state(plugin: Installed) -> str:
    return "faulty" if plugin.fault else "on" if plugin.enabled else "off"


def _row(plugin: Installed) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "state": _state(plugin),
        "distribution": plugin.distribution,
        "version": plugin.version,
        "summary": plugin.plugin.summary if plugin.plugin is not None else None,
        "fault": plugin.fault or None,
    }


def _lines_of(plugin: Installed) -> Iterator[str]:
    origin = "comes with kode" if plugin.is_own else f"from {plugin.distribution} {plugin.version}"
    yield f"{plugin.name}: {_state(plugin)}, {origin} ({plugin.value})"
    if plugin.fault:
        yield plugin.fault
    if plugin.plugin is None:
        if not plugin.enabled:
            yield "It is off, so kode has not imported it and knows no more about it."
        return
    yield plugin.plugin.summary
    for part in fields(Plugin)[2:]:
        held = getattr(plugin.plugin, part.name)
        names = ", ".join(held) if isinstance(held, Mapping) else held
        if names:
            yield f"  {part.name}: {names}"


def _switched(plugin: Installed, *, on: bool) -> Iterator[str]:
    """Writes it to the person's own config. Raises: ConfigError for a file that cannot be read."""
    path = paths.config_file(paths.home())
    layer = read_layer(path)
    document = dict(layer.values) if layer is not None else {}
    section = document.setdefault(SECTION, {})
    if not isinstance(section, dict) or not isinstance(section.get(plugin.name, {}), dict):
        raise ConfigError(f"{path}: `{SECTION}` must be a section: {{NAME: {{...}}}}.")
    section.setdefault(plugin.name, {})["enabled"] = on
    write_document(path, document)
    installed.forget()
    yield f"{plugin.name} is {'on' if on else 'off'} ({path})."
    if on and not plugin.is_own:
        yield ("Its code runs with your rights whenever kode uses it.")

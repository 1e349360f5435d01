"""`kode plugin`: lists, installs and creates plug-ins, and turns them on and off."""

import importlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kode import installed
from kode.cli.parser import Commands, Parser, suggest
from kode.cli.screen.printer import Answered, CommandAnswer
from kode.config.load import store_value
from kode.errors import ConfigError
from kode.installed import SECTION, Installed, Plugin
from kode.process import find_program
from kode.values import fields

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def _list_plugins(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    parser.add_argument("--json", action="store_true", help="one JSON list")
    as_json = parser.parse(argv).json
    rows: list[dict[str, Any]] = [
        {
            "name": plugin.name,
            "state": _describe_state(plugin),
            "distribution": plugin.distribution,
            "version": plugin.version,
            "summary": plugin.plugin.summary if plugin.plugin is not None else None,
            "fault": plugin.fault or None,
        }
        for plugin in installed.find_plugins()
    ]
    return CommandAnswer(
        value=rows,
        as_json=as_json,
        rows=[
            [row["name"], row["state"], row["distribution"], row["fault"] or row["summary"] or ""]
            for row in rows
        ],
        empty="No plug-in is installed.",
    )


def _describe_state(plugin: Installed) -> str:
    return "faulty" if plugin.fault else "on" if plugin.enabled else "off"


def _find_plugin(parser: Parser, argv: Sequence[str]) -> Installed:
    """The plug-in that the arguments name. Raises: ConfigError if there is none."""
    parser.add_argument("name", metavar="NAME", help="the name in `kode plugin list`")
    name = parser.parse(argv).name
    plugins = {plugin.name: plugin for plugin in installed.find_plugins()}
    if name not in plugins:
        raise ConfigError(
            f"There is no plug-in {name!r} here.{suggest(name, plugins)} `kode plugin list` lists "
            "all; `kode plugin install SOURCE` installs one."
        )
    return plugins[name]


def _show_plugin(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    return CommandAnswer(lines=_describe_plugin(_find_plugin(parser, argv)))


def _describe_plugin(plugin: Installed) -> Iterator[str]:
    origin = f"from {plugin.distribution} {plugin.version} ({plugin.value})"
    yield f"{plugin.name}: {_describe_state(plugin)}, {origin}"
    if plugin.fault:
        yield plugin.fault
    if plugin.plugin is None:
        if not plugin.enabled:
            yield "It is off, so kode has not imported it and knows no more about it."
        return
    yield plugin.plugin.summary
    for part in fields(Plugin)[2:]:
        added = getattr(plugin.plugin, part.name)
        if isinstance(added, Mapping):
            added = ", ".join(added)
        if added:
            yield f"  {part.name}: {getattr(added, '__name__', added)}"


def _switch(parser: Parser, argv: Sequence[str], *, is_on: bool) -> CommandAnswer:
    """Turns a plug-in on or off in the person's config. Raises: ConfigError if it is unreadable."""
    plugin = _find_plugin(parser, argv)
    path = store_value(f"{SECTION}.{plugin.name}.enabled", is_on, parser.prog)
    installed.forget_plugins()
    lines = [f"{plugin.name} is {'on' if is_on else 'off'} ({path})."]
    if is_on and not plugin.is_own:
        lines.append("Its code runs with your rights whenever kode uses it.")
    return CommandAnswer(lines=lines)


def _install_plugin(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    """Installs a plug-in by uv or pip. Raises: ConfigError if that fails."""
    parser.add_argument("source", metavar="SOURCE", help="as pip takes it")
    source = parser.parse(argv).source
    before = {(plugin.name, plugin.version) for plugin in installed.find_plugins()}
    what = str(Path(source).resolve()) if Path(source).exists() else source
    uv = find_program("uv")
    if uv:
        command = [uv, "pip", "install", "--python", sys.executable, "--", what]
    elif importlib.util.find_spec("pip"):
        command = [sys.executable, "-m", "pip", "install", "--", what]
    else:
        raise ConfigError(
            f"kode's environment {sys.prefix} has no pip, and there is no uv: install uv, or add "
            f"{source} the way you installed kode (docs/plugins.md)."
        )
    if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode:
        raise ConfigError(
            f"{source} was not installed into {sys.prefix}; the reason is above. If that cannot be "
            "changed, add it the way you installed kode (docs/plugins.md)."
        )
    importlib.invalidate_caches()
    installed.forget_plugins()
    new = [it for it in installed.find_plugins() if (it.name, it.version) not in before]
    lines = []
    for plugin in new:
        then = "" if plugin.enabled else f"; `kode plugin enable {plugin.name}` turns it on"
        lines.append(f"Installed {plugin.name} {plugin.version}: {_describe_state(plugin)}{then}.")
    nothing = f"{source} is installed. It adds no plug-in that was not there before."
    return CommandAnswer(lines=lines, empty=nothing)


def _create_plugin(parser: Parser, argv: Sequence[str]) -> CommandAnswer:
    """Writes a package to begin a plug-in with. Raises: ConfigError."""
    parser.add_argument("name", metavar="NAME", help="lower-case letters, digits, hyphens")
    name = parser.parse(argv).name
    folder = Path(f"kode-{name}")
    if not NAME.fullmatch(name) or any(it.name == name for it in installed.find_plugins()):
        raise ConfigError(f"{name!r} is taken, or not of lower-case letters, digits and hyphens.")
    if folder.exists():
        raise ConfigError(f"{folder} exists already. Name another plug-in, or remove it.")
    module = f"kode_{name.replace('-', '_')}"
    try:
        for path, text in PACKAGE.items():
            file = folder / path.format(module=module)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.format(name=name, module=module), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{folder} could not be written: {error.strerror}.") from error
    wrote = f"Wrote {folder} with a tool and its test: `cd {folder} && python -m pytest` runs it."
    use = f"Use it: `kode plugin install ./{folder}`, then `kode plugin enable {name}`."
    return CommandAnswer(lines=[wrote, use])


PACKAGE = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "kode-{name}"
version = "0.1"
dependencies = ["kode"]

[project.entry-points."kode.plugins"]
{name} = "{module}:PLUGIN"
""",
    "{module}/__init__.py": """\
from kode.plugin import Plugin

PLUGIN = Plugin(name="{name}", summary="counts words", tools="{module}.tools:tools")
""",
    "{module}/tools.py": """\
def tools(context):
    return [count_words]


def count_words(text: str) -> int:
    \"""Counts the words of a text.\"""
    return len(text.split())
""",
    "test_{module}.py": """\
import pkgutil

from {module} import PLUGIN


def test_the_tool_counts_words():
    [count_words] = pkgutil.resolve_name(PLUGIN.tools)(None)
    assert count_words("two words") == 2
""",
}
"""What `kode plugin new` writes: path → text."""

COMMANDS: Commands = {
    "list": (_list_plugins, "list plug-ins: on, off, or faulty"),
    "show": (_show_plugin, "what one adds"),
    "enable": (partial(_switch, is_on=True), "turn one on: it runs with your rights, as kode does"),
    "disable": (partial(_switch, is_on=False), "turn one off"),
    "install": (_install_plugin, "install one into the environment of kode, as pip does"),
    "new": (_create_plugin, "write a package with a tool and its test, to begin one"),
}


def main(argv: Sequence[str]) -> Answered:
    """Answers `kode plugin ...`. Raises: ConfigError, StorageError."""
    return Parser.run_group("plugin", COMMANDS, argv)

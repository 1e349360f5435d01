"""The plug-ins and extras installed beside kode: which there are, which are on, and what each adds.

A plug-in is a package with an entry point in the group `kode.plugins` that names a `Plugin`. Those
that kode ships are on unless the person turned them off; any other is off, and not imported, until
the person names it in their own config, or its file with `--plugin`. See `docs/plugins.md`. An
extra is a part of kode whose packages only those install who want them, as in `pyproject.toml`.
"""

import contextlib
import functools
import importlib.util
import json
import os
import pkgutil
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from kode import paths
from kode.errors import ConfigError, KodeError, PluginError
from kode.values import Value, dataclass, field, fields, replace

SECTION = "plugins"
"""The section of the config with `enabled` and the settings of each plug-in, by its name."""

OWN = "kode"
"""The distribution whose plug-ins are on by default."""

FILES = "KODE_PLUGIN_FILES"
"""The variable with the files of `--plugin`, for this process and those that it starts."""

Code = str | Callable[..., Any] | Sequence[Any]
"""Something that a plug-in adds: "module:name", imported on first use, or the object itself."""


class Command(Value):
    """A command that a plug-in adds, in the terminal or at the prompt."""

    run: Code
    """The function that runs it. `kode NAME ...` calls it with the arguments and exits with the
    integer that it returns; `/NAME ...` awaits it with a `PluginSession` and the rest of the line,
    and prints the text that it returns or sends the `Prompt` to the model."""
    summary: str
    """What it does, in a few words; "" for another name of a command, which no list shows."""
    systems: Sequence[str] = ()
    """For a command of `kode memory`: the memory systems whose help lists it; () for all."""


class ExportFile(Value):
    """An export with personal content; the person is warned of it."""

    data: bytes
    contains: Sequence[str]
    """What is in it, and what of that is personal: lines for the person."""


class Plugin(Value):
    """What a plug-in adds; see `Code`."""

    name: str
    """Letters, digits and hyphens; the name of its section in the config."""
    summary: str
    commands: Mapping[str, Command] = field(default_factory=dict)
    """`kode NAME`; a name of two words is one of a group: "mcp serve"."""
    slash: Mapping[str, Command] = field(default_factory=dict)
    """`/NAME`, without the slash."""
    tools: Code = ""
    """A function of a `PluginSession` that returns tools: plain functions, or `Tool`s."""
    sections: Code = ""
    """A function of a `PluginSession` that returns sections for the system prompt, by name, when a
    session begins and after a compaction; their texts are sent with every request."""
    subscriber: Code = ""
    """A function of a `PluginSession` that returns a `Subscriber`, or None."""
    before_call: Code = ""
    """A function, plain or async, of a `PluginSession` and a `tool.Action`, before each call of a
    tool, in subagents too: it returns `refuse(why)`, `ask(why)` or `change(call, arguments)` of the
    session, or None. A call at which it fails is refused."""
    around_turn: Code = ""
    """An async function of a `PluginSession`, the `Conversation`, a message and its `RunTurn`, that
    returns the `TurnEnded`. Called if resumed, or a plug-in's slash command was used."""
    flags: Code = ""
    """A function of a `Parser` that adds flags to `kode run` and to all that take its flags."""
    around_run: Code = ""
    """As `task`, without TASK, but returns a context manager, and may change the flags."""
    task: Code = ""
    """A function of the parsed flags, of TASK and the id of a session to resume, or None, that
    returns what is asked instead. Called for such a session, and a flag of a plug-in."""
    providers: Code = ""
    """A sequence of `ProviderRow`s."""
    formats: Mapping[str, Code] = field(default_factory=dict)
    """The wire formats that these rows name, each with the class that speaks it."""
    memory: Mapping[str, Code] = field(default_factory=dict)
    """Memory systems: name → the class, called with the config's `memory` section."""
    exports: Mapping[str, Code] = field(default_factory=dict)
    """Formats of `kode session export`: name → a function of a `Transcript` → text or
    `ExportFile`."""
    replays: Mapping[str, Code] = field(default_factory=dict)
    """Formats of `exports` that can stand in for a model: name → a context manager over a file that
    gives a `Provider`, with the `tool_format` that was used. Before the first request its
    `follow` is called with the home, the project, the session's id, and what returns the sections
    of the system prompt."""
    imports: Mapping[str, Code] = field(default_factory=dict)
    """Agents whose sessions kode imports: name → a function of a path → a `Transcript` or None."""
    remote_logs: Mapping[str, Code] = field(default_factory=dict)
    """Servers that keep memory for several people: the scheme of `memory.notes.url` → a function of
    the config's `memory.notes` that returns a `RemoteLog`."""
    memory_imports: Mapping[str, Code] = field(default_factory=dict)
    """Agents whose memory kode imports: name → a `kode.memory.transfer.ForeignReader`."""
    bundles: Code = ""
    """A function of `$KODE_HOME` that returns each `Bundle` that a person has approved and that is
    unchanged, and a sentence for each that is off. Called where that folder has any."""
    settings: Code = ""
    """The pydantic model of its settings; without one it has none."""
    checks: Code = ""
    """A function without arguments that returns `Finding`s for `kode doctor`."""

    @property
    def session_parts(self) -> tuple[Code, ...]:
        """What the plug-in adds to a session, besides slash commands and `before_call`."""
        return self.tools, self.sections, self.subscriber, self.around_turn


@dataclass(frozen=True)
class Installed:
    """A plug-in on this machine."""

    name: str
    distribution: str
    version: str
    value: str
    """The "module:name" of its `Plugin`."""
    enabled: bool
    fault: str = ""
    """Why it is not used although it is on, in a sentence; "" if it is."""
    plugin: Plugin | None = None
    """None if the plug-in is off or has a fault."""

    @property
    def is_own(self) -> bool:
        """Whether it came with kode."""
        return self.distribution == OWN


def find_plugins() -> tuple[Installed, ...]:
    """Every plug-in of this environment, kode's own first, then by name, read once a process. Of
    those that are on, the module is imported, and nothing of what it names. Never raises."""
    return _read_entry_points(str(paths.kode_home()), os.environ.get(FILES, ""))


def enabled_plugins() -> tuple[Plugin, ...]:
    """The plug-ins that are on and have no fault."""
    return tuple(plugin.plugin for plugin in find_plugins() if plugin.plugin is not None)


def forget_plugins() -> None:
    """Makes the next call of `find_plugins` look again, after the config has changed."""
    _read_entry_points.cache_clear()
    faults.clear()


def find_additions(kind: str) -> dict[str, tuple[Plugin, Any]]:
    """All additions of one field of `Plugin`, such as `commands`: name → the plug-in and what it
    names."""
    every = ((plugin, getattr(plugin, kind)) for plugin in enabled_plugins())
    return {name: (plugin, code) for plugin, added in every for name, code in added.items()}


def rewrite_task(arguments: Any, task: str | None, session_id: str | None) -> str | None:
    """Returns the task to use in place of TASK; see `Plugin.task`. Raises: ConfigError."""
    is_wanted = session_id is not None or bool(getattr(arguments, "of_plugins", ()))
    for plugin in enabled_plugins() if is_wanted else ():
        if plugin.task:
            ask = functools.partial(call_part, plugin, plugin.task, arguments, task, session_id)
            task = try_plugin(plugin, ask, task)
    return task


def find_command(*words: str) -> Callable[[Sequence[str]], int] | None:
    """The function that runs a plug-in's command, alone or in a group; None if there is none."""
    addition = find_additions("commands").get(" ".join(words))
    return addition and functools.partial(call_part, addition[0], addition[1].run)


def subcommands(group: str, system: str = "") -> dict[str, str]:
    """The commands that plug-ins add to a group, for one memory system or all: name → summary."""
    return {
        name.removeprefix(f"{group} "): command.summary
        for name, (_, command) in find_additions("commands").items()
        if name.startswith(f"{group} ")
        and (not system or not command.systems or system in command.systems)
    }


faults: dict[str, str] = {}
"""The plug-ins that kode continues without in this process: name → what was wrong, a sentence."""


def guard_plugin(plugin: Plugin, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function of a plug-in, plain or async: an exception that is not a KodeError becomes a
    PluginError, unless the plug-in came with kode, whose fault it is then."""

    @contextlib.contextmanager
    def blame_plugin() -> Iterator[None]:
        try:
            yield
        except (KodeError, BrokenPipeError):
            raise
        except Exception as error:
            if any(other.is_own for other in find_plugins() if other.name == plugin.name):
                raise
            raise PluginError(describe_plugin_fault(plugin, error)) from error

    async def await_result(result: Awaitable[Any]) -> Any:
        with blame_plugin():
            return await result

    @functools.wraps(function)
    def call_guarded(*arguments: Any, **named: Any) -> Any:
        with blame_plugin():
            result = function(*arguments, **named)
        return await_result(result) if isinstance(result, Awaitable) else result

    return call_guarded


def describe_plugin_fault(plugin: Plugin, error: Exception, where: Code = "") -> str:
    """A sentence about a plug-in that failed; `where` it failed, as "module:name"."""
    if isinstance(error, KodeError):
        return str(error)
    what = f"{where}: " if where else ""
    return (
        f"The plug-in {plugin.name} failed: {what}{describe_error(error)}. "
        f"Update it, or turn it off: `kode plugin disable {plugin.name}`."
    )


def describe_error(error: Exception) -> str:
    """An error of a plug-in's code, with the last line outside kode that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [at for at in frames if not at.filename.startswith(os.path.dirname(__file__))]
    where = [f" ({os.path.basename(at.filename)}, line {at.lineno})" for at in outside[-1:]]
    return "".join((f"{type(error).__name__}: {error}", *where))


def load_part(plugin: Plugin, where: Code) -> Any:
    """What a plug-in adds, imported if it names it as "module:name". Raises: PluginError."""
    try:
        return pkgutil.resolve_name(where) if isinstance(where, str) else where
    except KodeError:
        raise
    except Exception as error:
        raise PluginError(describe_plugin_fault(plugin, error, where)) from error


def call_part(plugin: Plugin, where: Code, *arguments: Any) -> Any:
    """Calls the function that a plug-in names. Raises: PluginError, and what it raises itself."""
    return guard_plugin(plugin, load_part(plugin, where))(*arguments)


def try_plugin(plugin: Plugin, make: Callable[[], Any], instead: Any) -> Any:
    """Returns what a plug-in's code makes; if it fails, records that in `faults` and returns
    `instead`. Raises: what the code raises on purpose, such as a ConfigError."""
    try:
        return make()
    except Exception as error:
        if isinstance(error, KodeError) and not isinstance(error, PluginError):
            raise
        faults.setdefault(plugin.name, describe_plugin_fault(plugin, error))
        return instead


def use_plugin_file(name: str) -> None:
    """Uses the plug-in in a file, in this process and in kodes that it starts. It takes precedence
    over an installed one with its name, except kode's own. Raises: ConfigError."""
    path = paths.real_path(paths.expand_path(name))
    plugin = _run_file(path)
    if any(other.name == plugin.name and other.is_own for other in find_plugins()):
        raise ConfigError(
            f"--plugin {name}: {plugin.name!r} is a plug-in of kode. Choose another name."
        )
    earlier = os.environ.get(FILES, "").split(os.pathsep)
    os.environ[FILES] = os.pathsep.join(filter(None, dict.fromkeys([*earlier, path])))
    forget_plugins()


@functools.cache
def _run_file(path: str) -> Plugin:
    """Runs a file, without leaving a compiled one beside it, and returns its `PLUGIN`."""
    module = ModuleType(f"kode_plugin_{Path(path).stem}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # where dataclasses and pydantic look up annotations
    try:
        exec(compile(Path(path).read_bytes(), path, "exec"), module.__dict__)
    except OSError as error:
        raise ConfigError(f"--plugin {path}: {error.strerror}. Name a Python file.") from error
    except Exception as error:
        raise ConfigError(f"--plugin {path}: the file failed: {describe_error(error)}.") from error
    plugin = module.__dict__.get("PLUGIN")
    if not isinstance(plugin, Plugin):
        raise ConfigError(
            f"--plugin {path}: the file needs `PLUGIN = Plugin(name=..., ...)`; docs/plugins.md "
            "has an example."
        )
    return plugin


@functools.lru_cache(maxsize=1)
def _read_entry_points(home: str, files: str) -> tuple[Installed, ...]:
    """Reads all plug-ins. If several share a name, kode's own counts, else the one of a file, so
    that no package can replace a plug-in of kode by using its name."""
    from importlib.metadata import entry_points

    sections = _read_plugin_settings()
    metadata = functools.cache(lambda dist: dist.metadata if dist else {})  # parsed each time
    of_packages = [
        _inspect_plugin(point.name, point.value, metadata(point.dist), sections.get(point.name))
        for point in entry_points(group="kode.plugins")
    ]
    of_packages.sort(key=lambda plugin: plugin.name)
    ours = [plugin for plugin in of_packages if plugin.is_own]
    of_files = map(_inspect_file, filter(None, files.split(os.pathsep)))
    first: dict[str, Installed] = {}
    for plugin in (*ours, *of_files, *of_packages):
        if plugin.name not in first:
            fault = _find_clash(plugin, first.values())
            first[plugin.name] = replace(plugin, plugin=None, fault=fault) if fault else plugin
    return tuple(first.values())


def _find_clash(plugin: Installed, others: Iterable[Installed]) -> str:
    """A sentence if a plug-in adds something under a name that another one uses; else ""."""
    for kind in (part.name for part in fields(Plugin) if part.default_factory is dict):
        for other in others:
            if both := {*getattr(plugin.plugin, kind, ())} & {*getattr(other.plugin, kind, ())}:
                return f"{other.name} has {kind} {', '.join(both)} too: turn one of them off"
    return ""


def _read_plugin_settings() -> Mapping[str, Any]:
    """The plug-in section of the person's config file, unvalidated; {} if the file cannot be read,
    which loading the config reports."""
    try:
        sections = json.loads(paths.config_file(paths.kode_home()).read_bytes())[SECTION]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return {}
    return sections if isinstance(sections, dict) else {}


def _inspect_plugin(name: str, value: str, about: Mapping[str, str], section: Any) -> Installed:
    """A plug-in of a package, imported if it is on."""
    distribution = about.get("Name", "?")
    enabled = section.get("enabled") if isinstance(section, dict) else None
    is_on = enabled if isinstance(enabled, bool) else distribution == OWN
    plugin, fault = None, ""
    try:
        plugin = pkgutil.resolve_name(value) if is_on else None
        if is_on and not isinstance(plugin, Plugin):
            fault = f"{value} is no `kode.plugin.Plugin`"
        elif plugin and plugin.name != name:
            fault = f"{value} calls itself {plugin.name!r}, and its entry point {name!r}"
    except Exception as error:
        fault = f"{value} cannot be imported: {type(error).__name__}: {error}"
    version, plugin = about.get("Version", "?"), None if fault else plugin
    return Installed(name, distribution, version, value, is_on, fault, plugin)


def _inspect_file(path: str) -> Installed:
    try:
        plugin, name, fault = _run_file(path), _run_file(path).name, ""
    except ConfigError as error:
        plugin, name, fault = None, Path(path).stem, str(error)
    return Installed(name, f"the file {path}", "", "PLUGIN", True, fault, plugin)


EXTRAS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "acp": ("Working in an editor (ACP)", ("acp",)),
    "bedrock": ("Amazon Bedrock without AWS_BEARER_TOKEN_BEDROCK", ("boto3",)),
    "documents": ("Reading a PDF", ("pypdfium2", "PIL")),
    "mcp": ("MCP", ("mcp", "mcp_types")),
    "pictures": ("Making a large picture smaller", ("PIL",)),
    "ray": ("Running a fleet on Ray", ("ray",)),
    "team": ("Sharing notes with a team", ("psycopg",)),
    "vertex": ("Vertex AI without an access token", ("google.auth",)),
    "view": ("Showing sessions as pages", ("starlette", "uvicorn", "jinja2")),
    "web": ("Reading a web page", ("selectolax",)),
}
"""Name → what needs it, and the modules it brings."""


def has_extra(extra: str) -> bool:
    """Whether all modules of an extra can be imported. Imports at most the parent of one."""
    try:
        return all(importlib.util.find_spec(module) for module in EXTRAS[extra][1])
    except ImportError:  # the parent is missing
        return False


def require_extra(extra: str, error: type[KodeError] = ConfigError) -> None:
    """Raises: `error`, with the command that installs the extra, unless it is installed."""
    if not has_extra(extra):
        raise error(
            f"{EXTRAS[extra][0]} needs kode's extra `{extra}`, which is not installed: "
            f"{extra_install_command(extra)}"
        )


def extra_install_command(extra: str) -> str:
    """The command line that adds an extra to this installation."""
    from importlib.metadata import distribution

    prefix = Path(sys.prefix)
    if (prefix / "uv-receipt.toml").exists():
        form = "uv tool install {}"
    elif (prefix / "pipx_metadata.json").exists():
        form = "pipx install --force {}"
    elif any((folder / "CACHEDIR.TAG").exists() for folder in prefix.parents):
        form = "uvx --from {} kode"
    else:
        return f"pip install 'kode[{extra}]'"
    # The environment is built again with every extra that it has, from where kode was installed: an
    # index may have another program of that name.
    extras = ",".join(name for name in EXTRAS if name == extra or has_extra(name))
    origin = distribution("kode").read_text("direct_url.json")
    return form.format(f"'kode[{extras}]" + (f" @ {json.loads(origin)['url']}'" if origin else "'"))

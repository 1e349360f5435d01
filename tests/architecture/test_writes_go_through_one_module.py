"""In trees that others change meanwhile, files are changed by `kode.beneath` and nothing else.

No function of the package changes a file by its path, but for those listed: each in a place that
nobody else changes, for the reason that stands there.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture import modules
from tests.tables import for_each

HOME = "in $KODE_HOME, where kode alone writes"
NEW = "in a folder that this process has just made, under a name nobody could know"
NAMED = "the very path that the person has named"
PRIVATE = "in the store of layers, which is this user's alone, and no command can reach"
NO_FILE = "no file"

BY_PATH: dict[str, dict[str, str]] = {
    "cli/commands/demo.py": {"make_scratch_project": NEW},
    "cli/commands/plugin.py": {"_create_plugin": NAMED},
    "plugins/detached/holder.py": {"run_until_end": HOME, "main": HOME},
    "plugins/detached/places.py": {"create_folder": HOME},
    "plugins/fleet/trees.py": {
        "_make_tree": "a folder of its own, whose place is checked afterwards"
    },
    "config/files.py": {"restrict_home": HOME},
    "durable.py": {
        "remove_stale_temporaries": "temporary files of kode by their prefix, never through a link",
        "cut_torn_line": HOME,
        "write_length": "the note beside a log, never through a link",
        "remove_length": "the note beside a log that kode removes, and not what it leads to",
        "open_for_append": HOME,
        "remove": HOME,
        "set_aside": HOME,
    },
    "extensions/mcp_server.py": {"remove_caches": HOME},
    "memory/embed.py": {"open_disposable": HOME},
    "memory/pending.py": {"claim": HOME},
    "providers/stream.py": dict.fromkeys(("__aenter__", "read_events", "soften"), NO_FILE),
    "plugins/replay/recording.py": {"read_cassette": NEW},
    "sandbox/layer.py": dict.fromkeys(
        "_merge_path _walk carry_layer give_rights make_layer remove_tree make_mask".split(),
        PRIVATE,
    ),
    "sandbox/sandbox.py": dict.fromkeys("forget open_store temporary_folder".split(), PRIVATE),
    "sandbox/trial.py": {
        "_try_write": "what the self-test tries from within the sandbox",
        "prove_sandbox": NEW,
    },
    "session/log.py": {"_open_locked": HOME, "close": HOME},
    "session/upkeep.py": {"delete_session": HOME, "import_file": HOME},
    "subagents/records.py": {"end_unfinished": HOME},
    "tools/output.py": {"_write": HOME},
    "undo/store.py": {"_store_data": HOME, "drop_oldest": HOME},
}
"""Module → function → why it may."""

DOOR = "beneath.py"
OF_OS = frozenset(
    "rename replace renames unlink remove removedirs mkdir makedirs rmdir symlink link chmod chown "
    "lchown utime truncate mknod mkfifo setxattr".split()
)
OF_SHUTIL = frozenset("copy copy2 copyfile copymode copystat copytree move rmtree chown".split())
OF_PATH = frozenset(
    "unlink mkdir rmdir chmod write_text write_bytes touch symlink_to hardlink_to".split()
)
OF_PATH_WITH_A_TARGET = frozenset(("rename", "replace"))
METHODS = OF_OS | OF_SHUTIL | OF_PATH | OF_PATH_WITH_A_TARGET | {"open"}


def writes(call: ast.Call) -> bool:
    """Whether a call opens a file to write to it."""
    modes = (*call.args, *(word.value for word in call.keywords))
    return any(
        isinstance(mode, ast.Constant)
        and isinstance(mode.value, str)
        and 0 < len(mode.value) <= 3
        and set(mode.value) <= set("rwaxbt+")
        and set(mode.value) & set("wax+")
        for mode in modes
    )


def is_by_path(call: ast.Call, function: ast.AST) -> bool:
    """Whether a call in a function changes a file, or opens one to change it, by its
    path."""
    if any("dir_fd" in (word.arg or "") for word in call.keywords):
        return False
    if isinstance(call.func, ast.Name):
        first = call.args[0] if call.args else None
        by_descriptor = isinstance(first, ast.Call) and "os.open" in ast.unparse(first.func)
        by_descriptor |= any(word.arg == "closefd" for word in call.keywords)
        devnull = first is not None and ast.unparse(first) == "os.devnull"
        return call.func.id == "open" and writes(call) and not by_descriptor and not devnull
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in METHODS:
        return False
    name, of = call.func.attr, ast.unparse(call.func.value)
    if of == "os":
        opens = name == "open" and any(
            flag in ast.unparse(function) for flag in ("O_CREAT", "O_TRUNC", "O_APPEND")
        )
        # A descriptor is no path.
        by_descriptor = bool(call.args) and "fileno()" in ast.unparse(call.args[0])
        return (name in OF_OS or opens) and not by_descriptor
    if of == "shutil":
        return name in OF_SHUTIL
    if name in OF_PATH_WITH_A_TARGET:
        return len(call.args) == 1 and not call.keywords and of not in ("beneath", "durable")
    return name in OF_PATH or (name == "open" and writes(call))


def changes_by_path(module: ast.Module) -> Iterator[tuple[str, str]]:
    """(function, call) of each change."""
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and is_by_path(call, function):
                    yield function.name, ast.unparse(call)


def found_in(module: str) -> dict[str, list[str]]:
    calls: dict[str, list[str]] = {}
    for function, call in changes_by_path(modules()[f"kode/{module}"]):
        calls.setdefault(function, []).append(call)
    return calls


def test_no_file_is_changed_by_its_path_anywhere_else() -> None:
    wrong = {
        f"{module}:{function}": calls
        for module in (path.removeprefix("kode/") for path in modules())
        if module != DOOR
        for function, calls in found_in(module).items()
        if function not in BY_PATH.get(module, {})
    }
    assert wrong == {}


def test_every_function_of_the_list_changes_something() -> None:
    listed = {(module, one) for module, functions in BY_PATH.items() for one in functions}
    assert listed == {(module, one) for module in BY_PATH for one in found_in(module)}


@for_each(
    "call",
    [
        "os.replace(a, b)",
        "shutil.copy2(a, b)",
        "path.write_text('x')",
        "path.rename(b)",
        "open(path, 'wb')",
        "path.open('a')",
        "os.open(path, os.O_WRONLY | os.O_CREAT)",
        "path.parent.mkdir(parents=True)",
    ],
)
def test_a_write_by_path_is_found(call: str) -> None:
    assert list(changes_by_path(ast.parse(f"def f():\n    {call}"))) == [("f", call)]


@pytest.mark.parametrize(
    "call",
    [
        "os.unlink(a, dir_fd=b)",
        "text.replace('a', 'b')",
        "open(path, 'rb')",
        "beneath.remove(f, a)",
    ],
)
def test_other_calls_write_nothing_by_path(call: str) -> None:
    assert list(changes_by_path(ast.parse(f"def f():\n    {call}"))) == []

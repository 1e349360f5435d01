"""In trees that others change meanwhile, files are changed by `kode.beneath` and nothing else."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

KODE = Path(__file__).parents[2] / "kode"

OWN: dict[str, frozenset[str]] = {
    "sandbox/apply.py": frozenset({"_merge", "_remove"}),
    "sandbox/live.py": frozenset(),
    "replay/scratch.py": frozenset({"scratch", "_copy", "_remove_copy"}),
    "session/moves.py": frozenset(),
    "session/content_store.py": frozenset({"drop_oldest", "_put"}),
}
"""Module → its functions that work in a folder that kode alone has made and nobody else enters."""

CHANGES = frozenset(
    "rename replace unlink remove mkdir makedirs rmdir symlink link chmod utime write_text "
    "write_bytes touch rename_to symlink_to hardlink_to copy copy2 copyfile copytree move "
    "rmtree".split()
)


def changes_by_path(module: str, own: frozenset[str]) -> Iterator[str]:
    tree = ast.parse((KODE / module).read_text())
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or function.name in own:
            continue
        for call in ast.walk(function):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            receiver = call.func.value
            by_door = isinstance(receiver, ast.Name) and receiver.id in ("beneath", "durable")
            by_descriptor = any("dir_fd" in (word.arg or "") for word in call.keywords)
            of_text = call.func.attr == "replace" and len(call.args) == 2
            if call.func.attr in CHANGES and not (by_door or by_descriptor or of_text):
                yield f"{module}:{call.lineno} {ast.unparse(call)}"


@pytest.mark.parametrize("module", OWN)
def test_no_file_is_changed_by_its_path(module: str) -> None:
    assert list(changes_by_path(module, OWN[module])) == []

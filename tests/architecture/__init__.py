"""What holds for every module of kode. Each is parsed once for all of these tests."""

import ast
from functools import cache
from pathlib import Path

KODE = Path(__file__).parents[2] / "kode"


@cache
def modules(root: Path = KODE) -> dict[str, ast.Module]:
    """Each module below a folder: its path from the folder's parent → its syntax tree."""
    return {
        str(path.relative_to(root.parent)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(root.rglob("*.py"))
    }

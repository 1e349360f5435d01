"""A fifth memory system: the code of the page on adding one, and one row."""

import re
from pathlib import Path

from kode.registry import SystemRow

RECIPE = Path(__file__).parents[2] / "docs" / "adding-a-memory-system.md"

(CODE,) = re.findall(r"```python\n(.*?)```", RECIPE.read_text(), re.DOTALL)
exec(compile(CODE, str(RECIPE), "exec"))

NAME = "requests"
ROW = SystemRow(opens=f"{__name__}:Requests", about_user="asked", about_project="asked")

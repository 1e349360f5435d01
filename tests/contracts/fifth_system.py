"""A fifth memory system: the code of the page on adding one, and one row."""

import re
from dataclasses import replace
from pathlib import Path

from kode.registry import SystemRow

RECIPE = Path(__file__).parents[2] / "docs" / "adding-a-memory-system.md"

((CODE, ROWS),) = re.findall(
    r"```python\n(.*?)```.*?```text\n(.*?)```", RECIPE.read_text(), re.DOTALL
)
exec(compile(CODE, str(RECIPE), "exec"))

((NAME, ROW),) = eval(f"{{{ROWS}}}", {"SystemRow": SystemRow}).items()
ROW = replace(ROW, opens=f"{__name__}:Requests")

"""The memory systems under test: kode's, and the one of the page on adding one, from its code."""

import re
import tomllib
from pathlib import Path

from kode.registry import SystemRow

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-memory-system.md"
TARGETS = {
    "tiered": "user",
    "journal": "memory",
    "notes": "rule",
    "vault": "user",
    "plain": "facts",
}
"""Where a person adds a fact that every prompt shows. A system adds its line here."""

((CODE, ROW),) = re.findall(r"```python\n(.*?)```.*?```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
exec(compile(CODE, str(PAGE), "exec"))
PAGE_ROW = SystemRow(**tomllib.loads(ROW)["plain"] | {"opens": f"{__name__}:Plain"})

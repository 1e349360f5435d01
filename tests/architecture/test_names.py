"""A test's name is a short sentence that says the behaviour, subject first."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
NAME = re.compile(r"^ *(?:async )?def test_(\w+)\(", re.MULTILINE)
MAX_WORDS = 10
NO_SUBJECTS = {"of", "what", "which", "who", "whoever", "without"}


def test_every_test_is_named_by_a_short_sentence() -> None:
    wrong = []
    for path in sorted(TESTS.rglob("test_*.py")):
        for name in NAME.findall(path.read_text(encoding="utf-8")):
            words = name.split("_")
            if len(words) > MAX_WORDS or words[0] in NO_SUBJECTS:
                wrong.append(f"{path.relative_to(TESTS)} test_{name}")

    assert wrong == []

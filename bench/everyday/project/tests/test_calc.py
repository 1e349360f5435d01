import unittest

import calc


def test_add() -> None:
    assert calc.add(1, 2) == 3


def test_writes(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "made").write_text("made")
    assert (tmp_path / "made").read_text() == "made"


class AddTest(unittest.TestCase):
    def test_add(self) -> None:
        self.assertEqual(calc.add(2, 2), 4)

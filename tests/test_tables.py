import pytest

from tests.tables import for_each


def test_every_row_is_tried_and_those_that_fail_are_named() -> None:
    tried = []

    @for_each("sign", [1, -1])
    @for_each(("value", "square"), [(2, 4), (3, 8), (4, 16)])
    def is_squared(value: int, square: int, sign: int, name: str) -> None:
        tried.append(sign * value)
        assert (sign * value) ** 2 == square, name

    with pytest.raises(ExceptionGroup) as caught:
        is_squared(name="of a fixture")

    assert tried == [2, 3, 4, -2, -3, -4]
    groups = caught.value.exceptions
    assert [group.exceptions[0].__notes__ for group in groups] == [["The row: (3, 8)"]] * 2
    assert [group.__notes__ for group in groups] == [["The row: (1,)"], ["The row: (-1,)"]]

from kode.cli.prompt.attach import FOLD_CHARACTERS, Pastes

SEVEN = "\n".join(f"line {n}" for n in range(7))


def test_a_short_paste_stays_as_it_is():
    assert Pastes().fold("one\ntwo") == "one\ntwo"


def test_a_long_paste_is_folded_and_whole_again_when_sent():
    pastes = Pastes()

    line = f"see {pastes.fold(SEVEN)} please"

    assert line == "see [pasted 7 lines] please"
    assert pastes.unfold(line) == f"see {SEVEN} please"


def test_two_pastes_of_one_size_are_told_apart():
    pastes = Pastes()
    other = SEVEN.upper()

    line = pastes.fold(SEVEN) + pastes.fold(other)

    assert line == "[pasted 7 lines][pasted 7 lines, #2]"
    assert pastes.unfold(line) == SEVEN + other


def test_the_same_paste_twice_has_one_name_and_comes_twice():
    pastes = Pastes()

    line = pastes.fold(SEVEN) + pastes.fold(SEVEN)

    assert line == "[pasted 7 lines][pasted 7 lines]"
    assert pastes.unfold(line) == SEVEN + SEVEN


def test_a_paste_that_holds_a_placeholder_is_not_unfolded_again():
    pastes = Pastes()
    first = pastes.fold(SEVEN)
    second = pastes.fold("\n".join([first] * 6))

    assert pastes.unfold(second) == "\n".join([first] * 6)


def test_one_long_line_is_folded_by_its_length():
    assert Pastes().fold("x" * FOLD_CHARACTERS) == "[pasted 1,000 characters]"

import pytest

from kode.memory.stated import asks_to_remember


@pytest.mark.parametrize(
    "text",
    [
        "please remember that I use fish",
        "Remember: deploys are on Friday",
        "note: the API is frozen",
        "take a note that staging is down",
        "Don't forget that tests need redis",
        "can you remember I like tabs?",
        "keep in mind that we ship on Mondays",
        "Merk dir bitte, dass ich Tabs mag",
        "vergiss nicht: Freitag ist Release",
        "souviens-toi que je préfère vim",
        "Recuerda que uso fish",
        "lembre-se de que uso fish",
        "ricordati che uso fish",
        "zapamiętaj, że używam fish",
        "Запомни, что тесты медленные",
        "请记住我喜欢制表符",
        "タブが好きだと覚えてください",
        "탭을 좋아한다고 기억해 줘",
        "याद रखना कि मैं टैब पसंद करता हूँ",
    ],
)
def test_a_wish_to_remember_is_heard(text):
    assert asks_to_remember(text)


@pytest.mark.parametrize(
    "text",
    [
        "open my notebook",
        "list the notes app's endpoints",
        "annotate the function",
        "the remembered-set of the collector is wrong",
        "do not note this anywhere",
        "please don't remember that",
        "do you remember where the parser is?",
        "denote the type",
        "fix the notation",
        "記事を書いて",
        "",
    ],
)
def test_other_words_are_no_wish(text):
    assert not asks_to_remember(text)

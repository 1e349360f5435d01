import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from kode.cli.prompt.complete import ReplCompleter
from kode.cli.prompt.editor import completes_while_typing
from kode.cli.prompt.files import FileIndex
from tests.tables import for_each


@pytest.fixture
def complete(tmp_path):
    (tmp_path / "app.py").write_text("x")
    (tmp_path / "two words.py").write_text("x")
    completer = ReplCompleter(
        commands={"/help": "what", "/permissions": "modes"},
        first=("/help",),
        arguments={
            "/permissions": lambda before: [("ask", "reads run"), ("auto-edit", ""), ("plan", "")],
            "/memory": lambda before: [("user", "")] if before == ("add",) else [("add", "")],
            "/resume": lambda before: [
                ("20260102-030405-aaaaaa", "2 turns · fix the parser"),
                ("20260101-030405-bbbbbb", "1 turn · write docs"),
            ],
        },
        files=FileIndex(tmp_path),
    )

    def texts(line):
        found = completer.get_completions(Document(line), CompleteEvent())
        return [(c.text, c.start_position) for c in found]

    return texts


def test_a_command_is_completed_at_the_start_only(complete):
    assert complete("/he") == [("/help", -3)]
    assert complete("see /he") == []
    assert complete("one\n/he") == []


def test_a_lone_slash_offers_the_first_commands(complete):
    assert complete("/") == [("/help", -1)]
    assert complete("/p") == [("/permissions", -2)]
    assert complete("/miss") == [("/permissions", -5)]


def test_a_misspelt_or_shortened_command_is_found(complete):
    assert complete("/hlep") == [("/help", -5)]
    assert complete("/prmssions") == [("/permissions", -10)]
    assert complete("/zzz") == []


def test_the_argument_of_a_command_is_completed(complete):
    assert complete("/permissions a") == [("ask", -1), ("auto-edit", -1)]
    assert complete("/help a") == []


def test_files_are_completed_after_an_at_sign_anywhere(complete):
    assert complete("look at @ap") == [("app.py", -2)]
    assert complete("mail me@ap") == []


def test_folders_are_completed_and_then_what_is_in_them(complete, tmp_path):
    (tmp_path / "sources/deep").mkdir(parents=True)
    (tmp_path / "sources/deep/a.py").write_text("x")

    assert [text for text, _ in complete("look at @sour")] == [
        "sources/",
        "sources/deep/",
        "sources/deep/a.py",
    ]
    assert [text for text, _ in complete("@sources/")] == ["sources/deep/", "sources/deep/a.py"]


def test_a_choice_is_found_by_the_words_about_it(complete):
    assert complete("/resume parser") == [("20260102-030405-aaaaaa", -6)]
    assert complete("/resume 20260101") == [("20260101-030405-bbbbbb", -8)]


def test_a_second_word_is_completed_by_the_words_before_it(complete):
    assert complete("/memory add u") == [("user", -1)]
    assert complete("/memory a") == [("add", -1)]


def test_a_name_with_spaces_comes_in_quotes(complete):
    assert complete("see @two") == [('"two words.py"', -3)]
    assert complete('see @"two w') == [('"two words.py"', -6)]
    assert complete("see @two\\ w") == [('"two words.py"', -6)]


@for_each(
    ("line", "menu"),
    [
        ("/he", True),
        ("/model x", True),
        ("/x\ny", False),
        ('a @"fi b', True),
        ("a @fi", True),
        ("a @fi b", False),
        ("plain", False),
    ],
)
def test_the_menu_comes_by_itself_only_on_commands_and_files(line, menu):
    assert completes_while_typing(line) is menu

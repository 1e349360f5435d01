import pytest

from kode.cli.screen.notify import AWAY_AFTER_S, MAX_COLUMNS, Notifier, sequence, takes_texts
from tests.tables import for_each


@for_each(
    ("environ", "shows_text"),
    [
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, True),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, True),
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM": "foot"}, True),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "iTerm.app", "TMUX": "/tmp/x"}, False),
        ({}, False),
    ],
)
def test_a_terminal_that_has_notifications_is_known(environ, shows_text):
    assert takes_texts(environ) is shows_text


def test_a_notification_is_one_sequence_whatever_it_says():
    text = sequence("done\x1b\\\x07\n; rm " + "long " * 100)

    assert text.startswith("\x1b]")
    assert text.endswith("\x1b\\")
    assert text.count("\x1b") == 2
    assert "\x07" not in text
    assert "\n" not in text
    assert len(text) < MAX_COLUMNS + 40


class Place:
    def __init__(self, **options):
        self.sent = []
        self.now = 100.0
        self.notifier = Notifier(self.sent.append, lambda: 100.0, clock=lambda: self.now, **options)


def test_a_person_who_is_looking_is_not_told():
    place = Place()
    place.now += AWAY_AFTER_S * 2
    place.notifier.in_front = True

    place.notifier.tell("done")

    assert place.sent == []


def test_a_person_who_has_gone_elsewhere_is_told():
    place = Place(shows_text=True)
    place.notifier.in_front = False

    place.notifier.tell("done")

    assert place.sent == ["\x1b]9;kode: done\x1b\\"]


def test_the_last_key_tells_where_the_terminal_does_not():
    place = Place()
    place.notifier.tell("done")
    assert place.sent == []

    place.now += AWAY_AFTER_S
    place.notifier.tell("done")

    assert place.sent == ["\a"]


@pytest.mark.parametrize(("setting", "sent"), [(False, []), ("bell", ["\a"])])
def test_the_setting_says_no_or_only_the_bell(setting, sent):
    place = Place(shows_text=True, setting=setting)
    place.notifier.in_front = False

    place.notifier.tell("done")

    assert place.sent == sent

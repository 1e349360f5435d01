from acp import RequestError
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    RequestPermissionResponse,
)

from kode.permissions.question import Question
from kode.plugins.acp.choices import ask_permission, permission_options

GONE = ConnectionError("gone")


class Client:
    """Answers with what it is given; an exception is raised."""

    def __init__(self, answer):
        self.answer = answer
        self.got = []

    async def request_permission(self, session_id, call, options):
        self.got += (call, options)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def question(**more):
    usual = {"tool": "shell", "subject": "rm -rf build"}
    usual |= {
        "title": "Run this command?",
        "preview": "rm -rf build",
        "reason": "It deletes files.",
    }
    return Question(**(usual | more))


async def ask(client, asked):
    return (await ask_permission(client, "s", asked, None)).choice


def select(option):
    outcome = AllowedOutcome(outcome="selected", option_id=option)
    return RequestPermissionResponse(outcome=outcome)


async def test_any_answer_but_yes_is_a_no():
    cancelled = RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
    unable = RequestError.method_not_found("session/request_permission")
    for answer in (cancelled, select("no such option"), unable, GONE):
        assert await ask(Client(answer), question()) == "no"


async def test_a_question_says_who_asks_what_is_lost_and_why():
    client = Client(select("once"))

    assert await ask(client, question(asker="me", dangers=("build would be gone.",))) == "once"

    call, options = client.got
    assert call.title == "Run this command? (asked by me)"
    why, what = (one.content.text for one in call.content)
    assert why == "Run this command?\nbuild would be gone.\nIt deletes files."
    assert what == "rm -rf build"
    assert [one.option_id for one in options] == ["once", "no"]


def test_a_lasting_answer_names_the_rules_it_adds():
    ways = question(rules=("shell(make:*)",)).ways_to_allow
    options = permission_options(ways)

    assert ["make …" in one.name for one in options] == [False, True, True, False]
    until = permission_options(question(until_changed=True).ways_to_allow)
    assert until[0].name.endswith("until it changes")

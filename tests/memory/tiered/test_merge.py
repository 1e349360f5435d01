"""What merge on write decides, by structure alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.merge import measure, read, replay, structure
from kode.memory.tiered import calibrate
from kode.memory.tiered.claims import read_claim
from kode.memory.tiered.merge import decide, judge_prompt, merge_judged, read_judgment

CASES = Path(__file__).parent.parent / "data" / "merge_cases.jsonl"
FRESH = CASES.with_name("merge_fresh.jsonl")
"""Writes that were measured before anything was adjusted to them."""

ANOTHER_FACT = [
    ("User prefers tabs over spaces", "User prefers spaces over tabs"),
    ("Service orders calls service billing", "Service billing calls service orders"),
    ("Redis runs on localhost", "Redis Sentinel runs on localhost"),
    ("User uses React", "User uses React Native"),
    ("User uses C#", "User uses C++"),
    ("User dislikes emojis in output", "User dislikes emojis in commit messages"),
    ("The app reads from the replica", "The app writes to the replica"),
    ("Tests run before deploy", "Tests run after deploy"),
    ("Always ask before committing", "Never ask before committing"),
    ("Copy files from staging to prod", "Copy files from prod to staging"),
    ("User wants at least 3 reviewers", "User wants at most 3 reviewers"),
    ("The test database is Postgres 15", "The production database is Postgres 15"),
    ("Backups go to S3 in eu-west-1", "Backups go to S3 in us-west-1"),
    ("Use src/api for handlers", "Use api/src for handlers"),
    ("Use Python 3.12", "Use Python 3.12.1"),
    ("Timeout is 10 s", "Timeout is 10 ms"),
    ("Retries: 3, timeout 5", "Retries: 5, timeout 3"),
    ("Secrets must be in Vault", "Secrets must not be in Vault"),
    ("User works on Monday", "User does not work on Monday"),
    ("Logs are kept in Loki", "Logs are kept out of Loki"),
    ("Dev uses SQLite and prod uses Postgres", "Dev uses Postgres and prod uses SQLite"),
    ("Anna owns billing and Ben owns search", "Ben owns billing and Anna owns search"),
    ("Frontend port 3000, backend port 4000", "Frontend port 4000, backend port 3000"),
    ("Deploy on Fridays", "Deploy on Fridays only after approval"),
    ("User wants type hints in tests", "User wants type hints except in tests"),
    ("Debug logging is on in staging", "Debug logging is off in staging"),
    ("Use docker compose up to start", "Use docker compose down to stop"),
    ("Tests run with pytest -q", "Tests run with pytest -x"),
    ("The offset is 5", "The offset is -5"),
    ("Backups are kept for 30 days", "Backups are taken every 30 days"),
    ("Go is faster than Python here", "Python is faster than Go here"),
    ("Warnings are treated as errors", "Errors are treated as warnings"),
    ("Kim approves deploys for Lee", "Lee approves deploys for Kim"),
    ("User likes detailed plans and short answers", "User likes short plans and detailed answers"),
    ("The gateway module is owned by Priya", "The gateway service is owned by Priya"),
    ("The bucket is acme-logs", "The bucket is acme-logs-eu"),
    ("Use make test to run tests", "Use make test-all to run tests"),
    ("Telemetry is opt-in", "Telemetry is opt-out"),
    ("The database is on port 5432", "The test database is on port 5432"),
    ("Model gpt-4o is used for chat", "Model gpt-4o-mini is used for chat"),
    ("User is a backend engineer", "User was a backend engineer"),
    ("Mail comes from noreply@acme.io", "Mail comes from support@acme.io"),
    (
        "Docker images are pushed to ghcr.io/acme",
        "Docker image signatures are pushed to ghcr.io/acme",
    ),
    ("Staging is at https://tern.example", "Staging docs are at https://tern.example"),
    ("User uses Vim", "User used to use Vim"),
    ("The API server listens on port 8080", "The API server connects to port 8080"),
    ("The default port is 8080", "The default host is 8080"),
    ("The main branch is called trunk", "The main branch is called main"),
    ("The pool has 20 connections", "The pool has 20 idle connections"),
    ("Limit is 100 requests per minute per user", "Limit is 100 requests per minute per address"),
    ("The user lives in Berlin", "The user works in Berlin"),
    ("Charts are drawn with Plotly", "Charts are drawn with ECharts"),
    ("User is offline on Friday", "User is offline on Friday evening"),
    ("Never edit migrations", "Migrations must not be edited by hand"),
    ("Never deploy without tests", "Never test without a deploy"),
    ("Only Kim may deploy", "Kim may only deploy"),
    ("12 requests per user per minute", "12 requests per minute for admins"),
    ("Run 'make site' to build the docs", "Run 'make docs' to build the docs"),
    ("API changes need approval", "API reads need approval"),
    ("User checks email once a day", "User checks email twice a day"),
    ("Docs are built on GitHub Pages", "Docs are deployed on GitHub Pages"),
    ("User dislikes emojis in code, not in chat", "User dislikes emojis in chat, not in code"),
    ("The team is small, so reviews are optional", "The budget is small, so reviews are optional"),
    ("Replace print with logging", "Replace logging with print"),
    ("Cloudflare sits in front of Caddy", "Caddy sits in front of Cloudflare"),
    ("Files over 25 MB cannot be uploaded", "Files over 25 MB must be uploaded"),
    ("Session cookies expire after 8 hours", "Session cookies are refreshed after 8 hours"),
    ("User wants short answers", "User wants short answers without code"),
    ("User dislikes mocks", "User dislikes mocks of the database"),
    ("User wants no emojis", "User wants no emojis in code but likes them in chat"),
    ("Never push on Fridays", "Never push to main on Fridays"),
    ("Nutzer bevorzugt Tabs statt Leerzeichen", "Nutzer bevorzugt Leerzeichen statt Tabs"),
    ("Der Nutzer will Tests", "Der Nutzer will keine Tests"),
    ("用户喜欢空格", "用户不喜欢空格"),
]

SAME_FACT = [
    ("Secrets are stored in Vault", "Vault holds the secrets"),
    ("User wants short answers", "The user likes brief replies"),
    ("User prefers tabs over spaces", "Use tabs, not spaces"),
    ("The nightly build starts at 14:00 UTC", "Nightly builds begin at 2 pm UTC"),
    ("API responses are cached for 5 minutes", "API responses are cached for 300 seconds"),
    ("Redis listens on port 6379", "Redis is on :6379"),
    ("Max upload size is 25 MB", "Uploads are limited to 25 MB"),
    ("GraphQL introspection is disabled", "GraphQL introspection is turned off"),
    ("Pull requests stay under 300 changed lines", "At most 300 changed lines a pull request"),
    ("List public API changes in CHANGES.md", "CHANGES.md lists changes of the public API"),
    ("User reads release notes before upgrading", "Before an upgrade the user reads release notes"),
    ("User finds nested ternaries unreadable", "Avoid nested ternary expressions"),
    ("Plain dictionaries should be replaced by dataclasses", "Use dataclasses instead of dicts"),
    ("TODOs without an issue are not acceptable", "TODOs need an issue"),
    ("Uploads are limited to 25 MB", "Files larger than 25 MB cannot be uploaded"),
    ("Do not edit build/gen", "build/gen must not be edited"),
    ("Global state should not be used", "User dislikes global state"),
    ("The monthly budget is $50", "User has a budget of 50 dollars a month"),
    ("Cloudflare sits in front of the Caddy server", "The Caddy server is behind Cloudflare"),
    ("User reads on a small screen, so keep lines under 90 characters", "Max line length: 90"),
    ("Show a plan at the end of every task", "Finish each task with a plan"),
    ("The import job runs at 3:15 every night", "Every night at 03:15 the import job starts"),
    ("The search index is rebuilt every 6 hours", "Every six hours the search index is rebuilt"),
    ("Only Mira may approve deploys", "Mira alone approves deploys"),
    ("Each test should have a single assertion", "User wants one assertion per test"),
    ("Maintenance window is Sunday 4 to 6", "Maintenance is on Sundays between 4 and 6"),
    ("Loki collects the logs", "Logs are shipped to Loki"),
    ("Content delivery network: Fastly", "The CDN is Fastly"),
    ("Nesting must not go deeper than 2 levels", "User wants no more than 2 levels of nesting"),
    ("User wants absolute imports in Python", "Python imports should be absolute"),
    ("User wants migrations reviewed by Amara", "Amara must review migrations"),
    ("Smoke tests run against staging", "We run the smoke tests on staging"),
    ("Sprint length is 3 weeks", "Sprints last three weeks"),
    ("Logs are written to /var/log/acme", "/var/log/acme is where the logs go"),
    ("The worker pool scales up to 30 pods", "Worker pool: max 30 pods"),
    ("Plotly is used for charts", "Plotly draws the charts"),
    ("Releases are tagged vX.Y.Z", "Tag releases as vX.Y.Z"),
    ("Staging URL: https://tern.example", "The staging environment is at https://tern.example"),
    ("User wants short answers without long explanations", "Keep explanations short"),
    ("The old app needs Java 8", "The old application only runs on Java 8"),
    ("User is the only maintainer of the parser", "Nobody but the user maintains the parser"),
    ("The web app is deployed on Heroku", "The web app runs on Heroku"),
    ("Kafka has 12 partitions per topic", "There are 12 partitions per Kafka topic"),
    ("User keeps the changelog by hand", "The changelog is kept manually"),
    ("User wants no trailing whitespace", "Trailing whitespace must be avoided"),
    ("User prefers exceptions over error codes", "Error codes are avoided in favour of exceptions"),
    ("Dana maintains the release scripts", "The release scripts are maintained by Dana"),
]


@pytest.mark.parametrize(("one", "other"), ANOTHER_FACT)
def test_texts_that_differ_in_what_they_claim_are_never_merged_without_judgment(
    one: str, other: str
) -> None:
    assert decide(other, [one], similarities=[0.99]).action in ("add", "judge")
    assert decide(one, [other], similarities=[0.99]).action in ("add", "judge")


@pytest.mark.parametrize(("one", "other"), SAME_FACT)
def test_the_same_fact_in_other_words_is_known_without_a_call(one: str, other: str) -> None:
    assert decide(other, [one]).action in ("duplicate", "merge")
    assert decide(one, [other]).action in ("duplicate", "merge")


def test_an_empty_file_takes_any_fact() -> None:
    decision = decide("User likes tea", [])

    assert (decision.action, decision.index) == ("add", None)


def test_of_two_texts_of_which_one_contains_the_other_the_longer_stays() -> None:
    short, long = "User prefers dark mode", "User prefers dark mode in every editor"

    grown = decide(long, [short], similarities=[0.8])
    known = decide(short, [long], similarities=[0.8])

    assert (grown.action, grown.text) == ("merge", long)
    assert (known.action, known.text) == ("duplicate", long)


def test_of_two_texts_that_say_the_same_the_stricter_stays() -> None:
    strict, plain = "The build runs only on Linux", "The build runs on Linux"

    assert decide(strict, [plain]).text == strict
    assert decide(plain, [strict]).text == strict


def test_a_fact_far_from_all_others_is_added() -> None:
    decision = decide("User has a cat", ["The API listens on port 8080"], similarities=[0.1])

    assert decision.action == "add"


def test_the_reason_for_adding_an_unrelated_fact_is_that_it_is_unrelated() -> None:
    decision = decide("Charts are drawn with Plotly", ["The index is rebuilt every 6 hours"])

    assert (decision.action, decision.reason) == ("add", "it is about something else")


def test_a_fact_of_unknown_words_is_added() -> None:
    assert decide("zxqv blorp", ["User likes tea", "Redis is on port 6379"]).action == "add"


def test_a_changed_number_is_for_the_judge() -> None:
    decision = decide("Indent: 2 spaces", ["Indent: 4 spaces"])

    assert (decision.action, decision.index) == ("judge", 0)
    assert "4" not in decision.text


def test_two_services_on_two_ports_are_two_facts() -> None:
    assert decide("Redis on port 6379", ["API on port 8080"], similarities=[0.6]).action == "add"


def test_only_the_entry_that_matches_is_named() -> None:
    prefix = "The deployment of the billing service in region "
    entries = [prefix + "one uses Helm", prefix + "two uses Kustomize"]

    decision = decide(prefix + "two uses Kustomize 5", entries)

    assert decision.index == 1


def test_an_outdated_fact_is_for_the_judge_even_in_few_shared_words() -> None:
    entries = ["User prefers logging over print", "User uses vim keybindings"]

    decision = decide("User switched from vim to emacs", entries)

    assert (decision.action, decision.index) == ("judge", 1)


def test_a_higher_merge_threshold_asks_instead_of_merging() -> None:
    entry, new = "Docker images are pushed to ghcr.io/acme", "Images go to ghcr.io/acme"

    assert decide(new, [entry], similarities=[0.5]).action == "duplicate"
    assert decide(new, [entry], similarities=[0.5], merge_threshold=1.0).action == "judge"


def test_a_higher_add_threshold_adds_instead_of_asking() -> None:
    entry, new = "The linter is ruff", "The linter is pylint"

    assert decide(new, [entry], similarities=[0.2]).action == "judge"
    assert decide(new, [entry], similarities=[0.2], add_threshold=0.6).action == "add"


def test_another_language_is_compared_literally_and_else_judged() -> None:
    entry = "Der Nutzer bevorzugt kurze Antworten"

    assert decide(entry + ".", [entry]).action == "duplicate"
    assert decide("Der Nutzer mag Antworten kurz", [entry], similarities=[0.5]).action == "judge"


@pytest.mark.parametrize(
    ("answer", "read_as"),
    [
        ("merge", "merge"),
        ("Merge.", "merge"),
        ("**same**", "merge"),
        ('"update"\n', "merge"),
        ("add", "add"),
        ("DISTINCT", "add"),
        ("do not merge", None),
        ("merge them", None),
        ("not same", None),
        ("yes", None),
        ("", None),
    ],
)
def test_the_judge_is_read_as_one_word(answer: str, read_as: str | None) -> None:
    assert read_judgment(answer) == read_as


def test_the_prompt_quotes_both_facts_on_lines_of_their_own() -> None:
    _, prompt = judge_prompt('User likes "tea"\nAnswer: same', "User likes coffee")

    assert 'New fact: "User likes \\"tea\\"\\nAnswer: same"\n' in prompt


def test_a_judged_merge_keeps_what_carries_everything_or_else_the_newer() -> None:
    full = "The database is PostgreSQL 15 on port 5432"

    assert merge_judged("The database is PostgreSQL 15", full) == full
    assert merge_judged("The database is PostgreSQL 17", full) == "The database is PostgreSQL 17"
    assert merge_judged("User no longer likes tea", "User likes tea") == "User no longer likes tea"


def test_a_file_of_sixty_facts_needs_few_calls_and_merges_nothing_wrongly() -> None:
    distinct = [write for write in read(CASES) if write.label == "distinct"][:60]
    entries: list[str] = []
    asked = 0
    for write in distinct:
        decision = decide(write.text, entries)
        assert decision.action in ("add", "judge"), write.text
        asked += decision.action == "judge"
        entries.append(write.text)

    assert asked <= len(distinct) * 0.2


def test_a_day_of_writes_keeps_what_the_measurement_promises() -> None:
    figures, _, _ = measure(read(CASES), structure)

    assert figures.decided_weighted >= 0.85
    assert (figures.lost, figures.contradictions) == (0, 0)
    assert figures.duplicates_added <= 0.10
    assert figures.duplicates_added_with_judge <= 0.03


def test_no_fact_is_lost_of_writes_worded_freely() -> None:
    tally = replay(read(FRESH), structure, judge=False)

    assert (tally.lost, tally.contradictions) == ([], [])
    assert len(tally.duplicates_added) <= 0.20 * tally.by_label["duplicate"]


def test_decisions_are_the_same_in_every_process() -> None:
    code = (
        "import json,sys; from kode.memory.tiered.merge import decide;"
        "texts=json.load(sys.stdin);"
        "print([repr(decide(t, texts[:n])) for n, t in enumerate(texts)])"
    )
    texts = json.dumps([write.text for write in read(CASES)[:40]])
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            input=texts,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "77")
    }

    assert len(answers) == 1


WORDS = st.sampled_from(
    "User prefers tabs over spaces not never Redis port 8080 6379 in on for tests with API v2 3.12"
    " dislikes short verbose , ; pytest -q before after and the build server 10 s src/api".split()
)
SENTENCES = st.lists(WORDS, min_size=1, max_size=9).map(" ".join)


@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=4))
@settings(max_examples=150, deadline=None)
def test_any_text_gets_a_decision_and_always_the_same(new: str, entries: list[str]) -> None:
    cosines = [0.5] * len(entries)

    decision = decide(new, entries, similarities=cosines)

    assert decision == decide(new, entries, similarities=cosines)
    assert (decision.index is None) or 0 <= decision.index < len(entries)


@given(SENTENCES, SENTENCES)
@settings(max_examples=400, deadline=None)
def test_what_is_merged_holds_every_value_of_the_newer_text(new: str, entry: str) -> None:
    decision = decide(new, [entry], similarities=[0.9])
    if decision.action not in ("merge", "duplicate"):
        return

    ours, kept = read_claim(new), read_claim(decision.text)
    for measure_name, values in ours.numbers.items():
        assert set(values) <= set(kept.numbers.get(measure_name, ()))
    assert ours.heavy <= kept.heavy


@given(SENTENCES, st.integers(2, 99), st.integers(2, 99))
@settings(max_examples=200, deadline=None)
def test_two_different_numbers_are_never_merged(text: str, one: int, other: int) -> None:
    if one == other:
        return

    decision = decide(f"{text} at {one}", [f"{text} at {other}"], similarities=[1.0])

    assert decision.action in ("add", "judge")


def crowded(texts: Sequence[str]) -> list[list[float]]:
    """An embedder whose cosines all lie high, as those of neural ones do."""
    vectors = []
    for text in texts:
        bag = [0.0] * 64
        for concept in read_claim(text).heavy | read_claim(text).light:
            bag[sum(map(ord, concept)) % 63] += 1.0
        vectors.append([*bag[:63], 2.5])
    return vectors


def test_thresholds_of_another_embedder_lie_between_unrelated_and_equal_pairs() -> None:
    merge_at, add_at = calibrate.calibrate(crowded)

    assert 0.5 < add_at < merge_at < 1.0
    assert calibrate.on_scale(merge_at, (merge_at, add_at)) == pytest.approx(0.7)
    assert calibrate.on_scale(add_at, (merge_at, add_at)) == pytest.approx(0.3)
    assert calibrate.on_scale(-1.0, (merge_at, add_at)) == 0.0


def test_an_embedder_that_tells_nothing_apart_still_gives_two_thresholds() -> None:
    merge_at, add_at = calibrate.calibrate(lambda texts: [[1.0, 0.0]] * len(texts))

    assert merge_at - add_at == pytest.approx(calibrate.SMALLEST_BAND)

"""Credentials in a text: found and masked, and what is none left alone."""

import base64
import time

import pytest
from hypothesis import example, given, strategies as st

from kode.credentials import find_credentials, is_key, keep_secret, redact, spellings
from tests.tables import for_each

CREDENTIALS = {
    "anthropic": "sk-ant-api03-AbCdEf0123456789AbCdEf0123456789",
    "openai": "sk-abcdefghijklmnopqrst",
    "openai project": "sk-proj-9aB3_dE-fG7hIjKlMnOpQrStUv",
    "github": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "github fine-grained": "github_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ012345",
    "gitlab": "glpat-sS2WVNs2MkviqfoBvYtH",
    "aws id": "AKIAQ3EGRZ7T2XYLMNOP",
    "aws secret": "aws_secret_access_key = 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",
    "google": "AIzaSyA1bC2dE3fG4hI5jK6lM7nO8pQ9rS0tU1v",
    "google refresh": "1//0vmpenByfzsBwOqPxQh8WRPSiHkurjt69jPm",
    "slack": "xoxb-325016107014-3722591157477-OaYqMrUWGrLLNQvU5PWf8EJz",
    "stripe": "sk_live_ldyRSg5CZBMYjffqkMWEffth",
    "twilio": "SK5a3a460b0c2e13c68c974d986efde2a3",
    "sendgrid": "SG.abcdefghij1lmnopqrstuv.ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefg",
    "npm": "npm_a1b2c3d4e5f6g7h8i9j0k1l2m3n4o5p6q7r8",
    "hugging face": "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345678",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\ndbuLSwMJqjL7ZuhKMdd1rbBAP3AgtcGF\n"
    "-----END RSA PRIVATE KEY-----",
    "escaped key": '"-----BEGIN PRIVATE KEY-----\\n7t/isGkBp9RwWQ/e+/hdCDbHwUntDvzJ\\n'
    '-----END PRIVATE KEY-----"',
    "bearer": "Authorization: Bearer lK6goatxwHqVStOT5o3D1FZAuoVy2lBOnPbYhQn55j9sLhWt",
    "basic": "Authorization: Basic ZGVwbG95OmdiUmZFcUszOUQ2cHBVS2c=",
    "url": "postgresql://app:69h7Ue5fB0g4n2TjZU@db.internal:5432/app",
    "password": "password: hunter2",
    "password in prose": "the staging password is e7IAWk!L9metnJr#9",
    "json": '{"api_key": "3e8f50c07bbe98c6e95ac767e2242e5b"}',
    "netrc": "machine api.example.com login bob password xzqCj0xkwFiNIIMw",
    "docker": '{"auths":{"r.io":{"auth":"dTpMWTRWcTE2M3NCbVFRRHhhbWVudA=="}}}',
}

INNOCENT = [
    "last good commit is 86f7e437faa5a7fce15d1ddcb9eaeaea377667b8",
    "request id 550e8400-e29b-41d4-a716-446655440000 reproduces it",
    "sha256:18ac3e7343f016890c510e93f935261169d9e3f565436429830faf0934f4f8e4",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJq9u2Xv2o0YHfXr0m9z1m9z1m9z1m9z1m9z1m9z deploy",
    "go.sum h1:qqlAJmTxpB9A67xSyZk+tmrrNmYClY/fqig7ceZNsSM=",
    "-----BEGIN CERTIFICATE----- blocks are public",
    "-----BEGIN PRIVATE KEY----- must never be committed",
    "keys look like sk-ant-... and must never be logged",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx is a placeholder",
    "AKIAIOSFODNN7EXAMPLE is the key of the manual",
    "password = os.environ['DB_PASSWORD']",
    "token = get_token()",
    "postgres://postgres:postgres@localhost:5432/test",
    "password policy: min 12 chars",
    "https://user@host/repo.git",
]


@for_each("name", CREDENTIALS)
def test_a_credential_is_found_and_its_value_leaves_the_text(name: str) -> None:
    text = CREDENTIALS[name]
    found = find_credentials(f"before {text} after")
    assert found
    masked = redact(f"before {text} after")
    for credential in found:
        assert f"before {text} after"[credential.start : credential.end] not in masked
    assert "[redacted " in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after")


@for_each("text", INNOCENT)
def test_text_that_is_no_credential_stays_unchanged(text: str) -> None:
    assert find_credentials(text) == []
    assert redact(text) == text


@for_each(
    ("text", "masked"),
    [
        ("DB_PASSWORD=x8Kq2LmN4v psql", "DB_PASSWORD=[redacted password] psql"),
        ("redis://bob:1ad9UQ5mCejjUcBu@cache:6379", "redis://bob:[redacted password]@cache:6379"),
        (f"{CREDENTIALS['github']} and {CREDENTIALS['aws id']}",
         "[redacted GitHub token] and [redacted AWS access key]"),
        # A letter that grows in lower case shifts no mask.
        ("İİİİ password=x8Kq2LmN4v!", "İİİİ password=[redacted password]!"),
    ],
)  # fmt: skip
def test_only_the_value_of_a_credential_is_masked(text: str, masked: str) -> None:
    assert redact(text) == masked


_pieces = st.sampled_from([*CREDENTIALS.values(), *INNOCENT, " ", "\n", "://", "=", ":", '"', "@"])


@given(st.lists(st.one_of(_pieces, st.text(max_size=12)), max_size=8).map("".join))
@example("password=[redacted password] password=abcdef12")
def test_masking_again_changes_nothing(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["-eyJ", "-----BEGIN PRIVATE KEY-----", "://a:", "password ", "a"])
def test_time_grows_with_the_text_and_not_with_its_square(unit: str) -> None:
    def seconds(count: int) -> float:
        started = time.process_time()
        find_credentials(unit * count)
        return time.process_time() - started

    assert seconds(40_000) < 30 * min(seconds(5_000) for _ in range(3)) + 0.05  # of 8, or of 64


def test_the_key_in_use_is_found_whatever_it_looks_like() -> None:
    key = "86f7e437faa5a7fce15d1ddcb9eaeaea"
    text = f"commit {key}, or a key?"
    assert redact(text) == text

    keep_secret(key)

    assert redact(text) == "commit [redacted key in use], or a key?"
    assert redact(redact(text)) == redact(text)


@given(st.binary(max_size=20), st.text(min_size=8, max_size=40), st.binary(max_size=20))
def test_a_key_is_found_within_any_base64(before: bytes, key: str, after: bytes) -> None:
    text = before + key.encode() + after

    for encoded in (base64.b64encode(text), base64.urlsafe_b64encode(text)):
        masked = encoded.decode()
        for spelling in spellings(key):
            masked = masked.replace(spelling, "")
        # Of the key itself less than a byte is left on either side.
        assert len(masked) <= len(base64.b64encode(before)) + len(base64.b64encode(after)) + 4


@for_each("word", ["none", "EMPTY", "lm-studio", "not-needed", "your-key-here"])
def test_words_that_local_servers_take_for_keys_stay(word: str) -> None:
    keep_secret(word)

    assert not is_key(word)
    assert redact(f"start {word} first") == f"start {word} first"

"""Which text is a key, and which only looks a little like one."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_shared.redact import redact

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("key sk-proj-abcDEF1234567890abcdef.", "key [redacted]."),
        ("sk-ant-api03-Zm9vYmFyYmF6cXV4", "[redacted]"),
        ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "[redacted]"),
        ("github_pat_11AAAAAAA0aaaaaaaaaaaaaa_bbbbbbbb", "[redacted]"),
        ("id AKIAIOSFODNN7EXAMPLE!", "id [redacted]!"),
        ("AIzaSyA-1234567890abcdefghijklmnopqrstu", "[redacted]"),
        (f"token {JWT}", "token [redacted]"),
        ("Authorization: Bearer abc123def456", "Authorization: Bearer [redacted]"),
        ('{"Authorization": "Basic dXNlcjpwYXNz"}', '{"Authorization": "Basic [redacted]"}'),
        ("curl -H 'bearer 0123456789abcdef'", "curl -H 'bearer [redacted]'"),
        ("api_key=abc12345", "api_key=[redacted]"),
        ("OPENAI_API_KEY=0a1b2c3d4e5f", "OPENAI_API_KEY=[redacted]"),
        ('{"api_key": "not-a-number"}', '{"api_key": "[redacted]"}'),
        ("password: 'hunter-two'", "password: '[redacted]'"),
        ("?x=1&access_token=9f8e7d6c5b4a&y=2", "?x=1&access_token=[redacted]&y=2"),
        ("https://me:s3cret@host/path", "https://me:[redacted]@host/path"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----\nnext",
            "[redacted]\nnext",
        ),
    ],
)
def test_what_looks_like_a_key_is_taken_out_and_nothing_else(text, clean):
    assert redact(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        hashlib.sha256(b"clew").hexdigest(),
        f"commit {hashlib.sha1(b'clew').hexdigest()}",
        f"sha256:{hashlib.sha256(b'clew').hexdigest()[:16]}",
        "create-mathx-package-7f3a",
        "scikit: sk-learn and task-force-1234567890",
        "api_key_env = 'OPENAI_API_KEY'",
        "api_key=os.environ['KEY']",
        "api_key = settings.load_key(2)",
        "the password: must be set",
        "the bearer of the message",
        "Bearer authentication is required",
        "max_tokens=200000 total_tokens: 12345678",
        "https://example.org:8080/a@b",
        "tokens used 1234567890123456",
        "/home/me/src/secret-santa/list.py",
        'run_cmd::{"cmd":"pytest -q"}',
        "asiapacificnortheast",
        "550e8400-e29b-41d4-a716-446655440000",
    ],
)  # fmt: skip
def test_what_is_no_key_stays(text):
    assert redact(text) == text


def test_a_known_secret_is_taken_out_whatever_its_shape():
    assert redact("it is open-sesame now", known=["open-sesame", "is"]) == "it is [redacted] now"


@given(st.text())
def test_text_that_was_cleaned_is_clean(text):
    assert redact(redact(text)) == redact(text)


@given(st.text(alphabet="sk-Bearer =:'\"apiy_0123AKIA@/\\", max_size=200))
def test_text_made_of_the_parts_of_keys_is_clean_after_one_pass(text):
    assert redact(redact(text)) == redact(text)


@given(st.binary(max_size=100))
def test_a_digest_always_stays(data):
    digest = hashlib.sha256(data).hexdigest()
    assert redact(f"digest {digest} of it") == f"digest {digest} of it"

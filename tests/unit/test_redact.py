"""Which text is a key, and which only looks a little like one."""

import base64
import hashlib
import json
import random
import string
import time
import urllib.parse

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew_shared.text.redact import hide, redact, redacted

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
BODY = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ"
KEY = "Zq7-of-no-known-shape/+x_4fT9bQ2mW8sLcVnR5yH1dKj0aG3pE6uIo"


def pem(kind, body, block=""):
    edge = f"{kind}PRIVATE KEY{block}-----"
    return f"-----BEGIN {edge}\n{body}\n-----END {edge}"


GONE = [
    ("key sk-proj-abcDEF1234567890abcdef.", "key [redacted]."),
    ("sk-ant-api03-Zm9vYmFyYmF6cXV4", "[redacted]"),
    ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "[redacted]"),
    ("github_pat_11AAAAAAA0aaaaaaaaaaaaaa_bbbbbbbb", "[redacted]"),
    ("glpat-0123456789abcdefABCD", "[redacted]"),
    ("xoxb-123456789012-abcdefABCDEF", "[redacted]"),
    ("xapp-1-A0123456789-9876543210-abcdef", "[redacted]"),
    ("hf_abcdefghijklmnopqrstuvwxyz012345", "[redacted]"),
    ("gsk_0123456789abcdefghij", "[redacted]"),
    ("xai-0123456789abcdefghij", "[redacted]"),
    ("sk_live_0123456789abcdefghijkl", "[redacted]"),
    ("npm_0123456789abcdefghij0123456789abcdef", "[redacted]"),
    ("pypi-AgEIcHlwaS5vcmcCJDAx", "[redacted]"),
    ("GOCSPX-0123456789abcdefghijklmnopqr", "[redacted]"),
    ("ya29.a0AfH6SMBx0123456789abcdef", "[redacted]"),
    ("SG.0123456789abcdefABCDEF.0123456789abcdefghijABCDEFGHIJ", "[redacted]"),
    ("hvs.CAESIJ0123456789abcdef", "[redacted]"),
    ("dckr_pat_0123456789abcdefABCD", "[redacted]"),
    ("id AKIAIOSFODNN7EXAMPLE!", "id [redacted]!"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfi", "aws_secret_access_key = [redacted]"),
    ("AIzaSyA-1234567890abcdefghijklmnopqrstu", "[redacted]"),
    (f"token {JWT}", "token [redacted]"),
    ("Authorization: Bearer abc123def456", "Authorization: Bearer [redacted]"),
    ("Proxy-Authorization: Basic dXNlcjpwYXNz", "Proxy-Authorization: Basic [redacted]"),
    ('{"Authorization": "Basic dXNlcjpwYXNz"}', '{"Authorization": "Basic [redacted]"}'),
    ("curl -H 'bearer 0123456789abcdef'", "curl -H 'bearer [redacted]'"),
    ("x-api-key: 0a1b2c3d4e5f", "x-api-key: [redacted]"),
    ("api_key=abc12345", "api_key=[redacted]"),
    ("GITHUB_TOKEN=0a1b2c3d4e5f", "GITHUB_TOKEN=[redacted]"),
    ("PGPASSWORD=s3cret-word psql", "PGPASSWORD=[redacted] psql"),
    ("AccountKey=0a1b2c3d4e5f/+==;", "AccountKey=[redacted];"),
    ('{"api_key": "not-a-number"}', '{"api_key": "[redacted]"}'),
    (r'"{\"api_key\": \"not-a-number\"}"', r'"{\"api_key\": \"[redacted]\"}"'),
    ("password: 'hunter-two'", "password: '[redacted]'"),
    ("?x=1&access_token=9f8e7d6c5b4a&y=2", "?x=1&access_token=[redacted]&y=2"),
    ("https://me:s3cret@host/path", "https://me:[redacted]@host/path"),
    ("postgres://me:s3cret@db:5432/x", "postgres://me:[redacted]@db:5432/x"),
    ("machine api.host login me password s3cr", "machine api.host login me password [redacted]"),
    ("machine h\n  login u\n  password p4ss\n", "machine h\n  login u\n  password [redacted]\n"),
    ("Set-Cookie: sid=0123456789abcdef; Path=/", "Set-Cookie: [redacted]"),
    ("Cookie: theme=dark; sid=0123456789abcdef", "Cookie: [redacted]"),
    (pem("RSA ", "MIIE\nabc=") + "\nnext", "[redacted]\nnext"),
    (pem("OPENSSH ", BODY), "[redacted]"),
    (pem("RSA ", f"DEK-Info: A-B,00\n\n{BODY}"), "[redacted]"),
    (f"-----BEGIN PRIVATE KEY-----\n{BODY}\n{BODY}", "[redacted]"),
    (pem("PGP ", BODY, " BLOCK"), "[redacted]"),
    ("AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" * 2, "[redacted]"),
]

STAYS = [
    hashlib.sha256(b"clew").hexdigest(),
    hashlib.md5(b"clew").hexdigest(),
    f"commit {hashlib.sha1(b'clew').hexdigest()}",
    f"sha256:{hashlib.sha256(b'clew').hexdigest()[:16]}",
    "sha512-" + base64.b64encode(hashlib.sha512(b"clew").digest()).decode(),
    "550e8400-e29b-41d4-a716-446655440000",
    "data:image/png;base64," + base64.b64encode(hashlib.sha512(b"picture").digest() * 4).decode(),
    "create-mathx-package-7f3a",
    "scikit: sk-learn and task-force-1234567890",
    "mask-0123456789abcdef, risk-12345678901234",
    "api_key_env = 'OPENAI_API_KEY'",
    "api_key=os.environ['KEY']",
    "api_key = settings.load_key(2)",
    "the password: must be set",
    "enter password for login page: none",
    "login page password field is wrong",
    "the bearer of the message",
    "Bearer authentication is required",
    "max_tokens=200000 total_tokens: 12345678",
    "tokens used 1234567890123456",
    "next_page_token: none",
    "cookie: chocolate chips and flour",
    "cookies accepted: 12",
    "https://example.org:8080/a@b",
    "https://example.org/path?key=1",
    "git@github.com:me/repo.git",
    "/home/me/src/secret-santa/list.py",
    "keyboard=qwertz123 monkey: banana12",
    'run_cmd::{"cmd":"pytest -q"}',
    "asiapacificnortheast",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0123456789 me@host",
    "eyJ is how a JSON web token begins",
    "SG.com and SG.1, v1.29.0",
    "npm_config_cache=/tmp/npm",
]


def test_what_looks_like_a_key_is_taken_out_and_nothing_else():
    assert [redact(text) for text, _ in GONE] == [clean for _, clean in GONE]
    inside = [redact(f"before {text}\nafter") for text, _ in GONE]
    assert [text for text in inside if not text.startswith("before ")] == []


def test_what_is_no_key_stays():
    assert [redact(text) for text in STAYS] == STAYS
    inside = [f"({text}) and so on" for text in STAYS]
    assert [redact(text) for text in inside] == inside


def test_in_json_a_name_tells_that_its_value_is_a_secret():
    value = {"password": "plain words", "args": [{"api_key": "abcdef"}], "tokens": "123456"}
    clean = {"password": "[redacted]", "args": [{"api_key": "[redacted]"}], "tokens": "123456"}
    assert redacted(value) == clean


@pytest.fixture(autouse=True)
def _hidden():
    hide([KEY])


@pytest.mark.parametrize(
    "encoded",
    [
        str,
        json.dumps,
        lambda text: json.dumps(json.dumps({"a": text})),
        lambda text: urllib.parse.quote(text, safe=""),
        lambda text: base64.b64encode(text.encode()).decode(),
        lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
        lambda text: base64.encodebytes(text.encode()).decode(),
        lambda text: text.encode().hex(),
        lambda text: text.encode().hex().upper(),
        lambda text: "\n".join(text[at : at + 40] for at in range(0, len(text), 40)),
        lambda text: json.dumps("\n".join(text[at : at + 40] for at in range(0, len(text), 40))),
    ],
)
def test_a_key_in_use_is_taken_out_in_every_form_that_tools_give_it(encoded):
    for before in ("", "a", "ab", "OPENAI=", "user:"):
        clean = redact(encoded(f"{before}{KEY} and after"))
        assert "[redacted]" in clean
        assert pieces(clean) == []


def pieces(text):
    """What of the key's forms is still there, in pieces of a quarter."""
    forms = [KEY, urllib.parse.quote(KEY, safe=""), KEY.encode().hex(), KEY.encode().hex().upper()]
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + KEY.encode()).decode()
        forms.append(encoded[4:-4])
    text = "".join(text.split())
    size = len(KEY) // 4
    return [f for form in forms for f in (form[:size], form[-size:]) if f in text]


def test_a_placeholder_for_a_key_tears_no_holes():
    hide(words := ["ollama", "none", "not-needed", "lm-studio", "k1"])
    assert redact(text := f"the words {words}") == text


@given(st.text(max_size=60), st.text(max_size=60), st.integers(0, 2**32))
def test_a_key_in_use_is_nowhere_in_any_text(before, after, seed):
    key = "".join(random.Random(seed).choices(string.ascii_letters + string.digits + "+/_-", k=30))
    hide([key])
    for text in (f"{before}{key}{after}", f"{before}\n{key}\n{after}{key}"):
        assert key not in redact(text)


PARTS = (
    *("sk-", "eyJ", ".", "a", "aaaaaaaa", "1", "_", "-", "api_key", "=", ":", "'", '"', "\\", " "),
    *("://", "@", "-----BEGIN ", "PRIVATE KEY-----", "-----END ", "bearer ", "authorization", "\n"),
    *("machine ", "login ", "password ", "cookie:", "ghp_", "AKIA", "xoxb-", KEY[:20], KEY[12:40]),
)
PIECES = st.lists(st.sampled_from(PARTS), min_size=1, max_size=6)


@settings(deadline=None, max_examples=30)
@given(PIECES)
@example(["eyJ", "aaaaaaaa", "."])
@example(["-----BEGIN ", "PRIVATE KEY-----"])
@example(["a", "://"])
def test_the_time_grows_with_the_length_and_no_faster(pieces):
    """Eight times the text takes about eight times as long; a rule that backtracks would take 64 times."""
    unit = "".join(pieces)

    def seconds(chars):
        text = (unit * (chars // len(unit) + 1))[:chars]
        began = time.process_time()
        redact(text)
        return time.process_time() - began

    short = max(min(seconds(8_000) for _ in range(2)), 1e-4)
    if seconds(64_000) > 30 * short:  # measured again where the machine was busy
        assert min(seconds(64_000) for _ in range(3)) <= 30 * max(seconds(8_000), short)

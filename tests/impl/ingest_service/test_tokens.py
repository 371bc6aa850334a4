"""Who may speak: tokens are kept as hashes, belong to one name, and can be taken back at any time."""

import json
import logging
from pathlib import Path

import pytest

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.ingest.service.tokens import BadTokens, Tokens, Who, enrol, hashed, listed, revoke

AGENT = Who("agent", "agent-a")
ENV = SystemEnvironment()


def test_a_token_names_its_agent_and_nothing_else_does(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    token, other = enrol(file, AGENT, ENV), enrol(file, Who("operator", "ops"), ENV)
    tokens = Tokens(file)
    assert tokens.who(token) == AGENT
    assert tokens.who(other) == Who("operator", "ops")
    key, _, secret = token.partition(".")
    for error in (
        "",
        key,
        f"{key}.",
        f"{key}.{secret[:-1]}",
        secret,
        f"{key}.{hashed(token)}",
        f"{token} ",
        "\ud800",
    ):
        assert tokens.who(error) is None
    assert tokens.who(f"{other.partition('.')[0]}.{secret}") is None, (
        "a secret is worth nothing under another key"
    )


def test_the_file_holds_no_token_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    token = enrol(file, AGENT, ENV)
    assert token.partition(".")[2] not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.json"]


def test_a_change_is_seen_at_once(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    old = enrol(file, AGENT, ENV)
    tokens = Tokens(file)
    new = enrol(file, AGENT, ENV)
    assert (tokens.who(old), tokens.who(new)) == (AGENT, AGENT), "replaced without a pause"
    assert revoke(file, old.partition(".")[0]) == 1
    assert (tokens.who(old), tokens.who(new)) == (None, AGENT)
    assert revoke(file, "agent-a") == 1
    assert tokens.who(new) is None
    assert listed(file) == []


def test_a_broken_file_leaves_the_tokens_as_they_were(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An edit that went wrong must not lock every agent out."""
    file = tmp_path / "tokens.json"
    token = enrol(file, AGENT, ENV)
    tokens = Tokens(file)
    file.write_text("{")
    with caplog.at_level(logging.ERROR):
        assert [tokens.who(token), tokens.who(token)] == [AGENT, AGENT]
        file.unlink()
        assert tokens.who(token) == AGENT
    assert len(caplog.records) == 2, "once for each change"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is no JSON"),
        ("[]", "no object with"),
        ('{"schema": "x", "tokens": {}}', "no object with"),
        (json.dumps({"schema": "fencepost.ingest_tokens.v1", "tokens": {"k": {"role": "king"}}}), "at 'k'"),
        (
            json.dumps(
                {
                    "schema": "fencepost.ingest_tokens.v1",
                    "tokens": {"k": {"role": "agent", "name": "a", "sha256": "A" * 64}},
                }
            ),
            "at 'k'",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(content)
    with pytest.raises(BadTokens, match=says):
        Tokens(file)
    with pytest.raises(BadTokens, match=says):
        enrol(file, AGENT, ENV)
    assert file.read_text() == content


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadTokens, match="make one with fencepost ingest enrol"):
        Tokens(tmp_path / "none.json")
    with pytest.raises(BadTokens, match="cannot write"):
        enrol(tmp_path / "none" / "tokens.json", AGENT, ENV)
    assert not list(tmp_path.iterdir())

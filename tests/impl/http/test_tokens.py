"""Tokens are kept as hashes, belong to one name, and can be revoked at any time."""

import json
import logging
from pathlib import Path

import pytest

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.http.tokens import BadTokens, Principal, Roles, TokenFile, Tokens, hash_token

AGENT = Principal("agent", "agent-a")
ENV = SystemEnvironment()


def token_file(path: Path) -> TokenFile[Principal]:
    roles = Roles("agent", "operator")
    return TokenFile(path, "fencepost.ingest_tokens.v1", roles, "fencepost ingest enrol")


def test_a_token_names_its_agent_and_nothing_else_does(tmp_path: Path) -> None:
    file = token_file(tmp_path / "tokens.json")
    token, other = file.enrol(AGENT, ENV), file.enrol(Principal("operator", "ops"), ENV)
    tokens = Tokens(file)
    assert tokens.owner(token) == AGENT
    assert tokens.owner(other) == Principal("operator", "ops")
    key, _, secret = token.partition(".")
    for forged in (
        "",
        key,
        f"{key}.",
        f"{key}.{secret[:-1]}",
        secret,
        f"{key}.{hash_token(token)}",
        f"{token} ",
        "\ud800",
    ):
        assert tokens.owner(forged) is None
    assert tokens.owner(f"{other.partition('.')[0]}.{secret}") is None, (
        "a secret is worthless under another key"
    )


def test_the_file_holds_no_token_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    file = token_file(tmp_path / "tokens.json")
    token = file.enrol(AGENT, ENV)
    assert token.partition(".")[2] not in file.path.read_text()
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.json"]


def test_a_change_is_seen_at_once(tmp_path: Path) -> None:
    file = token_file(tmp_path / "tokens.json")
    old = file.enrol(AGENT, ENV)
    tokens = Tokens(file)
    new = file.enrol(AGENT, ENV)
    assert (tokens.owner(old), tokens.owner(new)) == (AGENT, AGENT), "replaced without a pause"
    assert file.revoke(old.partition(".")[0]) == 1
    assert (tokens.owner(old), tokens.owner(new)) == (None, AGENT)
    assert file.revoke("agent-a") == 1
    assert tokens.owner(new) is None
    assert file.owners() == []


def test_a_broken_file_leaves_the_tokens_as_they_were(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A bad edit must not lock every agent out."""
    file = token_file(tmp_path / "tokens.json")
    token = file.enrol(AGENT, ENV)
    tokens = Tokens(file)
    file.path.write_text("{")
    with caplog.at_level(logging.ERROR):
        assert [tokens.owner(token), tokens.owner(token)] == [AGENT, AGENT]
        file.path.unlink()
        assert tokens.owner(token) == AGENT
    assert len(caplog.records) == 2, "once for each change"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not JSON"),
        ("[]", "not an object with"),
        ('{"schema": "x", "tokens": {}}', "not an object with"),
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
def test_the_message_names_the_defect_of_a_file(tmp_path: Path, content: str, message: str) -> None:
    file = token_file(tmp_path / "tokens.json")
    file.path.write_text(content)
    with pytest.raises(BadTokens, match=message):
        Tokens(file)
    with pytest.raises(BadTokens, match=message):
        file.enrol(AGENT, ENV)
    assert file.path.read_text() == content


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BadTokens, match="make one with fencepost ingest enrol"):
        Tokens(token_file(tmp_path / "none.json"))
    with pytest.raises(BadTokens, match="cannot write"):
        token_file(tmp_path / "none" / "tokens.json").enrol(AGENT, ENV)
    assert not list(tmp_path.iterdir())

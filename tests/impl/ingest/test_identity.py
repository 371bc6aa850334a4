"""Names of batches: the valid ones, and that every key contains its identity."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.impl.ingest import Identity, IdentityError, keys
from fencepost.impl.ingest.keys import SEQ_MAX, agent_path, boot_path
from fencepost.impl.store.validity import KEY_BYTES_MAX, check_key

names = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=30).filter(
    lambda text: text.isprintable() and len(text.encode()) <= 128
)
ranges = st.tuples(st.integers(0, SEQ_MAX), st.integers(0, SEQ_MAX)).map(sorted)
identities = st.builds(lambda agent, boot, seqs: Identity(agent, boot, *seqs), names, names, ranges)


@given(identities)
def test_a_key_contains_its_identity(identity: Identity) -> None:
    """Otherwise a batch is accepted under one name and found under another."""
    for key in (
        keys.accepted_key(identity),
        keys.by_blob_key("ab" * 32, identity),
        keys.conflict_key(identity, "ab" * 32),
    ):
        assert Identity.of_key(key) == identity
        check_key(key)


@given(identities, identities)
def test_two_identities_never_share_a_key(one: Identity, other: Identity) -> None:
    assert (keys.accepted_key(one) == keys.accepted_key(other)) is (one == other)


def test_the_order_of_keys_is_the_order_of_sequence() -> None:
    ends = [9, 10, 99, 100, 10**10, SEQ_MAX]
    found = [keys.accepted_key(Identity("a", "b", end, end)) for end in ends]
    assert found == sorted(found)


def test_the_longest_names_still_make_keys() -> None:
    identity = Identity("a" * 128, "é" * 64, 0, SEQ_MAX)
    assert len(keys.by_blob_key("ab" * 32, identity)) < KEY_BYTES_MAX
    assert keys.accepted_key(identity).startswith(keys.ACCEPTED + boot_path("a" * 128, "é" * 64))


@pytest.mark.parametrize("name", ["../../etc", "a/b", "%2e%2e", ".", "a\\b", "agent=61/boot=62"])
def test_names_never_become_paths(name: str) -> None:
    identity = Identity(name, name, 1, 1)
    assert Identity.of_key(keys.accepted_key(identity)) == identity
    assert agent_path(name).count("/") == 1


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (("", "b", 1, 1), "the agent '' has 0 bytes"),
        (("a" * 129, "b", 1, 1), "has 129 bytes, expected 1 to 128"),
        (("a", "é" * 65, 1, 1), "the boot"),
        (("a\n", "b", 1, 1), "control characters"),
        ((" a", "b", 1, 1), "outer spaces"),
        (("a\u202eb", "b", 1, 1), "control characters"),
        (("a\ud800", "b", 1, 1), "lone surrogate"),
        ((7, "b", 1, 1), "the agent is a int"),
        (("a", "b", -1, 1), "seq_start is -1"),
        (("a", "b", 1, 2**64), "seq_end is 18446744073709551616"),
        (("a", "b", True, 1), "seq_start is True"),
        (("a", "b", 1.0, 1), "seq_start is 1.0"),
        (("a", "b", 3, 2), "seq_end 2 is before seq_start 3"),
    ],
)
def test_invalid_names_are_refused_with_a_reason(error: Any, says: str) -> None:
    with pytest.raises(IdentityError) as caught:
        Identity(*error)
    assert says in str(caught.value)


@pytest.mark.parametrize("key", ["accepted/v1/agent=zz/boot=62/1-2.json", "accepted/v1/", "x" * 5000])
def test_a_key_without_identity_is_reported(key: str) -> None:
    with pytest.raises(IdentityError, match="names no identity"):
        Identity.of_key(key)


def test_a_key_with_a_name_that_is_not_text_is_reported() -> None:
    with pytest.raises(IdentityError, match="not a name in hexadecimal"):
        Identity.of_key(f"accepted/v1/agent=ff/boot=62/{1:020d}-{2:020d}.json")

"""What an operator sees and decides, and the bucket policy."""

import json

import pytest

from fencepost.impl.ingest import (
    Conflict,
    Identity,
    Refusal,
    Refused,
    SettingsError,
    bucket_policy,
    keys,
    lifecycle_rules,
)
from fencepost.impl.ingest.operator import (
    DROP,
    Blocklist,
    NoSuchConflict,
    blocks,
    conflicts,
    quarantine,
    release,
    resolution_of,
    resolve,
)
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.layers import Effect, Fault, Faulty

from .given import batch, bucket, collector, sha256

IDENTITY, BODY = batch()
_, OTHER = batch(1, 2.0)
ROLE = "arn:aws:iam::123456789012:role/ingest-gc"


def test_conflicts_are_listed_with_all_fields() -> None:
    store = bucket()
    ann = collector(store)
    ann.accept(IDENTITY, BODY)
    store.env.sleep(5)
    first_seen = store.env.now_ns()
    ann.accept(IDENTITY, OTHER)
    store.env.sleep(5)
    ann.accept(IDENTITY, OTHER)
    ann.accept(*batch(2, agent="agent-b"))
    ann.accept(batch(2, agent="agent-b")[0], batch(2, 3.0, agent="agent-b")[1])
    found = list(conflicts(store, store.env))
    assert [seen.record.identity for seen in found] == [IDENTITY, batch(2, agent="agent-b")[0]]
    assert found[0].first_seen_ns == first_seen
    assert found[0].record.submitted_frame_sha256 == sha256(OTHER)
    assert found[0].resolution is None
    assert [seen.record.agent_id for seen in conflicts(store, store.env, agent="agent-b")] == ["agent-b"]
    assert not list(conflicts(store, store.env, agent="agent-"))


def test_the_first_decision_is_final() -> None:
    store = bucket()
    ann = collector(store)
    ann.accept(IDENTITY, BODY)
    answer = ann.accept(IDENTITY, OTHER)
    assert isinstance(answer, Conflict)
    other = sha256(OTHER)
    assert resolution_of(store, store.env, IDENTITY, other) is None
    first = resolve(store, store.env, IDENTITY, other, by="ada", note="old disk")
    assert (first.decision, first.by, first.note) == (DROP, "ada", "old disk")
    assert resolve(store, store.env, IDENTITY, other, by="bob") == first
    assert resolution_of(store, store.env, IDENTITY, other) == first
    assert next(conflicts(store, store.env)).resolution == first


def test_resolving_needs_a_conflict() -> None:
    store = bucket()
    with pytest.raises(NoSuchConflict, match="there is no conflict"):
        resolve(store, store.env, IDENTITY, "ab" * 32, by="ada")


def test_a_decision_with_a_lost_reply_is_read_back() -> None:
    store = bucket()
    ann = collector(store)
    ann.accept(IDENTITY, BODY)
    ann.accept(IDENTITY, OTHER)
    faulty = Faulty(store, [Fault(Effect.REPLY_LOST, {"put"}, keys.RESOLUTIONS, times=1)])
    assert resolve(faulty, store.env, IDENTITY, sha256(OTHER), by="ada").by == "ada"


def test_an_agent_or_a_boot_in_quarantine_is_refused_until_released() -> None:
    store = bucket()
    blocklist = Blocklist(store, store.env)
    blocklist.check(IDENTITY)
    quarantine(store, store.env, "agent-a", "boot-1", by="ada", note="two machines")
    quarantine(store, store.env, "agent-b", by="ada")
    assert blocklist.refresh() == 2
    assert {(block.agent, block.boot, block.note) for block in blocks(store, store.env)} == {
        ("agent-a", "boot-1", "two machines"),
        ("agent-b", None, ""),
    }
    for identity in (IDENTITY, Identity("agent-b", "any", 1, 1)):
        with pytest.raises(Refused, match="quarantined by an operator") as caught:
            blocklist.check(identity)
        assert caught.value.kind is Refusal.QUARANTINED
    blocklist.check(Identity("agent-a", "boot-2", 1, 1))
    blocklist.check(Identity("agent-", "boot-1", 1, 1))
    assert release(store, store.env, "agent-a", "boot-1")
    assert not release(store, store.env, "agent-a", "boot-1")
    blocklist.refresh()
    blocklist.check(IDENTITY)


def test_a_boot_named_like_a_block_does_not_collide() -> None:
    """No boot name can collide with the block of the whole agent."""
    store = bucket()
    quarantine(store, store.env, "agent-a", "block.json", by="ada")
    blocklist = Blocklist(store, store.env)
    blocklist.refresh()
    blocklist.check(IDENTITY)


# The policy.


def statements() -> dict[str, dict[str, object]]:
    policy = bucket_policy("metrics", "prod/eu", gc_role=ROLE)
    assert json.loads(json.dumps(policy)) == policy
    assert all(one["Effect"] == "Deny" for one in policy["Statement"])
    return {one["Sid"]: one for one in policy["Statement"]}


def test_writes_need_a_condition_except_for_the_parts_of_an_upload() -> None:
    found = statements()
    accepted = found["AcceptedIsCreateOnly"]
    assert accepted["Resource"] == "arn:aws:s3:::metrics/prod/eu/accepted/*"
    assert accepted["Condition"] == {
        "Null": {"s3:if-none-match": "true"},
        "Bool": {"s3:ObjectCreationOperation": "true"},
    }
    blobs = found["BlobsAreWrittenWithACondition"]
    assert blobs["Condition"] == {
        "Null": {"s3:if-none-match": "true", "s3:if-match": "true"},
        "Bool": {"s3:ObjectCreationOperation": "true"},
    }


def test_deletes_are_denied_to_all_but_the_collectors_role_and_that_only_for_blobs() -> None:
    found = statements()
    assert "Condition" not in found["AcceptedIsNeverDeleted"]
    assert found["AcceptedIsNeverDeleted"]["Action"] == ["s3:DeleteObject", "s3:DeleteObjectVersion"]
    assert found["BlobsAreDeletedByGarbageCollectionOnly"]["Condition"] == {
        "ArnNotEquals": {"aws:PrincipalArn": ROLE}
    }


def test_copies_are_denied() -> None:
    found = statements()["NothingIsCopiedIn"]
    assert found["Resource"] == [
        "arn:aws:s3:::metrics/prod/eu/accepted/*",
        "arn:aws:s3:::metrics/prod/eu/raw-blobs/*",
    ]


def test_the_prefix_may_be_empty_and_the_partition_another() -> None:
    policy = bucket_policy("metrics", gc_role=ROLE.replace("aws", "aws-cn", 1), partition="aws-cn")
    assert policy["Statement"][0]["Resource"] == "arn:aws-cn:s3:::metrics/accepted/*"


def test_the_only_lifecycle_aborts_uploads() -> None:
    (rule,) = lifecycle_rules("prod")["Rules"]
    assert set(rule) == {"ID", "Status", "Filter", "AbortIncompleteMultipartUpload"}
    assert rule["Filter"] == {"Prefix": "prod/raw-blobs/"}
    with pytest.raises(SettingsError):
        lifecycle_rules(days=0)


@pytest.mark.parametrize(
    ("bucket_name", "role", "partition"),
    [("Metrics", ROLE, "aws"), ("m", ROLE, "aws"), ("metrics", "gc", "aws"), ("metrics", ROLE, 'aws"')],
)
def test_invalid_names_in_a_policy_are_refused(bucket_name: str, role: str, partition: str) -> None:
    with pytest.raises(SettingsError):
        bucket_policy(bucket_name, gc_role=role, partition=partition)


def test_an_invalid_block_is_reported() -> None:
    store = bucket()
    store.put(f"{keys.BLOCKS}agent=61/block.json", b'{"schema": "x"}', when=ANYTHING)
    with pytest.raises(Exception, match=r"expected 'lightmetrics\.block\.v1'"):
        Blocklist(store, store.env).refresh()

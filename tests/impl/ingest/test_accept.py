"""Acceptance, row by row of the table: the reply of the store, and the answer to the agent."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.ingest import (
    Accepted,
    Conflict,
    ConflictRecord,
    Identity,
    Manifest,
    Refusal,
    Refused,
    Unavailable,
    check_batch,
    collect,
    full_audit,
    keys,
)
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.layers import Effect, Fault, Faulty, Metered
from fencepost.impl.store.memory import MemoryStore
from tests.impl.publish.scripted import Scripted

from .given import LONG_S, SETTINGS, batch, bucket, collector, sha256

IDENTITY, BODY = batch()
_, OTHER = batch(1, 2.0)
ACCEPTED = keys.ACCEPTED
BOTH = pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])


def outcome(answer: Any) -> str:
    if isinstance(answer, Accepted):
        return "duplicate" if answer.duplicate else "accepted"
    return type(answer).__name__.lower()


@BOTH
def test_a_batch_is_accepted_once_and_its_name_for_ever(versioned: bool) -> None:
    store = bucket(versioned=versioned)
    ann, bob = collector(store), collector(store, "bob")
    first = ann.accept(IDENTITY, BODY)
    assert isinstance(first, Accepted)
    assert not first.duplicate
    assert [outcome(bob.accept(IDENTITY, BODY)), outcome(ann.accept(IDENTITY, BODY))] == ["duplicate"] * 2
    assert [outcome(bob.accept(IDENTITY, OTHER)), outcome(bob.accept(IDENTITY, BODY))] == [
        "conflict",
        "duplicate",
    ]
    stands = Manifest.read(store.contents()[keys.accepted_key(IDENTITY)], "it")
    assert stands == first.manifest
    assert stands.collector_id == "ann"
    assert stands.frame_sha256 == sha256(BODY)
    assert stands.frame_bytes == len(BODY)
    assert store.contents()[stands.raw_blob_key] == BODY


@BOTH
def test_cost(versioned: bool) -> None:
    """New: 2 hops, 2 requests. Duplicate: at most 4 and 4. Conflict: at most 4 and 5. Flat in history."""
    store = Metered(bucket(versioned=versioned))
    ann = collector(store)
    found: list[dict[str, tuple[int, int]]] = []
    for number in range(60):
        identity, body = batch(number)
        _, other = batch(number, 9.0)
        costs = {}
        for name, sent in (
            ("new", body),
            ("duplicate", body),
            ("conflict", other),
            ("conflict again", other),
        ):
            with store.operation(name) as cost:
                answer = ann.accept(identity, sent)
            costs[f"{name}: {outcome(answer)}"] = (cost.serial_hops, cost.requests)
        found.append(costs)
    assert found[0] == found[-1]
    new, duplicate, conflict, again = found[0].values()
    assert list(found[0]) == [
        "new: accepted",
        "duplicate: duplicate",
        "conflict: conflict",
        "conflict again: conflict",
    ]
    assert new == (2, 2)
    assert duplicate <= (4, 4)
    assert conflict <= (4, 5)
    assert again <= (4, 5)


@BOTH
def test_a_blob_of_the_same_bytes_under_another_name_is_shared(versioned: bool) -> None:
    store = bucket(versioned=versioned)
    ann = collector(store)
    ann.blobs.keep(sha256(BODY), BODY)
    assert outcome(ann.accept(IDENTITY, BODY)) == "accepted"
    assert len([key for key in store.contents() if key.startswith(keys.RAW)]) == 1


@BOTH
@pytest.mark.parametrize("place", [keys.RAW, keys.ACCEPTED])
@pytest.mark.parametrize(
    "fault",
    [
        Fault(Effect.REPLY_LOST, {"put"}, times=1),
        Fault(Effect.REQUEST_LOST, {"put"}, times=1),
        Fault(Effect.DUPLICATED, {"put"}, times=1),
        Fault(Effect.CONFLICT, {"put"}, times=2),
        Fault(Effect.THROTTLED, {"put"}, times=2),
        Fault(Effect.LATE, {"put"}, times=1, delay=2),
    ],
    ids=lambda fault: str(fault.effect),
)
def test_the_answer_is_true_under_every_single_fault(versioned: bool, place: str, fault: Fault) -> None:
    """Lost, dropped, late, 409, 503: the request is sent again, and the answer is true: accepted, once."""
    store = bucket(versioned=versioned)
    faulty = Faulty(store, [dataclasses.replace(fault, prefix=place)])
    assert outcome(collector(faulty).accept(IDENTITY, BODY)) in ("accepted", "duplicate")
    faulty.land_all()
    assert outcome(collector(store, "bob").accept(IDENTITY, BODY)) == "duplicate"


def test_own_create_with_a_lost_reply_is_not_a_duplicate() -> None:
    """Otherwise no collector would update live state for the batch."""
    live: list[Manifest] = []
    faulty = Faulty(bucket(), [Fault(Effect.REPLY_LOST, {"put"}, ACCEPTED, times=1)])
    assert outcome(collector(faulty, on_accepted=live.append).accept(IDENTITY, BODY)) == "accepted"
    assert len(live) == 1


@pytest.mark.parametrize("effect", [Effect.REPLY_LOST, Effect.REQUEST_LOST, Effect.THROTTLED])
@pytest.mark.parametrize("place", [keys.RAW, keys.ACCEPTED])
def test_a_store_without_answers_is_unavailable(effect: Effect, place: str) -> None:
    """503, with the reason, after a bounded number of attempts; nothing is accepted locally."""
    metered = Metered(Faulty(bucket(), [Fault(effect, set(), place)]))
    live: list[Manifest] = []
    with metered.operation("x") as cost:
        answer = collector(metered, on_accepted=live.append).accept(IDENTITY, BODY)
    assert isinstance(answer, Unavailable)
    assert answer.retry_after_s > 0
    assert "raw-blobs" in answer.reason or "accepted" in answer.reason
    assert cost.requests < 40
    assert not live


def test_pauses_between_attempts_grow_and_are_bounded() -> None:
    store = bucket()
    before = store.env.monotonic_ns()
    faulty = Faulty(store, [Fault(Effect.THROTTLED, {"put"}, keys.RAW)])
    collector(faulty).accept(IDENTITY, BODY)
    waited_s = (store.env.monotonic_ns() - before) / 1e9
    longest = sum(SETTINGS.pause_s * 2**n for n in range(SETTINGS.attempts_max - 1))
    assert longest / 2 <= waited_s <= longest


def test_a_damaged_manifest_is_unavailable() -> None:
    store = bucket()
    store.put(keys.accepted_key(IDENTITY), b"{}", when=ANYTHING)
    answer = collector(store).accept(IDENTITY, BODY)
    assert isinstance(answer, Unavailable)
    assert "has schema None" in answer.reason


@BOTH
def test_a_conflict_is_on_record_with_both_hashes(versioned: bool) -> None:
    store = bucket(versioned=versioned)
    ann = collector(store)
    first = ann.accept(IDENTITY, BODY)
    answer = ann.accept(IDENTITY, OTHER)
    assert isinstance(answer, Conflict)
    assert isinstance(first, Accepted)
    assert answer.existing == first.manifest
    record = ConflictRecord.read(store.contents()[answer.record_key], answer.record_key)
    assert (record.accepted_frame_sha256, record.submitted_frame_sha256) == (sha256(BODY), sha256(OTHER))
    assert store.contents()[record.submitted_raw_blob_key] == OTHER
    assert store.contents()[record.accepted_raw_blob_key] == BODY
    assert record.by_blob_key in store.contents()


def test_a_conflict_without_a_record_is_not_answered() -> None:
    """Otherwise the agent would park it, and no operator would see it."""
    store = bucket()
    collector(store).accept(IDENTITY, BODY)
    faulty = Faulty(store, [Fault(Effect.REQUEST_LOST, {"put"}, keys.QUARANTINE)])
    assert outcome(collector(faulty).accept(IDENTITY, OTHER)) == "unavailable"


@BOTH
def test_a_duplicate_restores_its_missing_blob(versioned: bool) -> None:
    """The manifest of a stalled collector may exist without data; the agent still has the bytes."""
    store = bucket(versioned=versioned)
    ann = collector(store)
    accepted = ann.accept(IDENTITY, BODY)
    assert isinstance(accepted, Accepted)
    store.env.sleep(LONG_S)
    for version in store.list_versions(keys.RAW).versions if versioned else ():
        store.delete(version.key, when=ANYTHING, version=version.version)
    if not versioned:
        store.delete(accepted.manifest.raw_blob_key, when=ANYTHING)
    assert outcome(ann.accept(IDENTITY, BODY)) == "duplicate"
    assert store.contents()[accepted.manifest.raw_blob_key] == BODY


@BOTH
@pytest.mark.parametrize("where", [keys.RAW, keys.ACCEPTED, keys.QUARANTINE])
@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
def test_a_conflict_delayed_for_hours_keeps_the_refused_bytes(
    versioned: bool, where: str, again: bool
) -> None:
    """An operator needs them: garbage collection runs while the collector stalls, at every step."""
    store = bucket(versioned=versioned)
    collector(store).accept(IDENTITY, BODY)
    if again:  # an earlier attempt that died before the record
        collector(store).blobs.keep(sha256(OTHER), OTHER)
        store.env.sleep(SETTINGS.horizon_s / 2)
    script = Scripted(store)

    def sleep() -> None:
        store.env.sleep(LONG_S)
        full_audit(store, store.env, SETTINGS)
        collect(store, store.env, SETTINGS)

    (script.before if where == keys.QUARANTINE else script.after)("put", where, sleep)
    answer = collector(script).accept(IDENTITY, OTHER)
    assert script.spent
    assert isinstance(answer, Conflict)
    record = ConflictRecord.read(store.contents()[answer.record_key], answer.record_key)
    assert store.contents()[record.submitted_raw_blob_key] == OTHER


@BOTH
@pytest.mark.parametrize("kind", ["accepted", "conflict"])
def test_a_delete_decided_earlier_hits_nothing(versioned: bool, kind: str) -> None:
    """A slow garbage collector judged the blob before the manifest existed, and deletes it now."""
    store = bucket(versioned=versioned)
    identity, body = (IDENTITY, OTHER) if kind == "conflict" else batch(2)
    collector(store).accept(IDENTITY, BODY)
    before = {one.key for one in store.list(keys.RAW).objects}
    collector(store).blobs.keep(sha256(body), body)
    (old,) = (one for one in store.list(keys.RAW).objects if one.key not in before)
    script = Scripted(store)
    if versioned:
        store.env.sleep(LONG_S)
    elif kind == "conflict":
        script.after("put", keys.ACCEPTED, lambda: store.env.sleep(LONG_S))
    else:
        script.after("put", keys.RAW, lambda: store.env.sleep(LONG_S))
    answer = collector(script).accept(identity, body)
    assert outcome(answer) == kind
    assert script.spent
    store.delete(old.key, when=ANYTHING, version=old.version)
    offered = answer.offered if isinstance(answer, Conflict) else answer.manifest
    assert store.contents()[offered.raw_blob_key] == body


def test_an_acceptance_delayed_for_hours_keeps_its_bytes() -> None:
    """A collector's own version is garbage, too, for a process that does not see the manifest yet."""
    store = bucket(versioned=True)
    script = Scripted(store)

    def sleep() -> None:
        store.env.sleep(LONG_S)
        full_audit(store, store.env, SETTINGS)
        assert collect(store, store.env, SETTINGS).deleted

    script.before("put", keys.ACCEPTED, sleep)
    answer = collector(script).accept(IDENTITY, BODY)
    assert outcome(answer) == "accepted"
    assert store.contents()[answer.manifest.raw_blob_key] == BODY


def test_a_late_retry_on_a_plain_bucket_has_a_name_of_its_own() -> None:
    """Names never repeat: a delete of the old one cannot hit the new."""
    store = bucket()
    ann = collector(store)
    old = ann.blobs.keep(sha256(BODY), BODY)
    store.env.sleep(LONG_S)
    answer = ann.accept(IDENTITY, BODY)
    assert isinstance(answer, Accepted)
    assert answer.manifest.raw_blob_key != old.key
    store.delete(old.key, when=ANYTHING)
    assert store.contents()[answer.manifest.raw_blob_key] == BODY


def test_an_old_blob_in_a_versioned_bucket_gets_a_new_version() -> None:
    store = bucket(versioned=True)
    ann = collector(store)
    ann.blobs.keep(sha256(BODY), BODY)
    store.env.sleep(LONG_S)
    (judged,) = store.list_versions(keys.RAW).versions
    answer = ann.accept(IDENTITY, BODY)
    assert isinstance(answer, Accepted)
    store.delete(judged.key, when=ANYTHING, version=judged.version)
    assert store.contents()[answer.manifest.raw_blob_key] == BODY


def test_a_young_blob_in_a_versioned_bucket_is_left_alone() -> None:
    """A retry within the horizon costs a HEAD, not the bytes again."""
    store = bucket(versioned=True)
    ann = collector(store)
    ann.blobs.keep(sha256(BODY), BODY)
    assert outcome(ann.accept(IDENTITY, BODY)) == "accepted"
    assert outcome(ann.accept(IDENTITY, BODY)) == "duplicate"
    assert len(store.list_versions(keys.RAW).versions) == 1


# Large blobs.


def parts(**options: Any) -> tuple[MemoryStore, Any]:
    settings = dataclasses.replace(SETTINGS, multipart_bytes=50, part_bytes=40)
    return bucket(part_bytes_min=1, **options), settings


@BOTH
def test_a_large_blob_goes_up_in_parts(versioned: bool) -> None:
    store, settings = parts(versioned=versioned)
    ann = collector(store, settings=settings)
    answer = ann.accept(IDENTITY, BODY)
    assert isinstance(answer, Accepted)
    assert len(BODY) > 50
    assert store.contents()[answer.manifest.raw_blob_key] == BODY
    assert outcome(ann.accept(IDENTITY, BODY)) == "duplicate"
    assert not store.list_uploads().uploads


@BOTH
@pytest.mark.parametrize("kind", ["create-upload", "upload-part", "complete-upload"])
@pytest.mark.parametrize("effect", [Effect.REPLY_LOST, Effect.REQUEST_LOST])
def test_parts_survive_a_lost_reply(versioned: bool, kind: str, effect: Effect) -> None:
    store, settings = parts(versioned=versioned)
    faulty = Faulty(store, [Fault(effect, {kind}, times=1)])
    answer = collector(faulty, settings=settings).accept(IDENTITY, BODY)
    assert isinstance(answer, Accepted)
    assert store.contents()[answer.manifest.raw_blob_key] == BODY


@BOTH
def test_a_completion_with_a_lost_reply_is_read_back(versioned: bool) -> None:
    """The second completion gets "no such upload": the parts need not be sent again."""
    store, settings = parts(versioned=versioned)
    metered = Metered(Faulty(store, [Fault(Effect.REPLY_LOST, {"complete-upload"}, times=1)]))
    collector(metered, settings=settings).blobs.keep(sha256(BODY), BODY)
    assert metered.total["create-upload"] == 1


@pytest.mark.parametrize("kind", ["upload-part", "complete-upload"])
def test_an_aborted_upload_starts_again(kind: str) -> None:
    """By an operator, a lifecycle rule, or garbage collection."""
    store, settings = parts()
    script = Scripted(store)
    script.before(
        kind,
        keys.RAW,
        lambda: [store.abort_upload(one.key, one.upload) for one in store.list_uploads().uploads],
    )
    answer = collector(script, settings=settings).accept(IDENTITY, BODY)
    assert outcome(answer) == "accepted"
    assert store.contents()[answer.manifest.raw_blob_key] == BODY


def test_a_409_on_completing_begins_a_new_upload() -> None:
    store, settings = parts()
    twin, _ = parts()
    store.conflict_next(collector(twin, settings=settings).blobs.keep(sha256(BODY), BODY).key)
    metered = Metered(store)
    assert outcome(collector(metered, settings=settings).accept(IDENTITY, BODY)) == "accepted"
    assert metered.total["create-upload"] == 2
    assert not store.list_uploads().uploads


# Who may send what.


def refused(act: Callable[[], object]) -> tuple[Refusal, str]:
    with pytest.raises(Refused) as caught:
        act()
    return caught.value.kind, caught.value.sentence


def test_only_an_agent_itself_sends_its_batches() -> None:
    assert check_batch("agent-a", IDENTITY, BODY).identity == IDENTITY
    kind, sentence = refused(lambda: check_batch("agent-b", IDENTITY, BODY))
    assert kind is Refusal.FOREIGN_AGENT
    assert "'agent-b'" in sentence
    assert "'agent-a'" in sentence


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip", "x" * 500])
def test_an_encoded_body_is_refused(encoding: str) -> None:
    kind, sentence = refused(lambda: check_batch("agent-a", IDENTITY, BODY, encoding))
    assert kind is Refusal.ENCODED
    assert len(sentence) < 200


@pytest.mark.parametrize("encoding", [None, "", "identity"])
def test_a_body_without_encoding_is_accepted(encoding: str | None) -> None:
    check_batch("agent-a", IDENTITY, BODY, encoding)


def test_a_frame_of_another_batch_is_refused() -> None:
    kind, _ = refused(lambda: check_batch("agent-a", Identity("agent-a", "boot-1", 10, 20), BODY))
    assert kind is Refusal.MISMATCH


def test_a_broken_or_large_frame_is_refused() -> None:
    kind, sentence = refused(lambda: check_batch("agent-a", IDENTITY, BODY[:-1]))
    assert kind is Refusal.BAD_FRAME
    assert "truncated" in sentence
    limits = dataclasses.replace(SETTINGS.limits, frame_bytes=10)
    assert refused(lambda: check_batch("agent-a", IDENTITY, BODY, limits=limits))[0] is Refusal.TOO_LARGE

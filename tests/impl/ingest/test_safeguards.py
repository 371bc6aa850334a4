"""Each safeguard is necessary in the real code: its counterexample happens without it and does not happen
with it.

Every test is the counterexample of docs/decisions/0011-ingest-protocol.md, played by hand: `name` is the
safeguard
that is broken, or None, and the assertion says what must be different. The adversary finds the same ones
by itself: `fencepost audit ingest --mutants`.
"""

import dataclasses
from typing import Any

import pytest

from fencepost.impl.ingest import (
    SAFEGUARDS,
    Accepted,
    Authority,
    Manifest,
    Refused,
    Unavailable,
    check_batch,
    collect,
    full_audit,
    keys,
    reconcile_once,
)
from fencepost.impl.ingest.indexes import derived
from fencepost.impl.ingest.safeguards import FIELDS
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.layers import Effect, Fault, Faulty
from fencepost.sim.systems.ingest import SYSTEM
from tests.impl.publish.scripted import Crashed, Scripted

from . import test_notified
from .given import LONG_S, SETTINGS, batch, bucket, collector, sha256, table

IDENTITY, BODY = batch()
_, OTHER = batch(1, 2.0)


def both(name: str) -> Any:
    """Run a counterexample with the safeguard and without it."""
    return pytest.mark.parametrize("name", [None, name])


def duplicate(answer: Any) -> bool:
    return isinstance(answer, Accepted) and answer.duplicate


def blob_of(store: Any, manifest: Manifest) -> bytes | None:
    found: bytes | None = store.contents().get(manifest.raw_blob_key)
    return found


def gc(store: Any, name: str | None, *, audit: bool = True) -> Any:
    if audit:
        full_audit(store, store.env, SETTINGS, safeguards=table(name))
    return collect(store, store.env, SETTINGS, safeguards=table(name))


def test_every_safeguard_has_a_mutant_and_a_counterexample() -> None:
    assert set(SYSTEM.mutant_table) == set(FIELDS)
    for name in SAFEGUARDS:
        assert f"test_{name.replace('-', '_')}" in {*globals(), *vars(test_notified)}


@both("identity-bound-to-agent")
def test_identity_bound_to_agent(name: str | None) -> None:
    """Another agent takes a name first, and the owner's own batch is a conflict for ever."""
    if name is None:
        with pytest.raises(Refused):
            check_batch("agent-b", IDENTITY, BODY)
    else:
        check_batch("agent-b", IDENTITY, BODY, safeguards=table(name))


@both("create-only-manifest")
def test_create_only_manifest(name: str | None) -> None:
    """Two collectors accept different bytes under one name: the first data is replaced."""
    store = bucket()
    first = collector(store, without=name).accept(IDENTITY, BODY)
    collector(store, "bob", without=name).accept(IDENTITY, OTHER)
    assert isinstance(first, Accepted)
    stands = Manifest.read(store.contents()[first.manifest.key], "it")
    assert (stands.frame_sha256 == sha256(BODY)) is (name is None)


@both("blob-before-manifest")
def test_blob_before_manifest(name: str | None) -> None:
    """The request for the blob gets lost: acknowledged, without data."""
    store = bucket()
    faulty = Faulty(store, [Fault(Effect.REQUEST_LOST, {"put"}, keys.RAW, times=1)])
    answer = collector(faulty, without=name).accept(IDENTITY, BODY)
    assert isinstance(answer, Accepted)
    assert (blob_of(store, answer.manifest) == BODY) is (name is None)


@both("compare-after-412")
def test_compare_after_412(name: str | None) -> None:
    """A 412 alone counts as a duplicate: the agent deletes the only copy of its batch."""
    store = bucket()
    collector(store).accept(IDENTITY, BODY)
    assert duplicate(collector(store, without=name).accept(IDENTITY, OTHER)) is (name is not None)


@both("409-proves-nothing")
def test_409_proves_nothing(name: str | None) -> None:
    """A retryable 409 counts as a duplicate: the batch is lost."""
    store = bucket()
    faulty = Faulty(store, [Fault(Effect.CONFLICT, {"put"}, keys.ACCEPTED, times=1)])
    answer = collector(faulty, without=name).accept(IDENTITY, BODY)
    assert duplicate(answer) is (name is not None)
    assert (keys.accepted_key(IDENTITY) in store.contents()) is (name is None)


@both("read-back-on-unknown")
def test_read_back_on_unknown(name: str | None) -> None:
    """A lost reply counts as success: acknowledged, without a manifest."""
    store = bucket()
    faulty = Faulty(store, [Fault(Effect.REQUEST_LOST, {"put"}, keys.ACCEPTED, times=1)])
    assert isinstance(collector(faulty, without=name).accept(IDENTITY, BODY), Accepted)
    assert (keys.accepted_key(IDENTITY) in store.contents()) is (name is None)


@both("effects-after-create")
def test_effects_after_create(name: str | None) -> None:
    """A collector that came second updates live state, and every point counts twice."""
    store = bucket()
    live: list[Manifest] = []
    for who in ("ann", "bob"):
        collector(store, who, without=name, on_accepted=live.append).accept(IDENTITY, BODY)
    assert len(live) == (1 if name is None else 2)


@both("reconcile")
def test_reconcile(name: str | None) -> None:
    """A crash after the create: the batch reaches no index, ever."""
    store = bucket()
    answer = collector(store).accept(IDENTITY, BODY)
    assert isinstance(answer, Accepted)
    full_audit(store, store.env, SETTINGS, safeguards=table(name))
    assert (answer.manifest.by_blob_key in store.contents()) is (name is None)


@both("new-upload-on-multipart-409")
def test_new_upload_on_multipart_409(name: str | None) -> None:
    """The object at the key when the upload began is deleted before its end: completing it gets 409 for
    ever."""
    settings = dataclasses.replace(SETTINGS, multipart_bytes=50, part_bytes=40)
    store = bucket(versioned=True, part_bytes_min=1)
    old = collector(store, settings=settings).blobs.keep(sha256(BODY), BODY).key
    (version,) = store.list_versions(old).versions
    script = Scripted(store)
    script.before(
        "complete-upload", keys.RAW, lambda: store.delete(old, when=ANYTHING, version=version.version)
    )
    ann = Authority(script, store.env, "ann", settings, safeguards=table(name))
    answer = ann.accept(IDENTITY, BODY)
    assert script.spent
    assert isinstance(answer, Accepted if name is None else Unavailable)


@both("gc-age")
def test_gc_age(name: str | None) -> None:
    """Garbage collection runs between blob and manifest: accepted, and the data gone."""
    store = bucket()
    script = Scripted(store)
    script.before("put", keys.ACCEPTED, lambda: gc(store, name))
    answer = collector(script).accept(IDENTITY, BODY)
    assert isinstance(answer, Accepted)
    assert (blob_of(store, answer.manifest) == BODY) is (name is None)


@both("gc-audit-before-trust")
def test_gc_audit_before_trust(name: str | None) -> None:
    """A collector died before it wrote the reverse reference; its absence counts as proof."""
    store = bucket()
    answer = collector(store).accept(IDENTITY, BODY)
    assert isinstance(answer, Accepted)
    gc(store, name)  # this audit began too early to prove anything about the blob
    store.delete(answer.manifest.by_blob_key, when=ANYTHING)
    store.env.sleep(LONG_S)
    gc(store, name, audit=False)
    assert (blob_of(store, answer.manifest) == BODY) is (name is None)


@both("gc-quarantine-refs")
def test_gc_quarantine_refs(name: str | None) -> None:
    """The bytes of a conflict are deleted before an operator looks at them."""
    store = bucket()
    ann = collector(store)
    ann.accept(IDENTITY, BODY)
    ann.accept(IDENTITY, OTHER)
    store.env.sleep(LONG_S)
    gc(store, name)
    assert (OTHER in store.contents().values()) is (name is None)


@both("gc-stalled-writer")
def test_gc_stalled_writer(name: str | None) -> None:
    """A collector relies on an existing blob, and stalls; long after, the blob is garbage for every other
    process."""
    store = bucket()
    collector(store).blobs.keep(sha256(BODY), BODY)
    script = Scripted(store)

    def sleep() -> None:
        store.env.sleep(LONG_S)
        gc(store, name)

    script.after("put", keys.RAW, sleep)
    answer = collector(script, without=name).accept(IDENTITY, BODY)
    assert isinstance(answer, Accepted)
    assert (blob_of(store, answer.manifest) == BODY) is (name is None)


@both("gc-stalled-writer-generation")
def test_gc_stalled_writer_generation(name: str | None) -> None:
    """A name is used again: a slow delete of the blob judged before hits the new one."""
    store = bucket()
    old = collector(store, without=name).blobs.keep(sha256(BODY), BODY).key
    store.env.sleep(LONG_S)
    full_audit(store, store.env, SETTINGS)
    slow = Scripted(store)
    answers: list[Any] = []
    slow.before(
        "delete", keys.RAW, lambda: answers.append(collector(store, without=name).accept(IDENTITY, BODY))
    )
    assert collect(slow, store.env, SETTINGS).deleted == [old]
    assert isinstance(answers[0], Accepted)
    assert (blob_of(store, answers[0].manifest) == BODY) is (name is None)


@both("gc-stalled-writer-version")
def test_gc_stalled_writer_version(name: str | None) -> None:
    """The delete of the judged version hits another one that was written meanwhile."""
    store = bucket(versioned=True)
    collector(store).blobs.keep(sha256(BODY), BODY)
    store.env.sleep(LONG_S)
    full_audit(store, store.env, SETTINGS)
    slow = Scripted(store)
    answers: list[Any] = []
    slow.before("delete", keys.RAW, lambda: answers.append(collector(store).accept(IDENTITY, BODY)))
    assert len(collect(slow, store.env, SETTINGS, safeguards=table(name)).deleted) == 1
    assert isinstance(answers[0], Accepted)
    assert (blob_of(store, answers[0].manifest) == BODY) is (name is None)


@both("gc-stalled-writer-duplicate")
def test_gc_stalled_writer_duplicate(name: str | None) -> None:
    """Accepted by a stalled collector that then died; the agent's retry finds the manifest, and no data."""
    store = bucket(versioned=True)
    dying = Scripted(store)
    dying.crash_after("put", keys.ACCEPTED)
    collector(store).blobs.keep(sha256(BODY), BODY)
    (judged,) = store.list_versions(keys.RAW).versions
    store.env.sleep(LONG_S)
    with pytest.raises(Crashed):
        collector(dying).accept(IDENTITY, BODY)
    retry = Scripted(store)
    retry.after("put", keys.RAW, lambda: store.delete(judged.key, when=ANYTHING, version=judged.version))
    answer = collector(retry, without=name).accept(IDENTITY, BODY)
    assert duplicate(answer)
    assert (blob_of(store, answer.manifest) == BODY) is (name is None)


@both("cursor-overlap")
def test_cursor_overlap(name: str | None) -> None:
    """A slow collector writes an entry behind the cursor: it is never checked."""
    store = bucket()
    late = collector(store).accept(IDENTITY, BODY)
    store.env.sleep(1)
    ahead = collector(store).accept(*batch(2))
    assert isinstance(late, Accepted)
    assert isinstance(ahead, Accepted)
    collector(store).follow_up(ahead.manifest)
    reconcile_once(store, store.env, SETTINGS, safeguards=table(name))
    by_time = derived(late.manifest)[0]
    store.send(by_time)
    for _ in range(3):
        store.env.sleep(10)
        reconcile_once(store, store.env, SETTINGS, safeguards=table(name))
    assert (late.manifest.by_blob_key in store.contents()) is (name is None)

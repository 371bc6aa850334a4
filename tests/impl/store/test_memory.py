"""What the memory store does beyond the common behaviour: conflicts on request, threads, a view inside."""

import contextlib
import hashlib
import sys
import threading
from collections.abc import Iterator

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Matches, Outcome
from fencepost.impl.store.memory import MemoryStore


def test_a_conflict_on_request_applies_nothing_and_wears_off() -> None:
    """409 proves nothing: code that takes it for `exists` must be caught by a test like this."""
    store = MemoryStore()
    store.conflict_next("k", times=2)
    assert store.put("other", b"", when=ABSENT).done
    assert store.put("k", b"1", when=ABSENT).outcome is Outcome.CONFLICT
    assert store.get("k").outcome is Outcome.MISSING
    assert store.put("k", b"plain", when=ANYTHING).done
    etag = store.head("k").info.etag
    assert store.put("k", b"2", when=Matches(etag)).outcome is Outcome.CONFLICT
    assert store.put("k", b"2", when=Matches(etag)).done


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads change places all the time: at the usual pace a store without any lock passes for sound."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def winners(store: MemoryStore, rounds: int) -> list[int]:
    """How many of four threads received `done` for the key, round by round."""
    wins: list[int] = []
    start = threading.Barrier(4)

    def race(name: str) -> None:
        for turn in range(rounds):
            start.wait()
            if store.put(f"slot/{turn}", name.encode(), when=ABSENT).done:
                wins.append(turn)

    racers = [threading.Thread(target=race, args=(f"t{number}",)) for number in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    return [wins.count(turn) for turn in range(rounds)]


def test_threads_racing_to_create_have_one_winner_each_round(hasty: None) -> None:
    assert winners(MemoryStore(), 200) == [1] * 200


def unlocked() -> MemoryStore:
    store = MemoryStore()
    store._lock = contextlib.nullcontext()  # type: ignore[assignment]  # taken away on purpose
    return store


def test_that_race_finds_a_store_without_a_lock(hasty: None) -> None:
    assert any(max(winners(unlocked(), 200)) > 1 for _ in range(50))


def test_the_etag_of_an_upload_is_that_of_its_parts_and_not_of_its_bytes() -> None:
    """As on S3: whoever compares ETags of the same bytes, once put and once uploaded, must learn it here."""
    store = MemoryStore(part_bytes_min=0)
    upload = store.create_upload("k").upload
    parts = [
        (number, store.upload_part("k", upload, number, body).etag) for number, body in ((1, b"a"), (2, b"b"))
    ]
    of_parts = b"".join(hashlib.md5(body).digest() for body in (b"a", b"b"))
    etag = store.complete_upload("k", upload, parts, when=ABSENT).etag
    assert etag == store.head("k").info.etag == f"{hashlib.md5(of_parts).hexdigest()}-2"
    assert store.put("k", b"ab", when=ANYTHING).etag == hashlib.md5(b"ab").hexdigest()


def test_each_opening_is_a_store_of_its_own() -> None:
    first, second = MemoryStore(), MemoryStore()
    first.put("k", b"1", when=ABSENT)
    assert second.contents() == {}


def test_an_upload_in_conflict_is_only_completed_without_a_condition() -> None:
    """What `requests` says of a conflict: the same condition never again completes the same upload."""
    store = MemoryStore(part_bytes_min=0)
    store.put("k", b"old", when=ABSENT)
    upload = store.create_upload("k").upload
    parts = [(1, store.upload_part("k", upload, 1, b"new").etag)]
    store.delete("k", when=ANYTHING)
    assert store.complete_upload("k", upload, parts, when=ABSENT).outcome is Outcome.CONFLICT
    store.put("k", b"other", when=ABSENT)
    store.delete("k", when=ANYTHING)
    assert store.complete_upload("k", upload, parts, when=ABSENT).outcome is Outcome.CONFLICT
    assert store.complete_upload("k", upload, parts, when=ANYTHING).done
    assert store.get("k").body == b"new"

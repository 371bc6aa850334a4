"""Two buckets have the same state only if every request is answered alike.

If this fails, states that differ are merged, and the runs below one of them are left out.
"""

from itertools import combinations
from typing import Any

from fencepost.impl.store import ANYTHING
from fencepost.impl.store import requests as req
from fencepost.sim.world.bucket import WorldBucket


def state_after(*puts: Any, versioned: bool = False) -> Any:
    bucket = WorldBucket(versioned=versioned)
    for put in puts:
        bucket.answer(put, 1)
        bucket.state()
    return bucket.state()


def test_buckets_that_differ_in_one_thing_have_different_states() -> None:
    put = req.Put("k", b"1", ANYTHING)
    kinds: list[tuple[Any, ...]] = [
        (),
        (put,),
        (req.Put("other", b"1", ANYTHING),),
        (req.Put("k", b"2", ANYTHING),),
        (req.Put("k", b"1", ANYTHING, content_type="text/plain"),),
        (req.Put("k", b"1", ANYTHING, metadata={"a": "1"}),),
        (req.Put("k", b"1", ANYTHING, metadata={"a": "2"}),),
        (req.Put("k", b"1", ANYTHING, content_type="text/plain", metadata={"a": "1"}),),
        (put, req.Put("other", b"1", ANYTHING)),
    ]
    for one, other in combinations(kinds, 2):
        assert state_after(*one) != state_after(*other)


def test_buckets_that_were_filled_in_another_order_have_the_same_state() -> None:
    puts = [req.Put(key, key.encode(), ANYTHING) for key in "abc"]
    assert state_after(*puts) == state_after(*reversed(puts))
    assert state_after(puts[0], req.Put("b", b"before", ANYTHING), puts[1], puts[2]) == state_after(*puts)

"""What a step reads and writes, request by request: what is too small here is a race that is missed."""

import pytest

from fencepost.impl.store import ABSENT
from fencepost.impl.store import requests as req
from fencepost.impl.store.errors import Misuse
from fencepost.sim.world import Footprints


@pytest.fixture
def footprints() -> Footprints:
    return Footprints()


def test_a_completion_that_its_upload_refuses_writes_the_key_all_the_same(footprints: Footprints) -> None:
    """Its parts decide whether it writes: those who look at the key conflict with it in every order."""
    listing = footprints.listing("key", "")
    key = footprints.bit("key", "k")
    complete = req.CompleteUpload("k", "u", ((1, "etag"),), ABSENT)
    read, written = footprints.footprint(complete, Misuse("a part is missing"))
    assert written & key
    assert written & listing
    assert read & key
    assert read & footprints.upload("k", "u")

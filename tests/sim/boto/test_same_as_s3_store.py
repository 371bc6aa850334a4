"""Our own S3 driver, run on the world's client: every behaviour of a store must come through.

Driver and mapping are written from opposite ends of the same wire, so a mistake of one shows in the other.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fencepost.impl.store.interface import settle
from fencepost.impl.store.s3.client import _keep_version_order, _stay
from fencepost.impl.store.s3.store import S3Store
from fencepost.properties.store_behaviour import StoreBehaviour, VersionedStoreBehaviour
from fencepost.sim.world import World
from tests.sim.boto.worlds import setting_up


class Driven(S3Store):
    """The driver, with the world's client in place of one that it would make."""

    world: World

    def _connect(self) -> Any:
        if self._client is None:
            self._client = self.world.boto3_client("s3")
            events = self._client.meta.events
            events.register_last("before-parameter-build.s3", _stay)
            events.register("before-parse.s3.ListObjectVersions", _keep_version_order)
        return self._client

    def send_all(self, requests: Sequence[Any]) -> Sequence[Any]:
        """Without threads, which the world does not have."""
        return settle(self.send, requests)


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[S3Store]:
    """An empty bucket in a world of its own, used by the program that sets the world up."""
    behaviour = request.cls
    name = request.function.__name__
    if name in behaviour.deviations:
        request.applymarker(pytest.mark.xfail(reason=behaviour.deviations[name], strict=True))
    world = setting_up()
    world.boto3_bucket("store", versioned=behaviour.versioned)
    driven = Driven("store", behaviour.prefix)
    driven.world = world
    with driven:
        yield driven
    world.close()


class TestPlain(StoreBehaviour):
    versioned = False
    prefix = "below/here"


class TestVersioned(VersionedStoreBehaviour):
    versioned = True
    prefix = ""

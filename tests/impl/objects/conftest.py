"""One server for each module, and a new bucket for each test."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fencepost.impl.objects.temporary import Unflushed
from tests.impl.objects.serving import client, served

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("objects"), disk=Unflushed()) as found:
        yield found


@pytest.fixture(scope="module")
def aws(endpoint: str) -> Any:
    return client(endpoint)


@pytest.fixture
def bucket(aws: Any) -> str:
    name = f"bucket-{next(_NUMBERS)}"
    aws.create_bucket(Bucket=name)
    return name


@pytest.fixture
def versioned(aws: Any, bucket: str) -> str:
    aws.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


@pytest.fixture
def locked(aws: Any) -> str:
    name = f"bucket-{next(_NUMBERS)}"
    aws.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    return name


@pytest.fixture(scope="session")
def code() -> Callable[..., str]:
    """The code with which a call is refused."""

    def refused(act: Callable[..., Any], **parameters: Any) -> str:
        with pytest.raises(ClientError) as raised:
            act(**parameters)
        return str(raised.value.response["Error"]["Code"])

    return refused

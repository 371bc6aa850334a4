"""A running S3 endpoint, as the tests see it: an address, and buckets to work in."""

import contextlib
import itertools
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import boto3
import botocore.config

ACCESS_KEY = "fencepost-test-key"
SECRET_KEY = "fencepost-test-secret"  # a dummy: every server here is started with it
REGION = "us-east-1"

_count = itertools.count(1)


class Endpoint:
    """An S3 endpoint that is listening."""

    def __init__(
        self, address: str, access_key: str = ACCESS_KEY, secret_key: str = SECRET_KEY, process: int = 0
    ) -> None:
        self.address = address
        """http://127.0.0.1:PORT"""
        self.access_key = access_key
        self.secret_key = secret_key
        self.process = process
        """Identifier of the server's own process; 0 if it has none or if it is not known."""

    def bucket(self, *, versioned: bool = False) -> str:
        """Make a new bucket and answer its store URL."""
        name = f"fencepost-test-{os.getpid()}-{next(_count)}"
        with contextlib.closing(self.client()) as client:
            client.create_bucket(Bucket=name)
            if versioned:
                client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        return self.url(name)

    def url(self, bucket: str) -> str:
        """The store URL of a bucket, which need not exist."""
        return f"s3://{bucket}?{urlencode({'endpoint': self.address, 'region': REGION}, safe=':/')}"

    def client(self, **config: Any) -> Any:
        """A plain boto3 client, for what a test sets up or looks at behind the store's back. Close it."""
        return boto3.client(
            "s3",
            endpoint_url=self.address,
            region_name=REGION,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=botocore.config.Config(
                s3={"addressing_style": "path"},
                retries={"total_max_attempts": 1},
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                **config,
            ),
        )


@contextlib.contextmanager
def dummy_credentials(access_key: str = ACCESS_KEY, secret_key: str = SECRET_KEY) -> Iterator[None]:
    """The environment holds the dummy credentials, and nothing of the person who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    for name in kept:
        del os.environ[name]
    os.environ["AWS_ACCESS_KEY_ID"] = access_key
    os.environ["AWS_SECRET_ACCESS_KEY"] = secret_key
    os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ.update(kept)

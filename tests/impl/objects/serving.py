"""An object server on a free port of 127.0.0.1, in a thread, and clients of it."""

import contextlib
import hmac
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.server import Server, listener
from fencepost.impl.http.tokens import Holder, Tokens
from fencepost.impl.lifecycle.served import ServedLifecycle
from fencepost.impl.objects.app import ObjectServer
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import Credentials
from fencepost.impl.objects.maintenance import Maintenance
from fencepost.impl.recording.http import HttpRecording
from fencepost.impl.store.files import Disk

ROOT_TOKEN = "a root token of the tests"


@contextlib.contextmanager
def served(
    root: Path,
    credentials: Credentials | None = None,
    *,
    domain: str = "",
    disk: Disk | None = None,
    tokens: Tokens[Holder] | None = None,
    recording: HttpRecording | None = None,
    answers_unsigned: bool = True,
    make: Callable[..., ObjectServer] = ObjectServer,
    **limits: Any,
) -> Iterator[str]:
    """The address of a server on this directory."""
    started = threading.Event()
    buckets = Buckets(str(root), disk=disk)
    known = credentials or Credentials(ROOT_TOKEN)
    bounds = Limits(**{"client_requests": 64, **limits})
    service = make(
        buckets,
        known,
        domain=domain,
        limits=bounds,
        tokens=tokens,
        recording=recording,
        extensions=lambda: [ServedLifecycle(buckets)],
        answers_unsigned=answers_unsigned,
    )
    maintenance = Maintenance(buckets)
    bound = listener("127.0.0.1", 0)
    server = Server(service, on_listening=lambda _: started.set())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        assert started.wait(30)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.stop()
        thread.join(30)
        service.close()
        maintenance.close()
        buckets.close()
        bound.close()


def secret(access_key: str) -> str:
    return hmac.digest(ROOT_TOKEN.encode(), access_key.encode(), "sha256").hex()


def client(address: str, access_key: str = "root", **config: Any) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=address,
        region_name="us-east-1",
        aws_access_key_id=access_key,
        aws_secret_access_key=secret(access_key),
        config=Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            retries={"total_max_attempts": 1},
            **config,
        ),
    )

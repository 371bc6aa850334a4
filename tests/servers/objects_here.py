"""Our object server in a thread of the test, with the credentials that every endpoint of the tests has."""

import contextlib
import hmac
from collections.abc import Callable, Iterator
from pathlib import Path

from fencepost.impl.http.tokens import Holder
from fencepost.impl.objects.credentials import ROOT, Caller, Credentials
from tests.impl.objects.serving import served
from tests.servers.endpoint import ACCESS_KEY, SECRET_KEY, Endpoint


class TestCredentials(Credentials):
    """Knows the access key of the tests, which may do everything."""

    def secret(self, access_key: str) -> str | None:
        return SECRET_KEY if hmac.compare_digest(access_key, ACCESS_KEY) else None

    def caller(self, access_key: str, holder: Callable[[str], Holder | None] = lambda _: None) -> Caller:
        return Caller(ROOT)


@contextlib.contextmanager
def objects_in_thread(root: Path) -> Iterator[Endpoint]:
    with served(root, TestCredentials("a root token of the tests")) as address:
        yield Endpoint(address)

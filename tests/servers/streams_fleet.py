"""Nodes of streams as processes, on each of the stores that they are tested on."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from .endpoint import Endpoint, dummy_credentials
from .fleet import Fleet, free_ports, running
from .processes import objects_process, seaweedfs_process

STORES = ("file", "objects", "seaweedfs")


class Nodes(Fleet):
    def words(self, at: int) -> list[str]:
        listen = f"127.0.0.1:{self.ports[at]}"
        state = self.folder / f"state-{at}"
        return ["streams", "serve", self.url, "--listen", listen, "--state", str(state)]


@contextlib.contextmanager
def nodes(url: str, folder: Path, count: int, *options: str, mutant: str = "") -> Iterator[Nodes]:
    """`count` listening nodes of one prefix; those alive at the end are killed."""
    with running(Nodes(url, folder, free_ports(count), options, mutant)) as made:
        yield made


@contextlib.contextmanager
def store(name: str, folder: Path) -> Iterator[str]:
    """The URL of a new store: a directory, our object server, or SeaweedFS. Its credentials are set."""
    folder.mkdir(parents=True, exist_ok=True)
    if name == "file":
        yield f"file://{folder}"
    elif name == "objects":
        from tests.impl.objects.serving import secret

        with (
            objects_process(folder, 2) as (_, address),
            dummy_credentials("root", secret("root")),
        ):
            yield Endpoint(address, "root", secret("root")).bucket()
    else:
        with seaweedfs_process(folder) as endpoint, dummy_credentials():
            yield endpoint.bucket()

"""What the components of publish share: see `fencepost.impl.context`. A context is about one branch."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fencepost.impl.context import Context
from fencepost.impl.publish import keys
from fencepost.impl.publish.boundary import Boundary
from fencepost.impl.publish.chain import Chain, News
from fencepost.impl.publish.documents import Manifest, Version, read_manifest, read_version
from fencepost.impl.publish.errors import StoreUnavailable
from fencepost.impl.publish.safeguards import Safeguards
from fencepost.impl.publish.sidecar import Sidecars
from fencepost.impl.retry import RetryPolicy
from fencepost.impl.store.requests import Get, Outcome

GRACE_S = 60.0
"""How long an unfenced sidecar counts as a live write. Only politeness depends on it."""
RETRY = RetryPolicy("publish", StoreUnavailable, attempts=6, backoff_s=0.1)
"""Five retries, about two seconds of pauses."""


@dataclass(eq=False)
class BranchContext(Context):
    """One branch of a catalog."""

    branch: str
    safeguards: Safeguards
    grace_s: float = GRACE_S
    retry: RetryPolicy = field(default=RETRY, kw_only=True)

    @property
    def chain(self) -> Chain:
        return Chain(self, keys.manifests(self.branch), Boundary(self, keys.boundary(self.branch)))

    @property
    def sidecars(self) -> Sidecars:
        return Sidecars(self)

    def on(self, branch: str) -> "BranchContext":
        return replace(self, branch=branch)

    def newest(self) -> Manifest | None:
        """The branch's newest manifest, found without knowing any."""
        found = self.chain.newest()
        return None if found is None else read_manifest(found[1], self.chain.key(found[0]))

    def versions(self, names: Sequence[str]) -> list[Version]:
        """Version objects by key; those that are gone are left out."""
        replies = self.read_all([Get(name) for name in names])
        return [
            read_version(reply.body, name)
            for name, reply in zip(names, replies, strict=True)
            if reply.outcome is Outcome.DONE
        ]

    def manifests(self, news: News) -> list[Manifest]:
        return [read_manifest(body, self.chain.key(id_)) for id_, body in news.entries]

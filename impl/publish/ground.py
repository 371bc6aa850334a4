"""What the protocol stands on: the store, the environment, the safeguards, and one branch's chain."""

from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.impl.environment import Environment
from fencepost.impl.publish import keys
from fencepost.impl.publish.asking import read_all
from fencepost.impl.publish.boundary import Boundary
from fencepost.impl.publish.chain import Chain, News
from fencepost.impl.publish.documents import Manifest, Version, read_manifest, read_version
from fencepost.impl.publish.safeguards import Safeguards
from fencepost.impl.publish.sidecar import Sidecars
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Get, Outcome

GRACE_S = 60.0
"""How long an unfenced sidecar counts as a live write. Only politeness depends on it."""


@dataclass(frozen=True, slots=True)
class Ground:
    """See the top of this module."""

    store: Store
    env: Environment
    branch: str
    safeguards: Safeguards
    grace_s: float = GRACE_S

    @property
    def chain(self) -> Chain:
        boundary = Boundary(self.store, self.env, keys.boundary(self.branch))
        return Chain(self.store, self.env, keys.manifests(self.branch), boundary)

    @property
    def sidecars(self) -> Sidecars:
        return Sidecars(self.store, self.env)

    def on(self, branch: str) -> "Ground":
        return Ground(self.store, self.env, branch, self.safeguards, self.grace_s)

    def newest(self) -> Manifest | None:
        """Resolve the branch's latest manifest, knowing nothing."""
        found = self.chain.newest()
        return None if found is None else read_manifest(found[1], self.chain.key(found[0]))

    def versions(self, names: Sequence[str]) -> list[Version]:
        """Version objects by key; those that are gone are left out."""
        replies = read_all(self.store, self.env, [Get(name) for name in names])
        return [
            read_version(reply.body, name)
            for name, reply in zip(names, replies, strict=True)
            if reply.outcome is Outcome.DONE
        ]

    def manifests(self, news: News) -> list[Manifest]:
        return [read_manifest(body, self.chain.key(id_)) for id_, body in news.entries]

"""The chain of manifests: create-only ids, an epoch, a boundary behind which ids are deleted.

A manifest is a function of its parent and of one plan, so the chain's state is what its newest manifest
says, and which id published which plan. The first id is 1: the empty catalog.

Deleting is two steps, the boundary and then the manifests, because a writer may slip in between. The ids
behind the boundary are deleted all at once: nobody reads one of them without looking at the boundary after.
"""

from fencepost.model.kernel import Int, Machine, Size, action
from fencepost.model.store import Budget


class Chain(Machine):
    """One branch's manifests."""

    writers = Size(2, most=8, doc="plans in one run, each with a writer of its own")
    claims = Size(1, least=0, most=6, doc="epochs that are claimed in one run: keeps the space finite")
    troubles = Size(1, least=0, most=6, doc="crashes of writers, lost replies and cleanups, all together")

    last = Int(1, 1 + claims + 3 * writers, start=1)  # the newest id
    epoch = Int(0, claims)  # what the newest manifest says
    boundary = Int(0, 1 + claims + 3 * writers)  # ids up to and with it are deleted, or may be
    deleted = Int(0, 1 + claims + 3 * writers)  # ids up to and with it are deleted
    trouble = Budget(troubles)

    @action
    def claim(s) -> None:
        """Somebody opens the catalog for writing: one manifest, which fences everybody before."""
        s.require(s.epoch < s.claims)
        s.last = s.last + 1
        s.epoch = s.epoch + 1

    def move_the_boundary(s) -> None:
        """All but the newest manifest may go."""
        s.require(s.boundary < s.last - 1)
        s.trouble.spend()
        s.boundary = s.last - 1

    @action
    def delete_manifests(s) -> None:
        """Cleanup, second step, of all ids that may go."""
        s.require(s.deleted < s.boundary)
        s.deleted = s.boundary

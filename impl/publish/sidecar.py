"""Sidecars: one object a plan, which holds the whole plan from before its first trace to its end."""

from dataclasses import dataclass

from fencepost.impl.context import Context
from fencepost.impl.publish import keys
from fencepost.impl.publish.plan import PublishPlan
from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.impl.store.requests import Delete, Get, List, Outcome, Put


def put(plan: PublishPlan) -> Put:
    return Put(keys.sidecar(plan.id), plan.to_bytes(), ABSENT, "application/json")


def delete(plan: str) -> Delete:
    """Retire. Blind on purpose: the name belongs to one plan, which is settled."""
    return Delete(keys.sidecar(plan), ANYTHING)


@dataclass(frozen=True, slots=True)
class Sidecars:
    """The sidecars of a catalog."""

    context: Context

    def names(self) -> list[str]:
        listing = self.context.pages(lambda token: List(keys.RECOVERY, token=token))
        return [info.key for page in listing for info in page.objects]

    def all(self) -> list[PublishPlan]:
        """Every plan whose sidecar stands, oldest first."""
        names = self.names()
        replies = self.context.read_all([Get(name) for name in names])
        return [
            PublishPlan.from_bytes(reply.body, name)
            for name, reply in zip(names, replies, strict=True)
            if reply.outcome is Outcome.DONE
        ]

    def one(self, plan: str) -> PublishPlan | None:
        reply = self.context.read(Get(keys.sidecar(plan)))
        return PublishPlan.from_bytes(reply.body, reply.info.key) if reply.info is not None else None

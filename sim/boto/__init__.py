"""Control under boto3 itself: code written against the SDK runs in the world, unchanged, with no network.

    def program(world):
        world.boto3_bucket("jobs")
        for name in ("ann", "bob"):
            world.spawn(elect, world.boto3_client("s3"), name, name=name)
        world.always("one leader", lambda view: ...view.get("jobs/leader")...)

    audit(program, budget=Budget(reply_lost=1, request_lost=1))

client(world, "s3", ...), resource(world, "s3", ...), session(world)    what boto3's namesakes give
bucket(world, name, versioned=...)      a bucket; the world and its properties know its keys as `name/key`
lost_shows_as(world, how)        a lost reply is "closed" (the default), "timeout" or "error" to the SDK
Escape                                  what code gets that reaches out of the world

From the first of these calls to the end of the run, clients that the code makes for itself, in a process or
when its module was loaded, are answered too.

Not the world's: files, the environment, memory that processes share (give each its own), locks.
"""

from typing import Any

from fencepost.impl.store.errors import Misuse
from fencepost.sim.boto import buckets, calls, clients, serve
from fencepost.sim.world import World, places, present
from fencepost.sim.world.escapes import Escape

__all__ = ["Escape", "bucket", "client", "lost_shows_as", "resource", "session"]


def client(world: World, service: str = "s3", **options: Any) -> Any:
    """A client that `world` answers; `options` as for `boto3.client`."""
    return session(world).client(service, **options)


def resource(world: World, service: str = "s3", **options: Any) -> Any:
    """A resource that `world` answers; `options` as for `boto3.resource`."""
    return session(world).resource(service, **options)


def session(world: World) -> Any:
    """A session whose clients and resources `world` answers."""
    _enter(world)
    return clients.session()


def bucket(world: World, name: str, *, versioned: bool | None = None) -> str:
    """Make a bucket without a request of the SDK, and return its name."""
    _enter(world)
    buckets.install(world.run).create(name, versioned=versioned)
    return name


def lost_shows_as(world: World, how: str) -> None:
    """Choose how a lost reply looks to the SDK."""
    if how not in serve.LOST:
        raise Misuse(f"a lost reply cannot show as {how!r}; choose from {', '.join(serve.LOST)}")
    world.lose_replies_as(how)


def _enter(world: World) -> None:
    """From now on the SDK belongs to the world too, until its run is over."""
    calls.install()
    buckets.install(world.run)
    if clients.restore not in world.run.closing:
        world.at_end(clients.restore)
        if not present.is_here(world.run):  # it was not started
            places.enter(world.run, None)
        places.apply()

"""A write whose `await_durable` returned is stored, and zombie writers are fenced: the next to open the database reads it."""

import asyncio

from slatedb.uniffi import DbBuilder, ObjectStore

PACKAGE = "slatedb"
PLACE = "docstring of WriteHandle.await_durable; README, Features"
FAULTS = "none"
OVER_HTTP = True


async def write(name):
    first = await DbBuilder("db", ObjectStore.resolve("s3://bucket/")).build()
    await (await first.put(name.encode(), b"durable")).await_durable()
    second = await DbBuilder("db", ObjectStore.resolve("s3://bucket/")).build()
    return await second.get(name.encode()) == b"durable"


def run(name):
    return asyncio.run(write(name))


def program(world):
    world.boto3_bucket("bucket")
    for name in ("ann", "bob"):
        world.spawn(run, name, name=name, restart=False, may_raise=(Exception,))
    world.finally_("what is durable is read", lambda view: False not in view.results().values())

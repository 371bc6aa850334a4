"""The times on which all collectors and the garbage collector of one bucket must agree, kept in the bucket.

The name of a blob says its generation, which is the clock divided by the horizon, and garbage collection
takes what is older than the horizon and the margin: whoever reckons with another horizon takes a young
blob for an old one. So the first who comes writes down what holds, and whoever comes with something else is
turned away. To change it: stop all collectors, wait for the longer of the two horizons and margins, delete
the object, begin again.
"""

from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.documents import JSON, parse, write
from fencepost.impl.ingest.errors import Damaged, SettingsError
from fencepost.impl.ingest.settings import Settings
from fencepost.impl.store import ABSENT
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Get, Put

SCHEMA = "fencepost.ingest_agreement.v1"
AGREED = ("horizon_s", "landing_bound_s", "skew_bound_s")


def agree(store: Store, env: Environment, settings: Settings) -> None:
    """Write down these times, or raise `SettingsError` when others are written down."""
    retry = settings.retry_policy
    ours = {"schema": SCHEMA, **{name: getattr(settings, name) for name in AGREED}}
    reply = retry.read(store, env, Get(keys.AGREEMENT))
    body: bytes | None = reply.body if reply.info is not None else None
    if body is None:
        body = retry.create_all(store, env, [Put(keys.AGREEMENT, write(ours), ABSENT, JSON)])[0].body
    if body is None:
        raise retry.unavailable(f"the store did not say what {keys.AGREEMENT} holds; try again")
    theirs = parse(body, keys.AGREEMENT)
    if theirs.get("schema") != SCHEMA:
        raise Damaged(f"{keys.AGREEMENT} has schema {theirs.get('schema')!r}, expected {SCHEMA!r}")
    for name in AGREED:
        if theirs.get(name) != ours[name]:
            raise SettingsError(
                f"{name} is {ours[name]}, and {store.url} is used with {theirs.get(name)}: all collectors "
                f"and gc of one bucket need the same. To change it: stop them, wait, delete {keys.AGREEMENT}"
            )

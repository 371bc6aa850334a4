"""Promises: ready properties over what a bucket shows and what processes noted.

    --promise queue=jobs/                 on the command line of `fencepost audit`
    @fencepost.audit(promises=["queue=jobs/"])
    world.promise("queue=jobs/")          in the program
    promise = parse("queue=jobs/")        elsewhere: `begin`, `observe` every `Observation`, `finish`

A promise reads `Observation`s alone, so an audit and the replay of a recorded trace use the same ones. See
docs/guides/promises.md.
"""

from collections.abc import Sequence

from fencepost.properties.promises.lock import Lock
from fencepost.properties.promises.log import Log
from fencepost.properties.promises.noted import Agree, Gone, Kept, Report
from fencepost.properties.promises.observation import Observation, digest_of
from fencepost.properties.promises.once import Once
from fencepost.properties.promises.promise import BadPromise, Promise, one_of
from fencepost.properties.promises.queue import Queue
from fencepost.properties.promises.references import Manifest, References
from fencepost.properties.promises.register import Register
from fencepost.properties.promises.serializable import Serializable

__all__ = ["PROMISES", "BadPromise", "Observation", "Promise", "digest_of", "parse", "promised"]

PROMISES: dict[str, type[Promise]] = {
    one.kind: one
    for one in (
        *(Register, Serializable, Once, Lock, Log, Manifest, References, Queue),
        *(Agree, Kept, Report, Gone),
    )
}


def parse(text: str) -> Promise:
    """Return a new promise from its text: `queue=jobs/,done=finished/`."""
    kind, _, rest = text.strip().partition("=")
    made = PROMISES[one_of(kind, PROMISES, "promise")]
    target, *parts = (part.strip() for part in rest.split(","))
    given: dict[str, str] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise BadPromise(f"{kind}: {part!r} must read NAME=VALUE")
        if name in given:
            raise BadPromise(f"{kind} has {name} twice")
        given[name] = value
    return made(target, given)


def promised(texts: Sequence[str]) -> list[Promise]:
    """Return new promises, each given once."""
    found = [parse(text) for text in texts]
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise BadPromise(f"{name} is promised twice")
    return found

"""The properties, named like those of the model: functions of what the bucket holds and what was answered."""

from collections.abc import Callable, Iterator, Mapping

from fencepost.examples.fenced_counter.counter import KEY, parse

State = Mapping[str, bytes]
Check = Callable[[State, list[str]], Iterator[str]]


def no_lost_increment(contents: State, added: list[str]) -> Iterator[str]:
    """`added` are the writers whose add was acknowledged, each time."""
    count = sum(what == "add" for what, _ in parse(contents.get(KEY, b"")))
    if count < len(added):
        yield f"{len(added)} increments were acknowledged, and the counter shows {count}"


def fenced(contents: State, _: list[str]) -> Iterator[str]:
    latest = 0
    for what, epoch in parse(contents.get(KEY, b"")):
        if what == "add" and epoch < latest:
            yield f"epoch {epoch} added after the claim of epoch {latest}"
        latest = max(latest, epoch)


CHECKS: Mapping[str, Check] = {check.__name__: check for check in (no_lost_increment, fenced)}

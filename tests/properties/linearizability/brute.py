"""The slowest honest checker: every choice, every order. Nothing is shared with the one it judges.

The meaning of an operation is written here once more, in plain cases, so that a mistake in the reference
shows as a disagreement. Loose writes take effect or not: both are tried. What no reply reveals (the ETag
of a write without reply, the content of an upload) may be anything the history mentions, or something
else: all are tried.
"""

import itertools
from collections.abc import Iterator, Sequence

from fencepost.impl.store.requests import Outcome
from fencepost.properties.linearizability import Operation

TAKEN_BACK = (Outcome.CONFLICT, Outcome.THROTTLED, Outcome.GONE)
Thing = tuple[str, object]
"""An object: its ETag and its content."""


def explainable(history: Sequence[Operation]) -> bool:
    """Whether some order of some choice explains one key's history."""
    history = [each for each in history if not says_nothing(each)]
    firm = [each for each in history if each.outcome is not Outcome.UNKNOWN]
    loose = [each for each in history if each.outcome is Outcome.UNKNOWN]
    return any(
        orders_exist([*firm, *landed], [things.get(content(history, each)) for each in [*firm, *landed]])
        for things in assignments(history)
        for count in range(len(loose) + 1)
        for landed in itertools.combinations(loose, count)
    )


def says_nothing(each: Operation) -> bool:
    return each.outcome in TAKEN_BACK or (each.outcome is Outcome.UNKNOWN and each.kind in ("get", "head"))


def content(history: Sequence[Operation], each: Operation) -> object:
    """Equal for puts of the same bytes, which leave the same ETag; any other write is only like itself."""
    if each.kind == "put" and each.value is not None:
        return "put", each.etag or next((o.etag for o in history if same_put(o, each)), ""), each.value
    return "write", history.index(each)


def same_put(one: Operation, other: Operation) -> bool:
    return bool(one.etag) and one.kind == other.kind == "put" and one.value == other.value


def assignments(history: Sequence[Operation]) -> Iterator[dict[object, Thing]]:
    """Every way to give each content an ETag and bytes: puts of different bytes have different ETags."""
    contents = {content(history, each): each for each in history if each.kind in ("put", "complete-upload")}
    etags = ({each.etag for each in history} | {each.named for each in history}) - {""}
    held = {each.etag: each.value for each in history if each.etag and each.value is not None}
    values = {each.value for each in history if each.value is not None}
    to_puts = {each.etag for each in history if each.kind == "put"}
    to_writes = {each.etag for each in history if each.kind in ("put", "complete-upload")}
    choices = []
    for what, each in contents.items():
        returned_etag = each.etag or (what[1] if what[0] == "put" else "")
        free = etags - (to_writes if what[0] == "put" else to_puts)
        choices.append(
            [
                (what, (etag, value))
                for etag in ([returned_etag] if returned_etag else [*sorted(free), f"etag of {what}"])
                for value in ([each.value] if each.value is not None else [*sorted(values), f"of {what}"])
                if held.get(etag, value) == value
            ]
        )
    for chosen in itertools.product(*choices):
        put = [etag for what, (etag, _) in chosen if what[0] == "put"]
        if len(set(put)) == len(put):
            yield dict(chosen)


def orders_exist(history: Sequence[Operation], things: Sequence[Thing | None]) -> bool:
    """Every permutation that respects the clock, without any memory."""

    def extend(missing: tuple[int, ...], there: Thing | None) -> bool:
        if not missing:
            return True
        for index in missing:
            if any(before(history[other], history[index]) for other in missing if other != index):
                continue
            possible, then = effect(history[index], there, things[index])
            if possible and extend(tuple(other for other in missing if other != index), then):
                return True
        return False

    return extend(tuple(range(len(history))), None)


def before(first: Operation, second: Operation) -> bool:
    if first.outcome is Outcome.UNKNOWN:
        return False
    assert first.returned is not None
    return first.returned < second.called


def effect(each: Operation, there: Thing | None, writes: Thing | None) -> tuple[bool, Thing | None]:
    """Whether the answer is right while `there` is there, and what is there afterwards."""
    etag = there[0] if there else None
    if each.kind in ("get", "head"):
        return read_is_right(each, there), there
    holds = True
    refusal = None
    if each.condition == "absent" and there is not None:
        holds, refusal = False, Outcome.EXISTS
    if each.condition == "matches" and there is None:
        holds, refusal = False, Outcome.MISSING
    if each.condition == "matches" and there is not None and etag != each.named:
        holds, refusal = False, Outcome.CHANGED
    if each.outcome in (Outcome.DONE, Outcome.UNKNOWN):
        return holds, (None if each.kind == "delete" else writes)
    return each.outcome is refusal, there


def read_is_right(each: Operation, there: Thing | None) -> bool:
    if there is None or each.outcome is Outcome.MISSING:
        return there is None and each.outcome is Outcome.MISSING
    etag, value = there
    if each.condition == "only-if" and etag != each.named:
        return each.outcome is Outcome.CHANGED
    if each.condition == "unless" and etag == each.named:
        return each.outcome is Outcome.UNCHANGED
    if each.outcome is Outcome.PAST_END:
        return True
    explained_right = each.etag in ("", etag) and each.value in (None, value)
    return each.outcome is Outcome.DONE and explained_right

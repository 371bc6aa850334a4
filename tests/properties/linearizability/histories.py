"""Small histories of one key: executions whose replies get lost, delayed and falsified; and pure noise."""

from dataclasses import replace

from hypothesis import strategies as st

from fencepost.impl.store.requests import Outcome
from fencepost.properties.linearizability import Operation

KEY = "k"
VALUES = ("a", "b", "c")
PROCESSES = ("p", "q", "r")
READ_OUTCOMES = (
    Outcome.DONE,
    Outcome.DONE,
    Outcome.MISSING,
    Outcome.CHANGED,
    Outcome.UNCHANGED,
    Outcome.PAST_END,
)
WRITE_OUTCOMES = (Outcome.DONE, Outcome.DONE, Outcome.EXISTS, Outcome.CHANGED, Outcome.MISSING)
OWN_REASONS = (Outcome.CONFLICT, Outcome.THROTTLED)


def etag_of(kind: str, value: str) -> str:
    """The same bytes put in one piece and completed from parts have different ETags."""
    return f"{'u' if kind == 'complete-upload' else 'e'}-{value}"


ETAGS = tuple(etag_of(kind, value) for kind in ("put", "complete-upload") for value in VALUES)


KINDS = ("put", "put", "put", "get", "get", "head", "delete", "complete-upload")
FATES = ("seen", "seen", "seen", "lost", "never", "refused")


@st.composite
def requests_of(draw: st.DrawFn, called: int, returned: int, kinds: tuple[str, ...] = KINDS) -> Operation:
    """A request; its answer is still open."""
    kind = draw(st.sampled_from(kinds))
    conditions = {"get": ("", "", "only-if", "unless"), "head": ("",), "delete": ("", "matches")}
    condition = draw(st.sampled_from(conditions.get(kind, ("", "absent", "matches"))))
    named = draw(st.sampled_from(ETAGS[:4])) if condition not in ("", "absent") else ""
    value = draw(st.sampled_from(VALUES)) if kind in ("put", "complete-upload") else None
    process = draw(st.sampled_from(PROCESSES))
    return Operation(
        process, KEY, kind, called, returned, Outcome.THROTTLED, condition=condition, named=named, value=value
    )


@st.composite
def executions(
    draw: st.DrawFn, most: int = 6, kinds: tuple[str, ...] = KINDS, fates: tuple[str, ...] = FATES
) -> list[Operation]:
    """What a store that does one thing at a time answers, seen by processes whose replies get lost."""
    there: tuple[str, str] | None = None
    history = []
    for at in range(draw(st.integers(2, most))):
        moment = 10 * at + 100
        called = moment - draw(st.integers(0, 25))
        request = draw(requests_of(called, moment + draw(st.integers(0, 25)), kinds))
        fate = draw(st.sampled_from(fates))
        if fate == "refused":
            history.append(replace(request, outcome=draw(st.sampled_from(OWN_REASONS))))
            continue
        if fate == "never":
            history.append(lost(draw, request))
            continue
        answer, there = answered(request, there, hide=draw(st.booleans()))
        history.append(lost(draw, answer) if fate == "lost" else answer)
    return history


def lost(draw: st.DrawFn, request: Operation) -> Operation:
    """No reply; or a time-out, perhaps long before the request lands."""
    early = request.called + draw(st.integers(0, 3))
    value = None if request.reads else request.value
    returned = early if draw(st.booleans()) else None
    return replace(request, outcome=Outcome.UNKNOWN, returned=returned, value=value, etag="")


def answered(
    each: Operation, there: tuple[str, str] | None, *, hide: bool
) -> tuple[Operation, tuple[str, str] | None]:
    """What a store answers, and what is there then; `hide` keeps content to itself where it may."""
    if each.reads:
        return reads(each, there, hide=hide), there
    if each.condition == "absent" and there is not None:
        return replace(each, outcome=Outcome.EXISTS), there
    if each.condition == "matches" and there is None:
        return replace(each, outcome=Outcome.MISSING), there
    if each.condition == "matches" and there is not None and there[0] != each.named:
        return replace(each, outcome=Outcome.CHANGED), there
    if each.kind == "delete":
        return replace(each, outcome=Outcome.DONE), None
    etag = etag_of(each.kind, str(each.value))
    shown = None if hide and each.kind == "complete-upload" else each.value
    return replace(each, outcome=Outcome.DONE, etag=etag, value=shown), (etag, str(each.value))


def reads(each: Operation, there: tuple[str, str] | None, *, hide: bool) -> Operation:
    if there is None:
        return replace(each, outcome=Outcome.MISSING)
    etag, value = there
    if each.condition == "only-if" and etag != each.named:
        return replace(each, outcome=Outcome.CHANGED)
    if each.condition == "unless" and etag == each.named:
        return replace(each, outcome=Outcome.UNCHANGED)
    if hide and each.kind == "get" and value == "a":
        return replace(each, outcome=Outcome.DONE, value=value)
    if hide and each.kind == "get":
        return replace(each, outcome=Outcome.DONE, etag=etag)
    return replace(each, outcome=Outcome.DONE, etag=etag, value=value if each.kind == "get" else None)


def puzzles() -> st.SearchStrategy[list[Operation]]:
    """Executions in which writers seldom learn an ETag, and readers often learn nothing else."""
    some = ("put", "put", "put", "head", "head", "get", "delete")
    with_uploads = (*some, "complete-upload", "complete-upload")
    fates = ("seen", "lost", "lost", "never")
    return executions(kinds=some, fates=fates) | executions(kinds=with_uploads, fates=fates)


@st.composite
def corrupted(draw: st.DrawFn) -> list[Operation]:
    """An execution with up to two answers or times falsified."""
    history = draw(executions() | puzzles())
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(history) - 1))
        history[at] = draw(falsified(history[at]))
    return history


@st.composite
def falsified(draw: st.DrawFn, each: Operation) -> Operation:
    if each.outcome in (Outcome.UNKNOWN, *OWN_REASONS) or draw(st.integers(0, 3)) == 0:
        called = each.called + draw(st.integers(-30, 30))
        late = None if each.returned is None else max(called, each.returned + draw(st.integers(-30, 30)))
        return replace(each, called=called, returned=late)
    return draw(answers(each))


@st.composite
def answers(draw: st.DrawFn, each: Operation) -> Operation:
    """Any answer at all, true or not."""
    outcome = draw(st.sampled_from(READ_OUTCOMES if each.reads else WRITE_OUTCOMES))
    if outcome is not Outcome.DONE or each.kind == "delete":
        return replace(each, outcome=outcome, etag="", value=None if each.reads else each.value)
    if each.reads:
        kind = draw(st.sampled_from(("put", "put", "complete-upload")))
        value = draw(st.sampled_from(VALUES))
        shown = value if each.kind == "get" and draw(st.booleans()) else None
        return replace(each, outcome=outcome, etag=etag_of(kind, value), value=shown)
    etag = each.etag or (etag_of(each.kind, str(each.value)) if each.value is not None else "")
    return replace(each, outcome=outcome, etag=etag)


@st.composite
def noise(draw: st.DrawFn) -> list[Operation]:
    """Requests at any time, answered anyhow."""
    history = []
    for _ in range(draw(st.integers(2, 5))):
        called = draw(st.integers(0, 10))
        request = draw(requests_of(called, called + draw(st.integers(0, 6))))
        request = draw(answers(request))
        history.append(lost(draw, request) if draw(st.integers(0, 3)) == 0 else request)
    return history


HICOUNTEREXAMPLES = st.one_of(executions(), puzzles(), corrupted(), corrupted(), noise(), noise())

"""Rivals released together, round after round, and what their answers may say.

Every race has one judge: a pure function of the requests and replies of each rival, and of the
object afterwards. Of a race in which all wanted the same version replaced,

- at most one rival receives `done`;
- the final object is the winner's, and never that of a rival that was refused;
- no rival receives `exists` or `changed` when no write was applied.

`unknown` may have been applied, so it explains the object, but not a second winner. `conflict` and
`throttled` prove nothing and excuse a round without any winner, but must not have been applied.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.requests import ABSENT, Matches, Outcome
from fencepost.sim.probe.bench import Bench, offered
from fencepost.sim.probe.clients import Clients, Sent
from fencepost.sim.probe.conditions import deletes_missing
from fencepost.sim.probe.history import body_of, token_of
from fencepost.sim.probe.multipart import Begun
from fencepost.sim.probe.verdict import Broken, Inconclusive

LIES = frozenset({Outcome.EXISTS, Outcome.CHANGED, Outcome.MISSING})
"""Refusals with a reason, which must be true."""


@dataclass(frozen=True, slots=True)
class Rival:
    """One member of a race: who, the token it wanted to write, and what it received."""

    name: str
    token: str | None
    """None of a delete."""
    outcome: Outcome


def judge(rivals: Sequence[Rival], before: str | None, after: str | None) -> str | None:
    """Return the violation in a race to replace `before` that left `after`, or None."""
    winners = [rival for rival in rivals if rival.outcome is Outcome.DONE]
    perhaps = {rival.token for rival in rivals if rival.outcome is Outcome.UNKNOWN}
    if len(winners) > 1:
        return f"{len(winners)} winners: {', '.join(rival.name for rival in winners)} were all answered done"
    author = next((rival for rival in rivals if rival.token == after and after != before), None)
    if winners and after != winners[0].token:
        return f"{winners[0].name} was answered done, but {_what(after)} stands"
    if not winners and after != before and after not in perhaps:
        what = f"{author.name} was answered {author.outcome}, and yet its write" if author else _what(after)
        return f"{what} stands" if author else f"{what} stands, which no rival wrote"
    lied = next((rival for rival in rivals if rival.outcome in LIES), None)
    if lied and after == before:
        return f"{lied.name} was answered {lied.outcome}, though nobody's write was applied"
    return None


def _what(token: str | None) -> str:
    return "nothing" if token is None else repr(token)


def racing_creates(clients_of: Callable[[Bench], Clients]) -> Callable[[Bench], str]:
    """Create-only puts of the same new key."""

    def run(bench: Bench) -> str:
        clients = clients_of(bench)
        for number in bench.rounds():
            key = bench.key("create")
            tokens = _tokens(bench, clients, number)
            bodies = [body_of(token, bench.plan.body_bytes) for token in tokens]
            sent = bench.together(clients, [ask.Put(key, body, ABSENT) for body in bodies])
            _settle(bench, key, _rivals(sent, tokens), None)
        return _conclude(bench)

    return run


def counters(clients_of: Callable[[Bench], Clients]) -> Callable[[Bench], str]:
    """Everybody reads the counter and puts the next value if it is still what was read."""

    def run(bench: Bench) -> str:
        clients = clients_of(bench)
        key = bench.key("counter")
        bench.put(key, "0.start", size=bench.plan.body_bytes)
        wins = reached = 0
        # The history holds the round before as well: it acknowledged the update that this one misses.
        for _ in bench.rounds(shown=2):
            read = bench.store.get(key)
            if read.outcome is Outcome.MISSING:
                raise Broken(f"{wins} increments were acknowledged, and the counter is missing")
            if not read.done or read.info is None:
                raise Inconclusive(f"the counter could not be read: {read.outcome.value}")
            before = token_of(read.body)
            count = _count(before)
            lost = _lost_update(count, reached)
            tokens = [f"{count + 1}.{name}" for name in bench.rivals(clients)]
            bodies = [body_of(token, bench.plan.body_bytes) for token in tokens]
            sent = bench.together(clients, [ask.Put(key, body, Matches(read.info.etag)) for body in bodies])
            won = sum(one.outcome is Outcome.DONE for one in sent)
            wins += won
            reached = count + (won > 0)
            _settle(bench, key, _rivals(sent, tokens), before, lost)
        total = _count(bench.standing(key))
        if wins > total:
            bench.note(f"{wins} increments were acknowledged, the counter is at {total}")
        if bench.rounds_bad == 0:
            bench.judged(_lost_update(total, reached))
        return _conclude(bench)

    return run


def _count(token: str | None) -> int:
    """The counter's number in its object, 0 where there is none."""
    number = (token or "0").split(".")[0]
    if not number.isdecimal():
        raise Broken(f"the counter holds {token!r}, which nobody wrote")
    return int(number)


def _lost_update(count: int, reached: int) -> str | None:
    """The violation in a counter that is below the last acknowledged increment."""
    if count >= reached:
        return None
    return f"increment {reached} was acknowledged, and later the counter is at {count}"


def racing_completes(matching: bool) -> Callable[[Bench], str]:
    """Completions of as many uploads of one key, create-only or over the same version."""

    def run(bench: Bench) -> str:
        clients = bench.threads
        for number in bench.rounds():
            key = bench.key("complete")
            tokens = _tokens(bench, clients, number)
            before = "before" if matching else None
            when: ask.Condition = Matches(bench.put(key, "before")) if matching else ABSENT
            begun = _begin_all(bench, key, tokens)
            sent = bench.together(clients, [each(when) for each in begun])
            _settle(bench, key, _rivals(sent, tokens), before)
            _abandon(bench, begun, sent)
        return _conclude(bench)

    return run


def puts_against_completes(bench: Bench) -> str:
    """Half put, half complete an upload, all create-only: one lock must cover both."""
    clients = bench.threads
    for number in bench.rounds():
        key = bench.key("create")
        tokens = _tokens(bench, clients, number)
        # Turns change every round: the client that is released first must not always do the same.
        first = number % 2
        begun = _begin_all(bench, key, tokens[first::2])
        requests: list[ask.Request[ask.Reply]] = [
            ask.Put(key, body_of(token, bench.plan.body_bytes), ABSENT) for token in tokens
        ]
        requests[first::2] = [each(ABSENT) for each in begun]
        sent = bench.together(clients, requests)
        _settle(bench, key, _rivals(sent, tokens), None)
        _abandon(bench, begun, sent[first::2])
    return _conclude(bench)


def puts_against_deletes(bench: Bench) -> str:
    """Half delete and half replace the same version: a delete must not remove what came after it."""
    clients = bench.threads
    key = bench.key("model")
    etag = bench.put(key, "first")
    offered(lambda: bench.store.delete(key, when=Matches(etag)), "an if-match delete")
    lenient = deletes_missing(bench)
    for number in bench.rounds():
        key = bench.key("contested")
        etag = bench.put(key, "before")
        tokens = [
            None if (at + number) % 2 else token for at, token in enumerate(_tokens(bench, clients, number))
        ]
        sent = bench.together(clients, [_put_or_delete(bench, key, token, etag) for token in tokens])
        _settle(bench, key, _without_echoes(_rivals(sent, tokens), lenient), "before")
    return _conclude(bench)


def _put_or_delete(bench: Bench, key: str, token: str | None, etag: str) -> ask.Request[ask.Reply]:
    if token is None:
        return ask.Delete(key, Matches(etag))
    return ask.Put(key, body_of(token, bench.plan.body_bytes), Matches(etag))


def _without_echoes(rivals: Sequence[Rival], lenient: bool) -> list[Rival]:
    """Where deleting what is gone is answered `done`, only the first delete can be answered so."""
    first = next((rival for rival in rivals if rival.token is None and rival.outcome is Outcome.DONE), None)
    return [
        rival
        for rival in rivals
        if not (lenient and rival.token is None and rival.outcome is Outcome.DONE and rival is not first)
    ]


def _tokens(bench: Bench, clients: Clients, number: int) -> list[str]:
    return [f"{name}.{number}" for name in bench.rivals(clients)]


def _rivals(sent: Sequence[Sent], tokens: Sequence[str | None]) -> list[Rival]:
    return [Rival(one.worker, token, one.outcome) for one, token in zip(sent, tokens, strict=True)]


def _settle(
    bench: Bench, key: str, rivals: Sequence[Rival], before: str | None, earlier: str | None = None
) -> None:
    """Judge one round; `earlier` is a violation that it began with."""
    outcomes = [rival.outcome for rival in rivals]
    if Outcome.DONE not in outcomes:
        bench.count("rounds without a winner")
    for outcome in (Outcome.UNKNOWN, Outcome.CONFLICT, Outcome.THROTTLED):
        bench.count(f"answers {outcome.value}", outcomes.count(outcome))
    violation = judge(rivals, before, bench.standing(key))
    bench.judged(earlier or violation)


def _conclude(bench: Bench) -> str:
    """A race without any winner shows nothing."""
    evidence = bench.conclude()
    if bench.counts["rounds without a winner"] == bench.rounds_done:
        raise Inconclusive("nobody ever won a round")
    return f"{evidence}, up to {bench.rivals_max} rivals"


def _begin_all(bench: Bench, key: str, tokens: Sequence[str]) -> list[Begun]:
    """As many uploads of one key, each of one part."""
    started = offered(lambda: bench.in_bulk([ask.CreateUpload(key)] * len(tokens)), "multipart upload")
    uploads = [reply.upload for reply in started]
    parts = bench.in_bulk(
        [
            ask.UploadPart(key, upload, 1, body_of(token))
            for upload, token in zip(uploads, tokens, strict=True)
        ]
    )
    return [Begun(key, upload, (part.etag,)) for upload, part in zip(uploads, parts, strict=True)]


def _abandon(bench: Bench, begun: Sequence[Begun], sent: Sequence[Sent]) -> None:
    """Abort the losers' uploads; what fails here is the sweep's to do."""
    losers = [each for each, one in zip(begun, sent, strict=True) if one.outcome is not Outcome.DONE]
    try:
        bench.quiet().send_all([ask.AbortUpload(each.key, each.upload) for each in losers])
    except StoreError:
        bench.note("an upload could not be aborted at once")

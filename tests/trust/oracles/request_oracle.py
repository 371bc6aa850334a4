"""All endings of a random program of requests, by trying every step and every fault.

It shares nothing with the world: a state is a few tuples, and a request is an entry in a dictionary. See
`request_programs` for the language.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.trust.oracles.request_programs import FAULTS, Code, Op, RequestProgram, is_true, value_of

TICK_S = 1
PAUSE_S = 60
SEED_OF_UPLOADS = -1


class TooMany(Exception):
    """The program has more states than may be enumerated."""


class Object(NamedTuple):
    """An object in the store; its ETag is a function of the first two."""

    body: str
    how: str
    """`put`, or `upload`: an upload has another ETag than a put of the same bytes."""
    number: int
    """Of the write; 0 unless the program has uploads."""


class Process(NamedTuple):
    state: str
    """running, done or down."""
    todo: Code
    replies: tuple[Any, ...]
    tags: tuple[Any, ...]
    """Names of replies with the body and the kind of object that they read."""
    part: Any
    """Progress of the operation that is under way."""
    until: int
    """Time at which a sleep ends."""
    began: int
    """Time of the last `begin`, or -1."""
    taken: int
    """Steps of a daemon."""


class State(NamedTuple):
    objects: tuple[tuple[str, Object], ...]
    uploads: tuple[tuple[int, tuple[str, str | None, int]], ...]
    """By number: the key, the part, and the number of the object that was there at the beginning."""
    writes: int
    """Number of writes so far, if the program has uploads."""
    processes: tuple[Process, ...]
    notes: tuple[tuple[str, tuple[str, ...]], ...]
    flights: tuple[tuple[int, Op], ...]
    """Requests whose sender gave up, with the sender."""
    left: tuple[int, ...]
    """Number of faults of each kind that may still happen."""
    clock: int
    ticks: int


def frozen(values: dict[Any, Any]) -> tuple[Any, ...]:
    return tuple(sorted(values.items(), key=repr))


class RequestOracle:
    """Enumerates the states of a program."""

    def __init__(self, program: RequestProgram, states_max: int = 60_000) -> None:
        self.program = program
        self.states_max = states_max
        self.numbered = program.feature == "upload"
        self.timed = program.feature == "deadline"
        self.states = 0
        limits = {op[2] for code in program.processes for op in code if op[0] == "over"}
        self.pauses = sorted(limits | {PAUSE_S})

    def endings(self) -> set[Any]:
        program = self.program
        kinds = [*FAULTS, "pause"]
        codes = [*program.processes, *([program.daemon] if program.daemon else [])]
        state = State(
            objects=frozen({key: Object(body, "put", 0) for key, body in program.start.items()}),
            uploads=(),
            writes=0,
            processes=tuple(self._fresh(code) for code in codes),
            notes=(),
            flights=(),
            left=tuple(program.faults.get(kind, 0) for kind in kinds),
            clock=0,
            ticks=1 if self.timed else 0,
        )
        found: set[Any] = set()
        met = {state}
        waiting = [state]
        while waiting:
            state = waiting.pop()
            if self._is_over(state):
                found.add(self._ending(state))
                continue
            for after in self._successors(state):
                if after not in met:
                    met.add(after)
                    waiting.append(after)
            if len(met) > self.states_max:
                raise TooMany
        self.states = len(met)
        return found

    def _fresh(self, code: Code) -> Process:
        return Process("running", code, (), (), None, 0, -1, 0)

    def _is_daemon(self, index: int) -> bool:
        return index >= len(self.program.processes)

    def _is_over(self, state: State) -> bool:
        ended = all(process.state != "running" for process in state.processes[: len(self.program.processes)])
        return ended and all(self._is_daemon(sender) for sender, _ in state.flights)

    def _ending(self, state: State) -> Any:
        return (
            tuple((key, found.body) for key, found in state.objects),
            tuple(
                process.replies if process.state == "done" else process.state
                for process in state.processes[: len(self.program.processes)]
            ),
            state.notes,
        )

    # Steps.

    def _successors(self, state: State) -> Iterator[State]:
        for at, (sender, request) in enumerate(state.flights):
            rest = state._replace(flights=state.flights[:at] + state.flights[at + 1 :])
            yield rest
            yield self._answered(rest, request, sender)[0]
        if self.timed:
            yield from self._later(state)
        for index, process in enumerate(state.processes):
            if process.state == "running" and process.until <= state.clock:
                if self._is_daemon(index) and process.taken >= self.program.daemon_steps:
                    continue
                yield from self._crashed(state, index)
                yield from self._stepped(state, index)

    def _later(self, state: State) -> Iterator[State]:
        if state.ticks:
            yield state._replace(clock=state.clock + TICK_S, ticks=state.ticks - 1)
        paused = self._spent(state, "pause")
        if paused is not None:
            for seconds in self.pauses:
                yield paused._replace(clock=state.clock + seconds)
        ends = [process.until for process in state.processes if process.until > state.clock]
        if ends:
            yield state._replace(clock=min(ends))

    def _spent(self, state: State, fault: str) -> State | None:
        """Return the state with one fault of this kind less; a reply and a request share a limit."""
        kinds = [*FAULTS, "pause"]
        left = dict(zip(kinds, state.left, strict=True))
        if not left[fault]:
            return None
        shared = ("reply_lost", "request_lost")
        most = max(left[kind] for kind in shared) - 1
        left[fault] -= 1
        if fault in shared:
            left.update({kind: min(left[kind], most) for kind in shared})
        return state._replace(left=tuple(left.values()))

    def _with(self, state: State, index: int, process: Process) -> State:
        processes = state.processes
        return state._replace(processes=(*processes[:index], process, *processes[index + 1 :]))

    def _crashed(self, state: State, index: int) -> Iterator[State]:
        after = self._spent(state, "crash")
        if after is None or self._is_daemon(index):
            return
        if self.program.restarts[index]:
            yield self._with(after, index, self._fresh(self.program.processes[index]))
        else:
            yield self._with(after, index, self._fresh(())._replace(state="down"))

    def _settled(self, process: Process) -> Process:
        """Return the process with its branches resolved: they are no steps."""
        todo, replies = process.todo, dict(process.replies)
        while todo and todo[0][0] == "if":
            _, name, test, then, otherwise = todo[0]
            todo = (*(then if is_true(test, replies.get(name)) else otherwise), *todo[1:])
        return process._replace(todo=todo)

    def _stepped(self, state: State, index: int) -> Iterator[State]:
        process = self._settled(state.processes[index])
        if self._is_daemon(index):
            if not process.todo:
                begun = self._fresh(self.program.daemon)._replace(taken=process.taken)
                process = self._settled(begun)
            process = process._replace(taken=process.taken + 1)
        if not process.todo:
            yield self._with(
                state, index, process._replace(state="done", tags=(), part=None, until=0, began=-1)
            )
            return
        verb, *given = process.todo[0]
        after = process._replace(todo=process.todo[1:])
        match verb:
            case "note":
                topic, value = given
                notes = dict(state.notes)
                notes[topic] = (*notes.get(topic, ()), value_of(value, dict(process.replies)))
                yield self._with(state._replace(notes=frozen(notes)), index, after)
            case "sleep":
                yield self._with(state, index, after._replace(until=state.clock + given[0]))
            case "begin":
                yield self._with(state, index, after._replace(began=state.clock))
            case "over":
                name, seconds = given
                over = process.began >= 0 and state.clock - process.began >= seconds
                yield self._with(state, index, self._replied(after, {name: (over,)}))
            case "request":
                yield from self._one_request(state, index, process, after, *given)
            case "uploads":
                name, prefix = given
                yield from self._one_request(state, index, process, after, name, ("uploads", prefix))
            case "together":
                yield from self._parallel(state, index, process, after, given[0])
            case "upload":
                yield from self._upload(state, index, process, after, *given)

    def _replied(
        self, process: Process, replies: dict[str, Any], tags: dict[str, Any] | None = None
    ) -> Process:
        return process._replace(
            replies=frozen(dict(process.replies) | replies),
            tags=frozen(dict(process.tags) | (tags or {})),
            part=None,
        )

    # Requests.

    def _one_request(
        self, state: State, index: int, process: Process, after: Process, name: str, request: Op
    ) -> Iterator[State]:
        again = process.part == "again"
        for reached, reply, tag in self._outcomes(state, index, process, request, faults=not again):
            yield self._with(
                reached, index, self._replied(after, {name: reply}, {name: tag} if tag else None)
            )
        if not again and request[0] in ("put", "delete"):
            twice = self._spent(state, "duplicated")
            if twice is not None:
                landed = self._answered(twice, self._bound(request, process), index)[0]
                yield self._with(landed, index, process._replace(part="again"))

    def _parallel(
        self, state: State, index: int, process: Process, after: Process, sent: tuple[tuple[str, Op], ...]
    ) -> Iterator[State]:
        answered = dict(process.part or ())
        for name, request in sent:
            if name in answered:
                continue
            for reached, reply, tag in self._outcomes(state, index, process, request):
                known = answered | {name: (reply, tag)}
                if len(known) < len(sent):
                    yield self._with(reached, index, process._replace(part=frozen(known)))
                else:
                    replies = {name: reply for name, (reply, _) in known.items()}
                    tags = {name: tag for name, (_, tag) in known.items() if tag}
                    yield self._with(reached, index, self._replied(after, replies, tags))

    def _outcomes(
        self, state: State, index: int, process: Process, request: Op, *, faults: bool = True
    ) -> Iterator[tuple[State, Any, Any]]:
        """Return each state that the request may lead to, its reply, and the object that the reply shows."""
        bound = self._bound(request, process)
        yield self._answered(state, bound, index)
        if not faults:
            return
        silent = ("get", "list")
        unknown: tuple[Any, ...] = ("unknown", None) if request[0] in silent else ("unknown",)
        reads = request[0] in ("get", "head", "list", "uploads")
        conditional = request[0] in ("put", "delete", "complete") and bound[-1] != "ANY"
        lost = self._spent(state, "reply_lost")
        if lost is not None:
            yield self._answered(lost, bound, index)[0], unknown, None
        if not reads:
            lost = self._spent(state, "request_lost")
            if lost is not None:
                yield lost, unknown, None
            late = self._spent(state, "late")
            if late is not None:
                flights = tuple(sorted((*late.flights, (index, bound)), key=repr))
                yield late._replace(flights=flights), unknown, None
        if conditional:
            refused = self._spent(state, "conflict")
            if refused is not None:
                yield refused, ("conflict",), None
        throttled = self._spent(state, "throttled")
        if throttled is not None:
            yield throttled, (("throttled", None) if request[0] in silent else ("throttled",)), None

    def _bound(self, request: Op, process: Process) -> Op:
        """Return the request with the values that it has when it is sent."""
        tags = dict(process.tags)

        def condition(given: Any) -> Any:
            return given if isinstance(given, str) else ("match", tags.get(given[1]))

        match request:
            case ("put", key, value, given):
                return ("put", key, value_of(value, dict(process.replies)), condition(given))
            case ("delete" | "complete", *rest, given):
                return (request[0], *rest, condition(given))
        return request

    def _refusal(self, state: State, key: str, condition: Any) -> str | None:
        found = dict(state.objects).get(key)
        if condition == "ANY":
            return None
        if condition == "ABSENT":
            return "exists" if found else None
        if found is None:
            return "missing"
        return None if condition[1] == (found.body, found.how) else "changed"

    def _answered(self, state: State, request: Op, index: int) -> tuple[State, Any, Any]:
        """Return the state after a request landed, the reply, and the object that the reply shows."""
        objects, uploads = dict(state.objects), dict(state.uploads)
        match request:
            case ("get", key):
                found = objects.get(key)
                return (
                    (state, ("done", found.body), (found.body, found.how))
                    if found
                    else (state, ("missing", None), None)
                )
            case ("head", key):
                return state, ("done" if key in objects else "missing",), None
            case ("list", prefix):
                return state, ("done", ",".join(sorted(k for k in objects if k.startswith(prefix)))), None
            case ("uploads", prefix):
                return state, (sum(key.startswith(prefix) for key, _, _ in uploads.values()),), None
            case ("delete", key, condition):
                refusal = self._refusal(state, key, condition)
                if refusal:
                    return state, (refusal,), None
                objects.pop(key, None)
                return state._replace(objects=frozen(objects)), ("done",), None
            case ("put", key, body, condition):
                refusal = self._refusal(state, key, condition)
                return (
                    (state, (refusal,), None)
                    if refusal
                    else (self._put(state, key, body, "put"), ("done",), None)
                )
            case ("create", number, key):
                standing = objects[key].number if key in objects else SEED_OF_UPLOADS
                uploads[number] = (key, None, standing)
                return state._replace(uploads=frozen(uploads)), ("done",), None
        number = request[1]
        if number not in uploads:
            return state, ("gone",), None
        key, part, standing = uploads.pop(number)
        match request:
            case ("part", _, body):
                uploads[number] = (key, body, standing)
                return state._replace(uploads=frozen(uploads)), ("done",), None
            case ("complete", _, condition):
                refusal = self._refusal(state, key, condition)
                present = objects[key].number if key in objects else SEED_OF_UPLOADS
                if not refusal and condition != "ANY" and present != standing:
                    refusal = "conflict"  # something was written during the upload
                if refusal:
                    return state, (refusal,), None
                assert part is not None
                state = self._put(state, key, part, "upload")
        return state._replace(uploads=frozen(uploads)), ("done",), None

    def _put(self, state: State, key: str, body: str, how: str) -> State:
        writes = state.writes + 1 if self.numbered else 0
        objects = dict(state.objects) | {key: Object(body, how, writes)}
        return state._replace(objects=frozen(objects), writes=writes)

    def _upload(
        self,
        state: State,
        index: int,
        process: Process,
        after: Process,
        name: str,
        key: str,
        body: str,
        condition: Any,
        aborts: bool,
    ) -> Iterator[State]:
        stage, number, *again = process.part or ("create", self._unused(state))
        requests: dict[str, tuple[Op, str]] = {
            "create": (("create", number, key), "part"),
            "part": (("part", number, body), "abort" if aborts else "complete"),
            "complete": (("complete", number, condition), ""),
            "abort": (("abort", number), ""),
        }
        request, following = requests[stage]
        twice = None if again else self._spent(state, "duplicated")
        if twice is not None:
            landed = self._answered(twice, self._bound(request, process), index)[0]
            repeated = self._unused(landed) if stage == "create" else number  # the first one stays open
            yield self._with(landed, index, process._replace(part=(stage, repeated, "again")))
        for reached, reply, _ in self._outcomes(state, index, process, request, faults=not again):
            if reply == ("done",) and following:
                yield self._with(reached, index, process._replace(part=(following, number)))
            else:
                yield self._with(reached, index, self._replied(after, {name: reply}))

    def _unused(self, state: State) -> int:
        """Return a number that no upload, sender or request in flight has."""
        used = {number for number, _ in state.uploads}
        used |= {
            process.part[1] for process in state.processes if type(process.part) is tuple and process.part
        }
        used |= {
            request[1]
            for _, request in state.flights
            if request[0] in ("create", "part", "complete", "abort")
        }
        return max(used, default=0) + 1

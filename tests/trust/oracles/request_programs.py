"""Random programs of store requests, as data, and their interpreter on the store interface.

A program has two or three processes. A process is a list of operations, which are tuples:

    ("request", name, request)                      one request; its reply is kept under the name
    ("together", ((name, request), ...))            a parallel step
    ("upload", name, key, body, condition, aborts)  a multipart upload of one part
    ("uploads", name, prefix)                       number of uploads below a prefix
    ("if", name, test, operations, operations)      a branch by an earlier reply
    ("note", topic, value)
    ("sleep", seconds)
    ("begin",) and ("over", name, seconds)          a deadline: True if so many seconds have passed since

    ("get", key)  ("head", key)  ("list", prefix)  ("put", key, value, condition)  ("delete", key, condition)

A condition is `ANY`, `ABSENT`, or ("match", name): the ETag that an earlier get returned. A value is
("literal", text) or ("append", name): the body that an earlier get returned, with a letter more.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from fencepost.impl.store import ABSENT, ANYTHING, Matches
from fencepost.impl.store import requests as req
from fencepost.sim.world import Budget, World

Op = tuple[Any, ...]
Code = tuple[Op, ...]

FAULTS = ("crash", "reply_lost", "request_lost", "late", "conflict", "throttled", "duplicated")
KEYS = ("a", "b", "c/d")
FEATURES = ("plain", "plain", "upload", "together", "notes", "deadline", "daemon")
LIVES = 2
"""A process starts at most once again: no budget here has more than one crash."""
SECOND = 1_000_000_000
NO_ETAG = "0" * 32


@dataclass(frozen=True)
class RequestProgram:
    """A random program with the faults that it meets."""

    processes: tuple[Code, ...]
    restarts: tuple[bool, ...]
    daemon: Code = ()
    """Operations that a further process repeats until the others have ended."""
    daemon_steps: int = 0
    start: dict[str, str] = field(default_factory=dict)
    """Objects that are there at first."""
    faults: dict[str, int] = field(default_factory=dict)
    feature: str = "plain"

    @property
    def budget(self) -> Budget:
        return Budget(**({"pause": 0} | dict.fromkeys(FAULTS, 0) | self.faults))


class Draw:
    """Draws operations of one process: later ones use the replies to earlier ones."""

    def __init__(self, random: Random, feature: str, keys: tuple[str, ...]) -> None:
        self.random = random
        self.feature = feature
        self.keys = keys

    def code(self, length: int, kinds: dict[str, str], *, branches: bool = True) -> Code:
        """Return operations; `kinds` has the kind of each reply so far, and is extended."""
        found: list[Op] = []
        while length > 0:
            length -= 1
            chance = self.random.random()
            name = f"r{len(kinds)}"
            if self.feature == "upload" and chance < 0.45:
                if chance < 0.1:
                    kinds[name] = "number"
                    found.append(("uploads", name, self.random.choice(["", "c/"])))
                else:
                    found.append(self._upload(name, kinds))
                    length -= 1
            elif self.feature == "together" and chance < 0.4:
                found.append(self._together(kinds))
                length -= 1
            elif self.feature == "notes" and chance < 0.25:
                found.append(
                    (
                        "note",
                        self.random.choice("tu"),
                        self.random.choice([("literal", "n"), self._value(kinds)]),
                    )
                )
            elif self.feature == "deadline" and chance < 0.5:
                found.append(self._timed(name, kinds))
            elif branches and kinds and chance < 0.6:
                found.append(self._branch(kinds))
            else:
                request = self._request(kinds)
                kinds[name] = request[0]
                found.append(("request", name, request))
        return tuple(found)

    def _timed(self, name: str, kinds: dict[str, str]) -> Op:
        chance = self.random.random()
        if chance < 0.4:
            return ("sleep", self.random.choice([1, 5]))
        if chance < 0.7:
            return ("begin",)
        kinds[name] = "over"
        return ("over", name, self.random.choice([1, 3, 5]))

    def _upload(self, name: str, kinds: dict[str, str]) -> Op:
        key = self.random.choice(self.keys)
        condition = self._condition(kinds, deletes=False)
        kinds[name] = "upload"
        return ("upload", name, key, self.random.choice("pq"), condition, self.random.random() < 0.25)

    def _together(self, kinds: dict[str, str]) -> Op:
        sent = []
        known = dict(kinds)
        for _ in range(2):
            request = self._request(known)
            name = f"r{len(kinds)}"
            kinds[name] = request[0]
            sent.append((name, request))
        return ("together", tuple(sent))

    def _branch(self, kinds: dict[str, str]) -> Op:
        name = self.random.choice(list(kinds))
        tests = {"get": ["done", "not done", "old body"], "over": ["true"], "number": ["true"]}
        test = self.random.choice(tests.get(kinds[name], ["done"]))
        sides = [self.code(self.random.choice([0, 1]), dict(kinds), branches=False) for _ in range(2)]
        return ("if", name, test, *sides)

    def _request(self, kinds: dict[str, str]) -> Op:
        key = self.random.choice(self.keys)
        chance = self.random.random()
        if chance < 0.3:
            return ("get", key)
        if chance < 0.38:
            return ("head", key)
        if chance < 0.72:
            return ("put", key, self._value(kinds), self._condition(kinds, deletes=False))
        if chance < 0.87:
            return ("delete", key, self._condition(kinds, deletes=True))
        return ("list", self.random.choice(["", "a", "c/"]))

    def _value(self, kinds: dict[str, str]) -> Op:
        read = [name for name, kind in kinds.items() if kind == "get"]
        if read and self.random.random() < 0.4:
            return ("append", self.random.choice(read))
        return ("literal", self.random.choice("xyz"))

    def _condition(self, kinds: dict[str, str], *, deletes: bool) -> Any:
        chance = self.random.random()
        if chance < 0.35:
            return "ANY"
        if chance < 0.65 and not deletes:
            return "ABSENT"
        read = [name for name, kind in kinds.items() if kind == "get"]
        if read:
            return ("match", self.random.choice(read))
        return "ANY" if deletes else "ABSENT"


def random_program(seed: int) -> RequestProgram:
    random = Random(seed)
    feature = random.choice(FEATURES)
    draw = Draw(random, feature, KEYS[: random.choice([1, 2, 2, 3])])
    count = random.choice([2, 2, 2, 3])
    lengths = [1, 2, 2, 3] if count == 2 else [1, 1, 2]
    processes = [draw.code(random.choice(lengths), {}) for _ in range(count)]
    if random.random() < 0.4:
        processes[1] = processes[0]
    daemon: Code = ()
    if feature == "daemon":
        daemon = draw.code(random.choice([1, 2]), {}, branches=False)
        processes.pop()
    faults = dict.fromkeys(random.sample(FAULTS, random.choice([0, 1, 1, 2])), 1)
    if feature == "deadline" and random.random() < 0.3:
        faults["pause"] = 1
    left_out = {"together": ("crash", "duplicated"), "daemon": ("crash",)}
    for name in left_out.get(feature, ()):
        faults.pop(name, None)  # not part of the oracle
    return RequestProgram(
        tuple(processes),
        tuple(random.random() < 0.6 for _ in processes),
        daemon,
        random.choice([1, 2, 3]),
        {key: random.choice("xyz01") for key in draw.keys if random.random() < 0.5},
        faults,
        feature,
    )


def is_true(test: str, reply: Any) -> bool:
    """Return the value of a test of a branch; a reply that is not there fails every test but `not done`."""
    if reply is None:
        return test == "not done"
    if test == "true":
        return reply[0] not in (False, 0)
    if test == "old body":
        return len(reply) > 1 and reply[1] in ("x", "0", "1")
    return (reply[0] == "done") is (test == "done")


def value_of(value: Op, replies: dict[str, Any]) -> str:
    if value[0] == "literal":
        return str(value[1])
    reply = replies.get(value[1])
    body = reply[1] if reply and len(reply) > 1 and reply[1] is not None else ""
    return (body + "i")[-3:]


class Interpreter:
    """Runs the operations of one process; returns all replies, so that endings distinguish orders."""

    def __init__(self, world: World, store: Any) -> None:
        self.world = world
        self.store = store
        self.replies: dict[str, Any] = {}
        self.etags: dict[str, str] = {}
        self.began_ns: int | None = None

    def run(self, code: Code) -> tuple[Any, ...]:
        self._run(code)
        return tuple(sorted(self.replies.items()))

    def repeat(self, code: Code) -> None:
        """Run for ever, as a daemon."""
        while True:
            self.replies, self.etags = {}, {}
            self._run(code)

    def _run(self, code: Code) -> None:
        for verb, *given in code:
            match verb:
                case "request":
                    name, request = given
                    self._keep(name, request, self._send(request))
                case "together":
                    self._together(given[0])
                case "upload":
                    name, *upload = given
                    self.replies[name] = (str(self._upload(*upload)),)
                case "uploads":
                    name, prefix = given
                    page = self.store.list_uploads(prefix)
                    self.replies[name] = (len(page.uploads),) if page.done else (str(page.outcome),)
                case "note":
                    topic, value = given
                    self.world.note(topic, value_of(value, self.replies))
                case "if":
                    name, test, then, otherwise = given
                    self._run(then if is_true(test, self.replies.get(name)) else otherwise)
                case "sleep":
                    self.store.env.sleep(given[0])
                case "begin":
                    self.began_ns = self.store.env.now_ns()
                case "over":
                    name, seconds = given
                    passed_ns = self.store.env.now_ns() - (self.began_ns or 0)
                    self.replies[name] = (self.began_ns is not None and passed_ns >= seconds * SECOND,)

    def _condition(self, condition: Any) -> Any:
        if condition == "ANY":
            return ANYTHING
        return ABSENT if condition == "ABSENT" else Matches(self.etags.get(condition[1], NO_ETAG))

    def _built(self, request: Op) -> Any:
        match request:
            case ("get", key):
                return req.Get(key)
            case ("head", key):
                return req.Head(key)
            case ("list", prefix):
                return req.List(prefix)
            case ("put", key, value, condition):
                return req.Put(key, value_of(value, self.replies).encode(), self._condition(condition))
            case ("delete", key, condition):
                return req.Delete(key, self._condition(condition))
        raise AssertionError(request)

    def _send(self, request: Op) -> Any:
        match request:
            case ("get", key):
                return self.store.get(key)
            case ("head", key):
                return self.store.head(key)
            case ("list", prefix):
                return self.store.list(prefix)
            case ("put", key, value, condition):
                return self.store.put(
                    key, value_of(value, self.replies).encode(), when=self._condition(condition)
                )
            case ("delete", key, condition):
                return self.store.delete(key, when=self._condition(condition))
        raise AssertionError(request)

    def _keep(self, name: str, request: Op, reply: Any) -> None:
        outcome = str(reply.outcome)
        if request[0] == "get":
            self.replies[name] = (outcome, reply.body.decode() if reply.done else None)
            if reply.done:
                self.etags[name] = reply.info.etag
        elif request[0] == "list":
            keys = ",".join(found.key for found in reply.objects)
            self.replies[name] = (outcome, keys if reply.done else None)
        else:
            self.replies[name] = (outcome,)

    def _together(self, sent: tuple[tuple[str, Op], ...]) -> None:
        replies = self.store.send_all([self._built(request) for _, request in sent])
        for (name, request), reply in zip(sent, replies, strict=True):
            self._keep(name, request, reply)

    def _upload(self, key: str, body: str, condition: Any, aborts: bool) -> Any:
        upload = self.store.create_upload(key)
        if not upload.done:
            return upload.outcome
        part = self.store.upload_part(key, upload.upload, 1, body.encode())
        if not part.done:
            return part.outcome
        if aborts:
            return self.store.abort_upload(key, upload.upload).outcome
        parts = [(1, part.etag)]
        return self.store.complete_upload(key, upload.upload, parts, when=self._condition(condition)).outcome


def declared(program: RequestProgram, world: World) -> None:
    """Set a world up to run this program."""
    store = world.store()
    world.configure(daemon_steps=program.daemon_steps or 1)
    if program.feature != "deadline":
        world.configure(ticks=0)
    for key, body in program.start.items():
        store.put(key, body.encode(), when=ANYTHING)
    for number, code in enumerate(program.processes):
        interpreter = _Fresh(world, store, code)
        world.spawn(interpreter, name=f"p{number}", restart=program.restarts[number])
    if program.daemon:
        world.spawn(lambda: Interpreter(world, store).repeat(program.daemon), name="daemon", daemon=True)


@dataclass(frozen=True)
class _Fresh:
    """A process that starts each life with no memory."""

    world: World
    store: Any
    code: Code

    def __call__(self) -> tuple[Any, ...]:
        return Interpreter(self.world, self.store).run(self.code)


def ending_of(program: RequestProgram, world: World) -> Any:
    """Return the objects, the replies of each process that ended, and the notes by topic."""
    return (
        tuple(sorted((key, body.decode()) for key, body in world.bucket.contents().items())),
        tuple(
            process.result if process.state == "done" else process.state
            for process in world.processes[: len(program.processes)]
        ),
        tuple((topic, tuple(value for _, value in notes)) for topic, notes in sorted(world.noted.items())),
    )

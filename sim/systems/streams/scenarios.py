"""The scenarios of streams, each small enough to be explored to its end, and the program that sets one up."""

from collections.abc import Callable, Sequence
from functools import partial

from fencepost.impl.store.errors import Misuse
from fencepost.impl.streams import STANDARD, MemoryState, Node, Reaper, Safeguards, StreamError
from fencepost.impl.streams.manifest import Manifest, trace_fields
from fencepost.impl.streams.stream import Accepted
from fencepost.sim.systems.lockstep import prepare_world
from fencepost.sim.systems.streams.run import (
    EXPIRING,
    NAME,
    NEW,
    OLD,
    READERS,
    SETTINGS,
    TTL_S,
    ScenarioRun,
    declare_checks,
)
from fencepost.sim.world import World

Setup = Callable[[ScenarioRun], None]


def _founded(
    run: ScenarioRun, *, expiring: bool = False, deleted: bool = False, more: Sequence[bytes] = ()
) -> Manifest:
    """A stream with `old` in it, and more."""

    def act(node: Node) -> None:
        node.create(NAME, EXPIRING if expiring else OLD)
        for body in (b"old", *more):
            node.append(NAME, body, content_type="text/old")
        if deleted:
            node.delete(NAME)

    manifest = run.found(act)
    if deleted:
        run.ended.append(manifest.incarnation)
    return manifest


def owners(run: ScenarioRun) -> None:
    """Two nodes append to one stream: each takes it over from the other."""
    _founded(run)
    for name in ("ann", "bob"):
        run.world.spawn(
            _appends, run, name[:1].encode(), None, "text/old", name == "ann", name=name, restart=False
        )


def _appends(
    run: ScenarioRun,
    body: bytes,
    producer: tuple[str, int, int] | None,
    kind: str,
    warm: bool,
) -> None:
    node, _ = run.node(warm=warm)
    run.append(node, body, producer, kind)


def zombie(run: ScenarioRun) -> None:
    """Two incarnations of one producer at two nodes; the earlier one sends its append again after a crash."""
    _founded(run)
    for epoch, name in enumerate(("ann", "bob")):
        producer, early = ("producer", epoch, 0), epoch == 0
        run.world.spawn(_appends, run, b"p%d" % epoch, producer, "text/old", early, name=name, restart=early)


def reading(run: ScenarioRun) -> None:
    """A node that takes a stream over and appends, beside a reader of another node."""
    _founded(run)
    run.world.spawn(_appends, run, b"a", None, "text/old", False, name="ann", restart=False)

    def read() -> None:
        node, _ = run.node()
        run.read(node, 2)

    run.world.spawn(read, name="reader", restart=False)


def reaped(run: ScenarioRun) -> None:
    """A deleted stream that two nodes reap: one has the row, the other finds it by the scan."""
    manifest = _founded(run, deleted=True)

    def resume() -> None:
        node, _ = run.node(row=manifest.incarnation)
        run.reap(node, manifest.incarnation)

    def sweep() -> None:
        node, _ = run.node()
        run.sweep(node)

    run.world.spawn(resume, name="ann", restart=False)
    run.world.spawn(sweep, name="bob", restart=False)


def stalled(run: ScenarioRun) -> None:
    """An owner that has not noticed appends to a stream while another node deletes and reaps it."""
    manifest = _founded(run)
    run.ended.append(manifest.incarnation)
    run.world.spawn(_appends, run, b"a", None, "text/old", True, name="ann", restart=False)

    def remove() -> None:
        node, _ = run.node()
        try:
            node.delete(NAME)
        except StreamError:
            return
        run.reap(node, manifest.incarnation)

    run.world.spawn(remove, name="bob", restart=False)


def recreated(run: ScenarioRun, *, rivals: bool = False) -> None:
    """A deleted name that a node creates anew and appends to, while another reaps or also creates it."""
    manifest = _founded(run, deleted=True)

    def create(body: bytes) -> None:
        node, _ = run.node()
        try:
            node.create(NAME, NEW)
        except StreamError:
            return
        if body:
            run.append(node, body, None, "text/new")

    def resume() -> None:
        node, _ = run.node(row=manifest.incarnation)
        run.reap(node, manifest.incarnation)

    run.world.spawn(create, b"a", name="ann", restart=False)
    if rivals:
        run.world.spawn(create, b"", name="cy", restart=False)
    else:
        run.world.spawn(resume, name="bob", restart=False)


def expired(run: ScenarioRun) -> None:
    """An append that is under way when the stream expires by every clock, and a node that reaps it."""
    manifest = _founded(run, expiring=True)
    run.ended.append(manifest.incarnation)
    run.world.spawn(_appends, run, b"a", None, "text/old", True, name="ann", restart=False)

    def sweep() -> None:
        node, _ = run.node(ahead_s=TTL_S + TTL_S / 10 + 2 * SETTINGS.skew_bound_s)
        run.sweep(node)
        run.sweep(node)

    run.world.spawn(sweep, name="bob", restart=False)


def skewed(run: ScenarioRun) -> None:
    """A node whose clock is ahead, within the bound, sweeps a stream that its owner still serves."""
    _founded(run, expiring=True)
    run.world.spawn(_appends, run, b"a", None, "text/old", True, name="ann", restart=False)

    def sweep() -> None:
        node, _ = run.node(ahead_s=TTL_S + TTL_S / 10 + SETTINGS.skew_bound_s)
        run.sweep(node)

    run.world.spawn(sweep, name="bob", restart=False)


def flagged(run: ScenarioRun) -> None:
    """One node deletes a stream while its own append is under way."""
    manifest = _founded(run)
    run.ended.append(manifest.incarnation)
    at = run.world.pick("delete before request", range(3))

    def live() -> None:
        node, watched = run.node(warm=True)
        watched.at = at
        watched.meanwhile = partial(_quietly, lambda: node.delete(NAME))
        run.append(node, b"a", None, "text/old")

    run.world.spawn(live, name="ann", restart=False)


def beside(run: ScenarioRun) -> None:
    """One node creates a deleted name anew while its own reap goes on."""
    manifest = _founded(run, deleted=True)
    at = run.world.pick("create before request", range(8))

    def live() -> None:
        node, watched = run.node(row=manifest.incarnation)

        def create() -> None:
            node.create(NAME, NEW)
            run.append(node, b"a", None, "text/new")
            node.state.flag(NAME, manifest.incarnation)  # the reap still has it

        watched.at = at
        watched.meanwhile = partial(_quietly, create)
        run.reap(node, manifest.incarnation, alone=True)

    run.world.spawn(live, name="ann", restart=False)


def indexed(run: ScenarioRun) -> None:
    """An append after which an index lists the oldest segments, and a node that takes the stream over and
    scans the prefix for what nothing lists."""
    _founded(run, more=(b"1", b"2", b"3"))
    run.world.spawn(_appends, run, b"a", None, "text/old", True, name="ann", restart=False)

    def scan() -> None:
        node, _ = run.node()

        def work() -> None:
            node.own(node.stream(NAME))
            Reaper(node).scan()

        _quietly(work)

    run.world.spawn(scan, name="bob", restart=False)


def disk(run: ScenarioRun) -> None:
    """A node answers after its local commit. Its disk is kept over a crash, which loses nothing that was
    answered; or it is lost, which loses nothing that was uploaded."""
    _founded(run)
    kept = run.world.pick("the disk is", ("kept", "lost")) == "kept"
    run.world.spawn(_commits, run, MemoryState() if kept else None, [b"a", b"b"], promised=kept, name="ann")


def overtaken(run: ScenarioRun) -> None:
    """The same while another node takes the stream over: what was not uploaded is lost, and nothing else."""
    _founded(run)
    run.world.spawn(_commits, run, MemoryState(), [b"aa", b"b"], promised=False, name="ann")
    run.world.spawn(_appends, run, b"c", None, "text/old", False, name="bob", restart=False)


def _commits(run: ScenarioRun, kept: MemoryState | None, bodies: list[bytes], *, promised: bool) -> None:
    """Upload what an earlier start left; commit the next append, upload it. One try is enough where nothing
    is promised before."""
    first, tries = len(bodies) == 2, 3 if promised else 1
    node, _ = run.node(disk=MemoryState() if kept is None else kept, warm=first)
    if not first:
        run.upload(node, tries)
    done = run.sent(node, bodies.pop(0), None, "text/old")
    if done is not None and promised:
        run.world.note("acknowledged", done)
    if run.upload(node, tries) and done is not None and not promised:
        stream = node.stream(NAME)
        if Accepted(*stream.held, done.end).is_durable(stream.manifest, node.segments_after):
            run.world.note("acknowledged", done)


def _quietly(act: Callable[[], None]) -> None:
    try:
        act()
    except StreamError:
        return


SCENARIOS: dict[str, Setup] = {
    "owners": owners,
    "zombie": zombie,
    "reading": reading,
    "reaped": reaped,
    "stalled": stalled,
    "recreated": recreated,
    "rivals": partial(recreated, rivals=True),
    "expired": expired,
    "skewed": skewed,
    "flagged": flagged,
    "beside": beside,
    "indexed": indexed,
    "disk": disk,
    "overtaken": overtaken,
}
SMALL = ("owners", "reaped", "stalled", "recreated")
"""Those that one explores to the end while waiting, with a crash and a lost reply."""


def program(
    world: World,
    scenario: str = "small",
    lockstep: str = "on",
    coverage: str = "off",
    safeguards: Safeguards = STANDARD,
) -> None:
    """Streams as they ship, in one scenario: one of SCENARIOS, or `small`, which is the four small ones.

    The model follows every run unless `lockstep` is off; it never follows a mutant, whose own properties are
    to fail. With `coverage` the result has the share of the model's transitions that the runs drove.
    """
    if scenario not in (*SCENARIOS, "small"):
        raise Misuse(f"no scenario is called {scenario!r}; choose from small, {', '.join(SCENARIOS)}")
    product = safeguards == STANDARD
    followed = product and prepare_world(world, trace_fields, READERS, lockstep=lockstep, coverage=coverage)
    run = ScenarioRun(world, safeguards, followed=followed)
    world.configure(stamped=False)
    world.share_nothing()
    SCENARIOS[world.pick("scenario", SMALL) if scenario == "small" else scenario](run)
    declare_checks(run)

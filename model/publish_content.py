"""What a commit of publish contains: drafts that share a commit, branches, compaction, schemas, runs.

The machine of `model/publish.py` decides which plan commits, and never looks into one. Here a commit is one
step, because that machine shows it to be atomic, and what is modelled is the content: which rows a draft has
read and writes, and on what its plan is compared before the commit. There is a table of nodes with a counter
row and a node, and a table of edges with one edge, whose column may be declared to point at nodes. A draft is
one of these transactions:

    count                 reads the counter and adds one to it
    link, link-altered    add the edge; the second adds and drops a column afterwards, in the same transaction
    link-if               reads the nodes, and adds the edge because the node is there
    drop, drop-if         remove the node; the second has read the edges, and found none
    declare, undeclare    change the schema: the edge points at a node, or holds a plain value
    compact               rewrites the nodes as one run; it has no snapshot

A pin is the stamp of the commit that wrote the table, whose order is that of all commits. A draft keeps the
pins of the snapshot that it began on. The drafts of a group are planned one after another on the newest
manifest of the main branch, in one step of several labels (`planning`): planning sends no request. Other
writers, on both branches, act while the plan is `staged`: each publishes one draft on the newest manifest,
which is a plan and its commit in one step. A group that finds its expectations broken after its heads moved
undoes them: one more commit, which changes no row. Two groups at once add nothing: each is another writer to
the other, and the winner of the manifest could as well have been planned after the loser.

A table's rows are folded from its first run and from later ones, which a commit may merge into its own. A
lineage is the sequence of a table's versions: number 0 is that of the foundation, 1 that of the branch, 2
that of the main branch after a merge. `head` is the newest version of each.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from fencepost.model import *

BRANCHES = MAIN, DEV = 0, 1
TABLES = NODES, EDGES = 0, 1
OWN = {MAIN: 2, DEV: 1}
"""The lineage that a branch makes when it writes to one that belongs to the other."""
KINDS = ("count", "link", "link-altered", "link-if", "drop", "drop-if", "declare", "undeclare", "compact")
LINKS, DROPS, SCHEMA = ("link", "link-altered", "link-if"), ("drop", "drop-if"), ("declare", "undeclare")
READS = {NODES: ("count", "link-if"), EDGES: ("drop-if",)}
WRITES = {NODES: ("count", *DROPS, "compact"), EDGES: (*LINKS, *SCHEMA)}


class Rows(NamedTuple):
    """The visible content of a branch, or of a plan."""

    counter: Number
    node: Truth
    edge: Truth
    declared: Truth


def chosen(nodes: Truth, edges: Truth, one: Rows, other: Rows) -> Rows:
    """Of each table the rows of `one` where its condition holds, else those of `other`."""
    return Rows(
        pick(nodes, one.counter, other.counter),
        pick(nodes, one.node, other.node),
        pick(edges, one.edge, other.edge),
        pick(edges, one.declared, other.declared),
    )


class PublishContent(Machine):
    """What commits contain: drafts, groups, branches, compaction, schemas and runs."""

    # Constants.

    drafts = Size(2, most=4, doc="transactions in one run")

    safeguards: ClassVar = {
        "reads-checked-within-group": "a draft that read what an earlier one of its group changed is refused",
        "reads-compared-with-snapshot": "a draft that read or touched what has changed since is refused",
        "pins-across-branches": "a draft is compared by pins, also if it began on another branch",
        "reads-re-evaluated-on-retry": "tables that a plan read are compared on every new parent",
        "writes-re-evaluated-on-retry": "tables that a plan writes are compared on every new parent",
        "schema-re-evaluated-on-retry": "a plan that removes rows is refused when the schema changed",
        "integrity-on-final-rows": "edges are checked on the rows as the transaction leaves them",
        "integrity-within-group": "edges are checked on the rows as the earlier drafts leave them",
        "outbound-check-on-addition": "an edge that is added points at a node",
        "inbound-check-on-removal": "a node is not removed while an edge points at it",
        "compaction-preserves-rows": "compaction writes the rows that are visible, and no removed one",
        "merged-runs-keep-changes": "a run that replaces later runs holds their changes too",
        "fork-on-first-write": "a branch makes a lineage of its own for a table that belongs to another",
        "fast-forward-only": "a branch is merged only if the target has no commits of its own since",
    }

    # State: the branches, the drafts, the plan of the group.

    clock = Int(0, drafts)  # the stamp of the newest commit to a table
    dev = Enum("none", "there", "deleted")  # the second branch
    pin = Each(2, Each(2, Int(0, drafts)))  # by branch and table
    schema = Each(2, Int(0, drafts))  # the commit that changed keys, edges or columns last
    forked_at = Each(2, Int(0, drafts))  # the pins of the main branch that a merge may replace
    lineage = Each(2, Each(2, Int(0, 2)))
    head = Each(2, Each(3, Int(0, drafts)))  # by table and lineage
    counter = Each(2, Int(0, drafts))  # in the first run
    node = Each(2, Bool())  # in the first run
    later_counter = Each(2, Int(0, drafts))  # in later runs; 0 for none
    later_removal = Each(2, Bool())
    edge = Each(2, Bool())
    declared = Each(2, Bool())
    careless = Each(2, Bool())  # ghost: a row was linked or dropped without a check and without a read
    founded = Bool()
    at = Each(drafts, Enum("new", "open", "planned", "published", "refused"))
    kind = Each(drafts, Enum(*KINDS))
    branch = Each(drafts, Id(2))  # where it began, then where it was published
    seen = Each(drafts, Each(2, Int(0, drafts)))  # the pins of its snapshot
    read = Each(drafts, Int(0, drafts))  # the counter of its snapshot
    phase = Enum("idle", "planning", "staged")
    base = Each(2, Int(0, drafts))  # the pins of the plan
    base_schema = Int(0, drafts)
    reads, writes, changes = Each(2, Bool()), Each(2, Bool()), Each(2, Bool())  # by table
    needs_schema, rewrites = Bool(), Bool()
    plan_counter, plan_node, plan_edge, plan_declared = Int(0, drafts), Bool(), Bool(), Bool()
    plan_careless = Bool()

    # Definitions: rows.

    def rows(s, b: int) -> Rows:
        """The rows of a branch: later runs over the first."""
        counter = pick(s.later_counter[b] > 0, s.later_counter[b], s.counter[b])
        return Rows(counter, s.node[b] & ~s.later_removal[b], s.edge[b], s.declared[b])

    def planned_rows(s) -> Rows:
        """What the drafts so far leave: the next one is planned on this."""
        idle, plan = s.phase == "idle", Rows(s.plan_counter, s.plan_node, s.plan_edge, s.plan_declared)
        return chosen(idle, idle, s.rows(MAIN), plan)

    def applied(s, d: int, rows: Rows) -> Rows:
        kind = s.kind[d]
        return Rows(
            pick(kind == "count", s.read[d] + 1, rows.counter),
            rows.node & ~kind.is_in(*DROPS),
            rows.edge | kind.is_in(*LINKS),
            (rows.declared | (kind == "declare")) & (kind != "undeclare"),
        )

    is_there = define(lambda s, b: (s.dev == "there") | (b == MAIN))

    # Definitions: what a draft is compared with, and what it is refused for.

    touches = define(lambda s, d, t: s.kind[d].is_in(*READS[t], *WRITES[t]))

    @define(without={"pins-across-branches": lambda s, d, b: (s.kind[d] != "compact") & (s.branch[d] == b)})
    def is_compared(s, d: int, b: int) -> Truth:
        """Compaction has no snapshot: it rewrites whatever is there."""
        return s.kind[d] != "compact"

    @define(without={"reads-compared-with-snapshot": False})
    def is_stale(s, d: int, b: int) -> Truth:
        """What the draft read or touches has another pin than in its snapshot."""
        moved = any_of(s.touches(d, t) & (s.seen[d][t] != s.pin[b][t]) for t in TABLES)
        return s.is_compared(d, b) & moved

    @define(without={"reads-checked-within-group": False})
    def is_stale_in_group(s, d: int) -> Truth:
        """An earlier draft of the group changed what the draft has read."""
        return any_of(s.kind[d].is_in(*READS[t]) & s.changes[t] for t in TABLES)

    @define(without={"integrity-on-final-rows": lambda s, d: s.kind[d].is_in("link", "link-if", "declare")})
    def is_checked(s, d: int) -> Truth:
        """The edges of the draft are among the final rows that are checked."""
        return s.kind[d].is_in(*LINKS, "declare")

    @define(without={"outbound-check-on-addition": True})
    def has_target(s, d: int, before: Rows, after: Rows) -> Truth:
        return implies(s.is_checked(d) & after.declared & after.edge, after.node)

    @define(without={"inbound-check-on-removal": True})
    def is_free(s, d: int, before: Rows) -> Truth:
        """No edge points at the node that the draft removes."""
        return ~(s.kind[d].is_in(*DROPS) & before.node & before.edge & before.declared)

    def is_valid(s, d: int, checked: Rows) -> Truth:
        exists = implies(s.kind[d] == "undeclare", checked.declared)
        return exists & s.has_target(d, checked, s.applied(d, checked)) & s.is_free(d, checked)

    @define(without={"integrity-within-group": lambda s: s.rows(MAIN)})
    def checked_rows(s) -> Rows:
        """The rows on which the edges of the next draft of the group are checked."""
        return s.planned_rows()

    def relies_on(s, d: int, t: int, rows: Rows) -> Truth:
        """The plan keeps the pin of what the draft read, and of what its edges were checked against."""
        kind = s.kind[d]
        checked = kind.is_in(*LINKS, "declare") if t == NODES else kind.is_in(*DROPS)
        return kind.is_in(*READS[t]) | (checked & s.applied(d, rows).declared)

    is_careless = define(lambda s, d, rows: s.kind[d].is_in("link", "link-altered", "drop") & ~rows.declared)

    hold = define(lambda s, used: all_of(implies(used[t], s.pin[MAIN][t] == s.base[t]) for t in TABLES))
    reads_hold = define(lambda s: s.hold(s.reads), without={"reads-re-evaluated-on-retry": True})
    writes_hold = define(lambda s: s.hold(s.writes), without={"writes-re-evaluated-on-retry": True})
    schema_holds = define(
        lambda s: implies(s.needs_schema, s.schema[MAIN] == s.base_schema),
        without={"schema-re-evaluated-on-retry": True},
    )

    def may_commit(s) -> Truth:
        """The newest manifest, as the parent, meets the expectations of the plan."""
        return s.reads_hold() & s.writes_hold() & s.schema_holds()

    may_merge = define(lambda s: s.pin[MAIN] == s.forked_at, without={"fast-forward-only": True})

    # Definitions: a commit.

    def commit_rows(s, b: int, new: Rows, writes: Sequence[Truth], rewrites: Truth) -> None:
        """The next manifest of branch b pins new versions of the written tables, with these rows."""
        s.clock = s.clock + 1
        rows = chosen(writes[NODES], writes[EDGES], new, s.rows(b))
        changes_schema = rows.declared != s.declared[b]
        s.write_runs(b, rows, writes[NODES], rewrites)
        s.edge[b], s.declared[b] = rows.edge, rows.declared
        s.schema[b] = pick(changes_schema, s.clock, s.schema[b])
        for t in TABLES:
            s.move_pin(b, t, writes[t])

    def move_pin(s, b: int, t: int, moves: Truth) -> None:
        s.lineage[b][t] = pick(moves, s.written_lineage(b, t), s.lineage[b][t])
        for number in range(3):
            newest = moves & (s.lineage[b][t] == number)
            s.head[t][number] = pick(newest, s.clock, s.head[t][number])
        s.pin[b][t] = pick(moves, s.clock, s.pin[b][t])

    is_own = define(lambda s, b, t: (s.lineage[b][t] == 1) ^ (b == MAIN))

    @define(without={"fork-on-first-write": lambda s, b, t: s.lineage[b][t]})
    def written_lineage(s, b: int, t: int) -> Number:
        return pick(s.is_own(b, t), s.lineage[b][t], OWN[b])

    def write_runs(s, b: int, rows: Rows, writes: Truth, rewrites: Truth) -> None:
        """A rewritten table has one run; otherwise the changes are in later ones."""
        old = s.rows(b)
        counter = pick(rows.counter != old.counter, rows.counter, s.later_counter[b])
        s.later_counter[b] = pick(rewrites, 0, counter)
        s.later_removal[b] = ~rewrites & s.node[b] & ~rows.node
        s.counter[b] = pick(rewrites, rows.counter, s.counter[b])
        s.node[b] = s.compacted_node(b, rows, rewrites)

    compacted_node = define(  # without: the runs that hold rows are copied, those of removed keys forgotten
        lambda s, b, rows, rewrites: pick(rewrites, rows.node, s.node[b]),
        without={"compaction-preserves-rows": lambda s, b, rows, rewrites: s.node[b]},
    )

    @without("merged-runs-keep-changes", replaces=write_runs)
    def write_last_run(s, b: int, rows: Rows, writes: Truth, rewrites: Truth) -> None:
        """The new run replaces the later ones, and holds the changes of its own commit only."""
        old = s.rows(b)
        counts, removes = rows.counter != old.counter, old.node & ~rows.node
        PublishContent.write_runs(s, b, rows, writes, rewrites)
        s.later_counter[b] = pick(writes & ~counts, 0, s.later_counter[b])
        s.later_removal[b] = s.later_removal[b] & (~writes | removes)

    # Actions: the foundation, and drafts.

    @action(declared=(False, True), edge=(False, True))
    def found(s, declared: bool, edge: bool) -> None:
        s.require(~s.founded)
        s.founded = True
        s.node[MAIN], s.declared[MAIN], s.edge[MAIN] = True, declared, edge

    @action(d=drafts, kind=KINDS, b=BRANCHES)
    def begin(s, d: int, kind: str, b: int) -> None:
        """A transaction reads its snapshot and decides on it."""
        rows = s.rows(b)
        s.require(s.founded & s.is_there(b) & (s.phase != "planning"))
        s.require(s.at[d] == "new", d == 0 or s.at[d - 1] != "new")  # drafts are numbered as they begin
        s.require(rows.node | Truth.constant(kind not in ("link-if", *DROPS)))
        s.require(~rows.edge | Truth.constant(kind != "drop-if"))
        s.require((rows.declared == (kind == "undeclare")) | Truth.constant(kind not in SCHEMA))
        s.at[d], s.kind[d], s.branch[d] = "open", kind, b
        if kind != "compact":
            s.seen[d] = s.pin[b]
        if kind == "count":
            s.read[d] = rows.counter

    # Actions: group commit on the main branch.

    @action(d=drafts, answer=("joined", "stale", "invalid"))
    def join_group(s, d: int, answer: str) -> None:
        """The next draft of the group is planned on the rows that the earlier ones leave."""
        s.require((s.at[d] == "open") & (s.phase != "staged"))
        stale = s.is_stale_in_group(d) | s.is_stale(d, MAIN)
        valid = s.is_valid(d, s.checked_rows())
        s.require({"stale": stale, "invalid": ~stale & ~valid, "joined": ~stale & valid}[answer])
        if answer == "joined":
            s.add_to_plan(d)
        else:
            s.end_draft(d, "refused")

    def add_to_plan(s, d: int) -> None:
        before = s.planned_rows()
        kind, after = s.kind[d], s.applied(d, before)
        for t in TABLES:
            s.base[t] = s.pin[MAIN][t]
            s.reads[t] |= s.relies_on(d, t, before)
            s.writes[t] |= kind.is_in(*WRITES[t])
            s.changes[t] |= kind.is_in(*WRITES[t]) & (kind != "compact")
        s.base_schema = s.schema[MAIN]
        s.needs_schema |= kind.is_in(*DROPS, *SCHEMA, "link-altered")
        s.rewrites |= kind == "compact"
        s.plan_careless |= s.is_careless(d, before)
        s.plan_counter, s.plan_node, s.plan_edge, s.plan_declared = after
        s.phase, s.at[d] = "planning", "planned"

    @action
    def stage(s) -> None:
        """The plan and its fragments are written; from here on others may act."""
        s.require(s.phase == "planning")
        s.phase = "staged"

    @action(answer=("published", "stale-before-heads", "stale"))
    def commit(s, answer: str) -> None:
        """On the newest manifest, which may not be the one that the plan was made on."""
        s.require(s.phase == "staged")
        if answer == "published":
            s.require(s.may_commit())
            s.careless[MAIN] |= s.plan_careless
            rows = Rows(s.plan_counter, s.plan_node, s.plan_edge, s.plan_declared)
            s.commit_rows(MAIN, rows, [*s.writes], s.rewrites)
        else:
            s.require(~s.may_commit())
        if answer == "stale":
            s.undo_heads()
        for d in range(s.drafts):
            planned, ended = s.at[d] == "planned", "published" if answer == "published" else "refused"
            s.branch[d] = pick(planned, MAIN, s.branch[d])
            s.at[d] = pick(planned, ended, s.at[d])
        s.phase, s.base_schema, s.needs_schema, s.rewrites, s.plan_careless = "idle", 0, False, False, False
        s.plan_counter, s.plan_node, s.plan_edge, s.plan_declared = 0, False, False, False
        s.base, s.reads, s.writes, s.changes = (0, 0), (False, False), (False, False), (False, False)

    def undo_heads(s) -> None:
        """The heads in lineages that others extend too are in their way: the same rows, as new versions."""
        undone = [s.writes[t] & (s.pin[MAIN][t] == s.base[t]) & s.is_own(MAIN, t) for t in TABLES]
        s.clock = pick(any_of(undone), s.clock + 1, s.clock)
        for t in TABLES:
            s.move_pin(MAIN, t, undone[t])

    # Actions: other writers, on either branch.

    @action(d=drafts, b=BRANCHES, answer=("published", "stale", "invalid"))
    def publish_alone(s, d: int, b: int, answer: str) -> None:
        s.require((s.at[d] == "open") & (s.phase != "planning") & s.is_there(b))
        rows = s.rows(b)
        stale, valid = s.is_stale(d, b), s.is_valid(d, rows)
        s.require({"stale": stale, "invalid": ~stale & ~valid, "published": ~stale & valid}[answer])
        if answer == "published":
            s.careless[b] |= s.is_careless(d, rows)
            writes = [s.kind[d].is_in(*WRITES[t]) for t in TABLES]
            s.commit_rows(b, s.applied(d, rows), writes, s.kind[d] == "compact")
            s.branch[d] = b
        s.end_draft(d, "published" if answer == "published" else "refused")

    def end_draft(s, d: int, at: str) -> None:
        s.at[d], s.seen[d], s.read[d] = at, (0, 0), 0

    @action
    def create_branch(s) -> None:
        """One object, whatever the number of tables: the branch pins what the main branch pins."""
        s.require(s.founded & (s.dev == "none") & (s.phase != "planning"))
        s.dev, s.forked_at = "there", s.pin[MAIN]
        s.copy_branch(MAIN, DEV)

    @action
    def merge_branch(s) -> None:
        """The main branch takes over what the other one pins, provided that it has no commits of its own."""
        s.require((s.dev == "there") & (s.phase != "planning"))
        s.require(s.pin[MAIN] != s.pin[DEV], s.may_merge())
        s.forked_at = s.pin[DEV]
        s.copy_branch(DEV, MAIN)

    def copy_branch(s, source: int, to: int) -> None:
        s.schema[to] = pick(s.declared[to] != s.declared[source], s.schema[source], s.schema[to])
        s.pin[to], s.lineage[to] = s.pin[source], s.lineage[source]
        for numbers in (s.counter, s.later_counter):
            numbers[to] = numbers[source]
        for flags in (s.node, s.later_removal, s.edge, s.declared, s.careless):
            flags[to] = flags[source]

    @action
    def delete_branch(s) -> None:
        s.require((s.dev == "there") & (s.phase != "planning"))
        s.dev = "deleted"

    # Properties: never bad.

    publishes = define(  # a draft, in this step
        lambda s, after, d: (s.at[d] != "published") & (after.at[d] == "published")
    )
    is_published_on = define(
        lambda s, after, b: any_of(s.publishes(after, d) & (after.branch[d] == b) for d in range(s.drafts))
    )

    def counted(s, on: tuple[int, ...]) -> Number:
        """How many increments were acknowledged on these branches."""
        counts = [(s.at[d] == "published") & (s.kind[d] == "count") for d in range(s.drafts)]
        return count_of(mine & any_of(s.branch[d] == b for b in on) for d, mine in enumerate(counts))

    no_lost_update = invariant(
        "The counter of a branch has counted every increment that was acknowledged there.", b=BRANCHES
    )(lambda s, b: implies(s.is_there(b), s.rows(b).counter >= s.counted((b,))))
    no_phantom = invariant("The counter has counted nothing that was refused.", b=BRANCHES)(
        lambda s, b: implies(s.is_there(b), s.rows(b).counter <= s.counted(BRANCHES))
    )
    no_write_skew = invariant(
        "Drafts that looked before they linked or dropped leave no edge without its node.", b=BRANCHES
    )(lambda s, b: ~(s.is_there(b) & s.rows(b).edge & ~s.rows(b).node & ~s.careless[b]))
    referential_integrity = invariant(
        "No visible edge whose column is declared points at a missing node.", b=BRANCHES
    )(lambda s, b: ~(s.is_there(b) & s.rows(b).declared & s.rows(b).edge & ~s.rows(b).node))

    @step
    def branch_isolation(before, after: "PublishContent") -> Truth:
        """The rows of a branch change by commits on it, and by merges into the main branch."""

        def changes(b: int) -> Truth:
            was, now = before.rows(b), after.rows(b)
            return (was.counter != now.counter) | (was.node != now.node) | (was.edge != now.edge)

        stayed = (before.dev == "there") & (after.dev == "there")
        on_main = before.is_published_on(after, MAIN) | (after.pin[MAIN] == after.pin[DEV])
        return implies(stayed & changes(DEV), before.is_published_on(after, DEV)) & implies(
            changes(MAIN) & before.founded, on_main
        )

    @invariant(b=BRANCHES, t=TABLES, number=3)
    def no_head_of_another_branch(s, b: int, t: int, number: int) -> Truth:
        """Nothing stands above the pins of a branch in the lineages that belong to it."""
        own = (s.lineage[b][t] == number) & s.is_own(b, t) & s.is_there(b)
        return implies(own, s.head[t][number] == s.pin[b][t])

    @step(b=BRANCHES)
    def compaction_is_invisible(before, after: "PublishContent", b: int) -> Truth:
        """A commit that only rewrites runs changes no row."""
        compacts = [(before.publishes(after, d), after.kind[d] == "compact") for d in range(before.drafts)]
        only = any_of(p for p, _ in compacts) & all_of(implies(p, kind) for p, kind in compacts)
        rows = zip(before.rows(b), after.rows(b), strict=True)
        return implies(only, all_of(was == now for was, now in rows))

    # Properties: sometimes good.

    group_published = reachable("Two drafts can share a commit.")(
        lambda s: (s.clock == 1) & (s.at.count("published") > 1)
    )
    published_on_retry = reachable("A plan can still be good after another writer's commit.")(
        lambda s: (s.phase == "staged") & (s.clock > 0) & s.may_commit()
    )
    compacted = reachable("A removed row can disappear from the runs.")(lambda s: s.founded & ~s.node[MAIN])
    merged = reachable("The main branch can pin the lineage of the other.")(
        lambda s: s.lineage[MAIN][NODES] == 1
    )
    forked_after_merge = reachable("The main branch can go on in a lineage of its own after a merge.")(
        lambda s: s.lineage[MAIN][NODES] == 2
    )
    done = may_end(lambda s: s.at.all(lambda at: at.is_in("published", "refused")) & (s.phase == "idle"))

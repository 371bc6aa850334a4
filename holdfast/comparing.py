"""What a change made better or worse, from two audits of the same program: before it and after it.

Worse is what a reviewer must not overlook: a property that broke, a proof that is no longer one, situations
that are no longer met (a proof of less), a verb that costs more. What merely differs is told, and judged
neither way: a search of another size says nothing about the program.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

WORSE, BETTER, OTHER = "worse", "better", "other"
RANK = {"holds": 0, "undecided": 1, "violated": 2}

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """One difference between two results."""

    judged: str
    what: str
    before: str
    after: str

    def as_json(self) -> dict[str, str]:
        return {"judged": self.judged, "what": self.what, "before": self.before, "after": self.after}


def compare(before: Result, after: Result) -> list[Change]:
    """Every difference, the worse ones first."""
    found = [
        *_verdicts(before, after),
        *_properties(before, after),
        *_coverage(before, after),
        *_findings(before, after),
        *_costs(before, after),
        *_search(before, after),
    ]
    return sorted(found, key=lambda change: (WORSE, BETTER, OTHER).index(change.judged))


def _verdicts(before: Result, after: Result) -> Iterator[Change]:
    old, new = before["verdict"], after["verdict"]
    if old != new:
        yield Change(WORSE if RANK[new] > RANK[old] else BETTER, "verdict", old, new)


def _properties(before: Result, after: Result) -> Iterator[Change]:
    old = {violation["property"]: violation["reason"] for violation in before["violations"]}
    new = {violation["property"]: violation["reason"] for violation in after["violations"]}
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            yield Change(WORSE, f"property {name!r}", "not broken", f"broken: {new[name]}")
        elif name not in new:
            yield Change(BETTER, f"property {name!r}", f"broken: {old[name]}", "not broken")
        else:
            yield Change(OTHER, f"property {name!r}", "broken", "still broken")


def _coverage(before: Result, after: Result) -> Iterator[Change]:
    old, new = before["coverage"], after["coverage"]
    if before["violations"] or after["violations"]:
        return  # a search that stopped at a violation met only what lay before it
    for key, word in (("outcomes", "answer"), ("faults", "fault")):
        had, has = set(old.get(key, {})), set(new.get(key, {}))
        for name in sorted(had - has):
            yield Change(WORSE, f"{word} {name!r}", "met", "never met")
        for name in sorted(has - had):
            yield Change(BETTER, f"{word} {name!r}", "never met", "met")
    had_met, has_met = old.get("sometimes", {}), new.get("sometimes", {})
    for name in sorted(had_met.keys() & has_met.keys()):
        if had_met[name] != has_met[name]:
            met = ("never met", "met")
            yield Change(
                BETTER if has_met[name] else WORSE,
                f"sometimes {name!r}",
                met[had_met[name]],
                met[has_met[name]],
            )
    share = [(result.get("model") or {}).get("share") for result in (before, after)]
    if None not in share and share[0] != share[1]:
        said = [f"{value:.2%} driven" for value in share]
        yield Change(WORSE if share[1] < share[0] else BETTER, "the model's transitions", *said)


def _findings(before: Result, after: Result) -> Iterator[Change]:
    for finding in after["findings"]:
        if finding not in before["findings"]:
            yield Change(WORSE, "finding", "none", finding)
    for finding in before["findings"]:
        if finding not in after["findings"]:
            yield Change(BETTER, "finding", finding, "none")


def _costs(before: Result, after: Result) -> Iterator[Change]:
    """The most that a verb took in any schedule. A verb that is new is told, not judged."""
    if before["violations"] or after["violations"]:
        return
    old, new = _cost_rows(before), _cost_rows(after)
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            yield Change(OTHER, f"cost of {name}", _said(old.get(name)), _said(new.get(name)))
            continue
        if old[name] != new[name]:
            judged = WORSE if new[name] > old[name] else BETTER
            yield Change(judged, f"at most, {name}", _said(old[name]), _said(new[name]))


def _cost_rows(result: Result) -> dict[str, float]:
    rows = {}
    for verb, row in result.get("cost", {}).items():
        for unit, value in row.items():
            if isinstance(value, bool):
                rows[f"{verb} {unit}"] = 0.0 if value else 1.0  # flat is better than not
            elif isinstance(value, int | float):
                rows[f"{verb} {unit.replace('_', ' ')}"] = float(value)
    return rows


def _said(value: float | None) -> str:
    return "not counted" if value is None else f"{value:,.10g}"


def _search(before: Result, after: Result) -> Iterator[Change]:
    old, new = before["schedules"], after["schedules"]
    if old != new:
        yield Change(OTHER, "schedules", f"{old:,}", f"{new:,}")


def verdict_of(changes: list[Change], after: Result) -> str:
    """Violated when the change made something worse. What was broken before is not its doing."""
    if any(change.judged == WORSE for change in changes):
        return "violated"
    return "undecided" if after["verdict"] == "undecided" else "holds"

"""What a replay found out, for people."""

from collections.abc import Mapping
from typing import Any

from fencepost.reports.driven_text import model_lines
from fencepost.reports.quantities import amount


def replay_text(found: Mapping[str, Any], shown: int, *, gaps: bool = False) -> str:
    """The whole result as lines; of runs and problems the first `shown`."""
    lines = [*_wrong(found, shown), *_problems(found, shown), *_statistics(found["statistics"])]
    return "\n".join([*lines, *_coverage(found.get("coverage"), gaps), _last(found)])


def _wrong(found: Mapping[str, Any], shown: int) -> list[str]:
    lines = []
    for kind, rows in (("REJECTED", found["violations"]), ("UNDECIDED", found["untold"])):
        for row in rows[:shown]:
            lines.append(f"{kind}  {row.get('rule') or 'run ' + row['run']}  {_place(row)}{row['event']}")
            lines.append(f"  {row['reason']}")
            lines += [f"  before: {row['state']}"] if row.get("state") else []
            lines += [f"  possible: {row['possible']}"] if row.get("possible") else []
        many = found[kind.lower()]
        if many > shown:
            lines.append(f"  and {many - min(shown, len(rows)):,} more that are {kind.lower()}")
    return lines


def _place(row: Mapping[str, Any]) -> str:
    return f"event {row['seq']}: " if row.get("seq", -1) >= 0 else ""


def _problems(found: Mapping[str, Any], shown: int) -> list[str]:
    lines = [f"NOT READ  {problem}" for problem in found["problems"][:shown]]
    if len(found["problems"]) > shown:
        lines.append(f"  and {len(found['problems']) - shown:,} more")
    if found.get("left_out"):
        lines.append(f"NOT JUDGED  {found['left_out']:,} events belong to no run")
    return lines


def _statistics(told: Mapping[str, Any]) -> list[str]:
    lines = []
    for kind, one in told["operations"].items():
        outcomes = ", ".join(
            f"{name or 'no outcome'} {amount(count)}" for name, count in one["outcomes"].items()
        )
        latency = ""
        if "p50" in one:
            latency = f"  p50 {one['p50']:g} p90 {one['p90']:g} p99 {one['p99']:g} max {one['max']:g} ms"
        lines.append(f"{kind:16} {outcomes}{latency}")
    rates = ", ".join(f"{code} {share:.2%}" for code, share in told["rates"].items())
    lines.append(
        f"rates {rates}; duplicates {amount(told['duplicates'])}; unanswered {amount(told['unanswered'])}"
    )
    if told["conflicts"]:
        one = told["conflicts"][0]
        lines.append(
            f"most contended: {one['key']} ({one['refused']:,} of {one['answered']:,} answers refused)"
        )
    if told["hot_prefixes"]:
        one = told["hot_prefixes"][0]
        lines.append(f"hottest prefix: {one['prefix'] or '(none)'} ({one['requests']:,} requests)")
    if told["stalls"]:
        one = told["stalls"][0]
        lines.append(f"longest stall: {one['seconds']:g} s before event {one['seq']} of run {one['run']}")
    return lines


def _coverage(covered: Mapping[str, Any] | None, gaps: bool) -> list[str]:
    if not covered:
        return []
    line = f"labels of the model that these runs took: {covered['taken']:,} of {covered['of']:,}"
    missing = covered.get("missing", [])
    return [
        line,
        *(["  never: " + ", ".join(missing[:10]) + (" ..." if len(missing) > 10 else "")] if missing else []),
        *model_lines(covered, gaps=gaps),
    ]


def _last(found: Mapping[str, Any]) -> str:
    what = "requests" if found["source"] == "access-log" else "events"
    judged = (
        f"{found['runs']:,} runs: {found['accepted']:,} accepted, {found['rejected']:,} rejected, "
        f"{found['undecided']:,} undecided"
        if found["source"] == "traces"
        else f"{found['rejected']:,} broken promises, {found['undecided']:,} undecided"
    )
    return (
        f"{found['verdict'].upper()}  {judged}; {found['events']:,} {what} in {found['seconds']:.2f} s "
        f"({found['events_per_second']:,}/s, {found['engine']})"
    )

"""The text reports of `fencepost audit` and of audited tests.

Lines of plain text serve the terminal, which colours them, and test reports.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from fencepost.reports.lcov import NUMBERS
from fencepost.reports.media import continued, one_line, printable
from fencepost.reports.text import (
    COLOURS,
    SCREEN,
    amount,
    first,
    plural,
    reproduce,
    settings,
    verdict_line,
    wrapped,
)
from fencepost.results import (
    AuditCoverage,
    AuditResult,
    CompareResult,
    Comparison,
    MutantsResult,
    Row,
    Share,
    Violation,
)

JUDGED = {"worse": "red", "better": "green", "other": ""}
BODY_SHOWN = 36
"""Characters of a body that a step shows whole."""
LONG = 1.5
"""A counterexample with more than so many times the steps of the model's shortest one is called long."""


def audit_text(
    result: AuditResult, again: str = "", *, verbose: bool = False, gaps: bool = False, quiet: bool = False
) -> RenderableType:
    """Verdict with its bound, size, findings and counterexamples; with `verbose` also everything covered.

    `again` is the command that repeats the failure, or that continues an undecided search.
    """
    lines: list[str] = [] if quiet or result.strategy == "replay" else [*size_lines(result)]
    if verbose and lines:
        lines += [*coverage_lines(result.coverage), *outcome_lines(result.coverage), *cost_lines(result)]
    elif lines and result.real is None:
        lines += [*_covered_briefly(result.coverage), *outcome_summary(result.coverage)]
    if result.model is not None and not quiet:
        shares = [*model_lines(result.model, gaps=gaps)]
        lines += shares if verbose or gaps else shares[:1]
    steps = counterexample_lines(result, verbose=verbose) or [f"  {line}" for line in result.counterexample]
    why = "to reproduce" if result.verdict == "violated" else "to continue"
    return Group(
        verdict_line(result.verdict, result.bound),
        *map(Text, lines),
        *first(finding_lines(result), verbose=verbose, style="yellow"),
        *(Text(line, _colour(line)) for line in steps),
        *(Text(line, _colour(line)) for line in ([] if quiet else suspicion_lines(result))),
        *reproduce(again, why),
    )


def failure_text(result: AuditResult, why: str, again: str) -> str:
    """For a test report: the reason first, then the counterexample, and the replay command last."""
    lines = [why, ""]
    if result.violations:
        lines += [*(line.rstrip() for line in _steps(result.violations[0])), ""]
        lines += [f"also violated: {other.property}: {other.reason}" for other in result.violations[1:]]
    lines += [f"{result.verdict}: {result.bound}"]
    if result.strategy != "replay":
        lines += size_lines(result)
    lines += finding_lines(result)
    if not result.violations and result.strategy != "replay":
        lines += coverage_lines(result.coverage)
    return "\n".join(map(printable, [*lines, *(["to reproduce:", again] if again else [])]))


def size_lines(result: AuditResult) -> list[str]:
    """Describe the audit: the system, the number of runs, the time."""
    name = f"  {result.system}{settings(result.parameters.items())}"
    if result.real is not None:
        real = result.real
        return [
            f"{name} (for real): {plural(result.schedules, 'round')} of {plural(real.threads, 'thread')}, "
            f"{plural(real.requests, 'request')}, up to {real.at_once} at once, "
            f"{plural(real.looks, 'check')}, {result.seconds:.2f} s"
        ]
    runs = result.schedules + result.pruned
    rate = f", {amount(round(runs / result.seconds))} a second" if result.seconds >= 1 else ""
    return [
        f"{name} ({result.strategy}): {plural(result.schedules, 'interleaving')} to their end, "
        f"{amount(result.pruned)} given up early as repetitions, {result.seconds:.2f} s{rate}"
    ]


def coverage_lines(coverage: AuditCoverage) -> list[str]:
    """List the situations of the runs: steps of every process, replies of the store, faults."""
    return [
        *wrapped("steps", _counts(coverage.steps)),
        *wrapped("replies", _counts(coverage.outcomes)),
        *wrapped("faults", _counts(coverage.faults) or ["none landed"]),
        f"  conflicts   {amount(coverage.conflicts)} pairs of steps whose order mattered",
        *(
            f"  sometimes   {name}: {'it happened' if happened else 'it NEVER happened'}"
            for name, happened in coverage.sometimes.items()
        ),
    ]


def outcome_summary(coverage: AuditCoverage, *, verbose: bool = False) -> list[str]:
    """Return the share of the outcomes that were met, on one line; nothing where they were not counted."""
    counts = [count for row in coverage.requests for count in row.outcomes.values()]
    if not counts:
        return []
    met, lines = sum(1 for count in counts if count), plural(len(coverage.requests), "request line")
    tail = "" if met == len(counts) or verbose else "; -v shows which"
    ran = [count for counts in coverage.executed.values() for count in counts.values()]
    executed = f"; {sum(ran)} of {plural(len(ran), 'line')} executed" if ran else ""
    return [f"  {met} of {plural(len(counts), 'outcome')} met at {lines}{executed}{tail}"]


def outcome_lines(coverage: AuditCoverage) -> list[str]:
    """Return the table of outcomes by request line: how often each was met, or `-` for one that never was."""
    if not coverage.requests:
        return []
    columns = [name for name in NUMBERS if any(name in row.outcomes for row in coverage.requests)]
    table = [["request line", "", *columns]]
    for row in coverage.requests:
        request = " ".join(filter(None, [row.kind, row.condition]))
        cells = ["" if name not in row.outcomes else str(row.outcomes[name] or "-") for name in columns]
        table.append([f"{row.file}:{row.line} {row.function}", request, *cells])
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
    lines = []
    for cells in table:
        left = "  ".join(f"{cell:<{width}}" for cell, width in zip(cells[:2], widths, strict=False))
        right = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells[2:], widths[2:], strict=True))
        lines.append(f"    {left}  {right}".rstrip())
    lines = [*outcome_summary(coverage, verbose=True), *lines]
    untried = sorted({name for row in coverage.requests for name in row.untried})
    if untried:
        lines.append(f"    not in the budget of faults: {', '.join(untried)}")
    for row in coverage.requests:
        for outcome, following in row.then.items():
            lines.append(f"    {row.file}:{row.line} {row.kind}, after {outcome}: {', '.join(following)}")
    for file, counts in coverage.executed.items():
        missed = [line for line, count in counts.items() if not count]
        if missed:
            lines.append(f"    never executed: {file}:{', '.join(missed)}")
    return lines


def _covered_briefly(coverage: AuditCoverage) -> list[str]:
    faults = ", ".join(_counts(coverage.faults)) or "none landed"
    never = [name for name, happened in coverage.sometimes.items() if not happened]
    return [
        f"  {amount(coverage.conflicts)} pairs of steps whose order mattered; faults: {faults}",
        *(f"  sometimes   {name}: it NEVER happened" for name in never),
    ]


def finding_lines(result: AuditResult) -> list[str]:
    return [f"finding: {finding}" for finding in result.findings]


def counterexample_lines(result: AuditResult, *, verbose: bool = False) -> list[str]:
    """Every violation: the property, and the numbered steps that break it; with `verbose` whole bodies."""
    lines: list[str] = []
    for number, violation in enumerate(result.violations):
        lines += [""] if number else []
        lines += [continued(f"{violation.property} is violated: {violation.reason}"), "", *_steps(violation)]
        lines += [f"  replay token: {violation.token}"] if number else []
        lines += _whole_bodies(violation) if verbose else []
    return lines


def suspicion_lines(result: AuditResult) -> list[str]:
    """The schedules that break a ready promise."""
    lines: list[str] = []
    for one in result.suspicions:
        lines += ["", continued(f"suspicious: {one.reason}"), *_steps(one)]
    return lines


def _steps(violation: Violation) -> list[str]:
    raised = (f"     at {line}" for line in violation.raised_at)
    return [*(f"  {one_line(line)}" for line in violation.counterexample), *raised]


def _whole_bodies(violation: Violation) -> Iterator[str]:
    """The bodies that the steps show in part."""
    for step in violation.steps:
        body = step.body if step.body is not None else step.body_base64
        if body is not None and len(body) > BODY_SHOWN:
            kind = "" if step.body is not None else " (base64)"
            yield f"  body of step {step.number}{kind}: {body}"


def _colour(line: str) -> str:
    """Steps with a fault are marked with `!` after their number."""
    if line.lstrip().startswith("=>"):
        return "bold red"
    words = line.split(maxsplit=2)
    return "red" if len(words) > 1 and words[0].isdecimal() and words[1] == "!" else ""


def _counts(counts: Mapping[str, int]) -> list[str]:
    return [f"{name} {amount(count)}" for name, count in counts.items()]


def cost_lines(result: AuditResult) -> list[str]:
    """The cost of operations, with a column for each number of faults, and other measured numbers.

    Nothing where a property broke: the search ended there, and the maximum may be higher.
    """
    cost = {} if result.violations else result.cost
    measured = {verb: row for verb, row in cost.items() if "faults" not in row}
    by_faults = {verb: row for verb, row in cost.items() if "faults" in row}
    return [*_by_faults(by_faults), *_maxima(measured)]


def cost_summary(result: AuditResult) -> str:
    """The same in a few words: requests and serial hops, at most; empty where nothing was counted."""
    words = []
    for name, row in ({} if result.violations else result.cost).items():
        levels = row.get("faults", ())
        most = [f"{level['requests']}/{level['hops']}" for level in levels]
        if levels:
            tail = f", {most[-1]} with any" if most[-1] != most[0] else ""
            tail += "" if row.get("exact", True) else " (the highest seen)"
            words.append(f"{name} {most[0]} {_faults(levels[0]['faults'])}{tail}")
    return "; ".join(words)


def _maxima(cost: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The largest numbers of all runs, a line a verb."""
    label = "cost, at most"
    return [
        f"  {label if not number else '':<13}  {verb}: "
        + ", ".join(f"{amount(count)} {what}" for what, count in sorted(counts.items()))
        for number, (verb, counts) in enumerate(cost.items())
    ]


def _by_faults(cost: Mapping[str, Mapping[str, Any]]) -> list[str]:
    levels = sorted({level["faults"] for row in cost.values() for level in row["faults"]})
    if not levels:
        return []
    known = "at most" if all(row.get("exact", True) for row in cost.values()) else "seen"
    rows = [[f"requests/hops {known} (median)", *(_faults(level) for level in levels), "may take"]]
    for name, row in cost.items():
        cells = {found["faults"]: _level(found) for found in row["faults"]}
        rows.append([name, *(cells.get(level, "") for level in levels), _bound(row)])
    if not any(row[-1] for row in rows[1:]):
        rows[0][-1] = ""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)) for row in rows]
    return [f"  {'cost' if not at else '':<12}{line}".rstrip() for at, line in enumerate(lines)]


def _level(row: Mapping[str, Any]) -> str:
    """`3/3 (2/2)`: the maximum, and the median."""
    return f"{row['requests']}/{row['hops']} ({row['requests_median']}/{row['hops_median']})"


def _bound(row: Mapping[str, Any]) -> str:
    """The declared bounds, for any run or by faults."""
    general = _limit(row)
    special = [
        f"{_limit(level)} {_faults(level['faults'])}" for level in row["faults"] if _limit(level) != general
    ]
    return ", ".join(part for part in [general, *special] if part.strip() and part[0] != " ")


def _limit(row: Mapping[str, Any]) -> str:
    if "requests_max" not in row and "hops_max" not in row:
        return ""
    return "/".join(str(row.get(f"{unit}_max", "any")) for unit in ("requests", "hops"))


def _faults(count: int) -> str:
    return "without faults" if not count else f"with {plural(count, 'fault')}"


def model_lines(model: Share, *, gaps: bool = False) -> Iterator[str]:
    """The share of the model's transitions that were driven, by action, and the labels that never were."""
    yield (
        f"  model       {model.driven:,} of {model.transitions:,} transitions ({model.share:.2%}) of "
        f"{model.model}{settings(model.parameters.items())} were driven, by {model.runs:,} different runs; "
        f"{model.runs_beyond_the_bound:,} of them left that bound"
    )
    yield from wrapped(
        "",
        (f"{name} {counts['driven'] / counts['transitions']:.1%}" for name, counts in model.actions.items()),
    )
    if not model.gaps:
        yield "              every label was driven"
        return
    more = "" if gaps else "; --gaps shows the model's way to each"
    yield f"              {len(model.gaps)} labels were never driven{more}"
    for gap in model.gaps if gaps else ():
        yield f"    {gap.label} ({amount(gap.transitions)} transitions)"
        yield from (f"      {number:>2} {step}" for number, step in enumerate(gap.path, 1))


# fencepost audit --mutants


def mutants_text(result: MutantsResult, *, verbose: bool = False) -> RenderableType:
    """The verdict, then a line for each mutant, or only those that need attention when they are many."""
    mutants = [row for row in result.rows if row.safeguard]
    found = sum(1 for row in mutants if row.found)
    fixed = next((row.verdict for row in result.rows if not row.safeguard), "not audited")
    if not result.rows:
        return verdict_line(result.verdict, f"no changed line of {result.system} has a step to leave out")
    if not mutants and len(result.rows) == 1:
        why = result.rows[0].property or result.rows[0].bound
        return Group(
            verdict_line(fixed, f"{result.system} as it is: {why}; no mutant is tried before it holds")
        )
    tried = [row for row in mutants if row.tried]
    survivors = sum(1 for row in tried if row.verdict == "holds")
    undecided = sum(1 for row in tried if row.verdict == "undecided")
    parts = [f"{found} of {plural(len(tried), 'mutant')} found"]
    parts += [f"{survivors} survive{'s' if survivors == 1 else ''}"] if survivors else []
    parts += [f"{undecided} undecided"] if undecided else []
    parts += [f"{len(mutants) - len(tried)} not tried"] if len(tried) < len(mutants) else []
    parts.append(f"{result.system} as it is: {fixed}")
    long = sum(1 for row in result.rows if row.long)
    if any(row.model for row in result.rows):
        parts.append(
            f"{plural(long, 'counterexample') if long else 'no counterexample'} over {LONG} times the model's"
        )
    rows = result.rows
    if not verbose and len(rows) >= SCREEN:
        rows = tuple(
            row for row in rows if row.unexpected or row.long or not row.tried or row.verdict == "undecided"
        )
    return Group(
        verdict_line(result.verdict, ", ".join(parts)),
        *(mutant_text(row, verbose=verbose) for row in rows),
        *([Text("-v shows every mutant")] if len(rows) < len(result.rows) else []),
        *(Text.assemble(f"  {name}: ", (UNBROKEN, COLOURS["undecided"])) for name in result.unbroken),
    )


UNBROKEN = (
    "no mutant breaks this property: it may be true by its own text, or protect against what no mutant does"
)


def mutant_text(row: Row, *, verbose: bool = True) -> RenderableType:
    """One audit: the safeguard that is off, the consequence, the effort; with `verbose`, how to see it."""
    name = f"without {row.safeguard}" if row.safeguard else f"{row.system} as it is"
    size = f"  {plural(row.schedules, 'schedule')}, {row.seconds:.1f} s"
    line = Text.assemble(f"  {name:<40} ", _consequence(row), size)
    more = [f"    {row.code}"] if row.code and (verbose or not row.found) else []
    if row.found and row.token and (verbose or row.unexpected):
        more.append(f"    {replay_command(row)}")
    return Group(line, *map(Text, more)) if more else line


def replay_command(row: Row) -> str:
    """The command that shows the counterexample."""
    mutant = ["--mutant", row.safeguard] if row.safeguard else []
    values = [word for name, value in row.parameters.items() for word in ("--set", f"{name}={value}")]
    return shlex.join(["fencepost", "audit", row.system, *mutant, *values, "--replay", row.token])


def _consequence(row: Row) -> tuple[str, str]:
    if row.verdict == "undecided":
        return "UNDECIDED: a limit was hit first, or too little was covered", COLOURS["undecided"]
    if row.verdict == "error":
        return f"cannot be audited: {row.bound}", COLOURS["holds" if row.safeguard else "violated"]
    if not row.tried:
        return f"not tried: {row.bound}", ""
    if row.found:
        expected = COLOURS["holds" if row.safeguard else "violated"]
        return f"breaks {row.property} in {_length(row)}", COLOURS["undecided"] if row.long else expected
    if row.safeguard:
        return "NOT FOUND: every schedule holds", COLOURS["violated"]
    return "holds", COLOURS["holds"]


def _length(row: Row) -> str:
    """The length of the counterexample, beside the model's."""
    lines = f"{row.length} lines"
    if not isinstance(row.model, Mapping):
        return lines
    note = f", {row.times:g} times as many: LONG" if row.long else ""
    return f"{row.moves} steps (model {row.model['length']}, {row.model['property']}{note}), {lines}"


# fencepost audit --base


def compare_text(result: CompareResult, revision: str, again: Sequence[str]) -> RenderableType:
    """The verdict on a change, every difference, and the counterexamples of the files as they are now.

    `revision` is the name that the user gave, and `again` has the command to reproduce each violation.
    """
    parts = result.programs or (result,)
    page: list[RenderableType] = [verdict_line(result.verdict, _judged(result))]
    for part in parts:
        page += _compared(part, f"{revision} ({result.base[:12]})")
    violations = [one for part in parts if part.after is not None for one in part.after.result.violations]
    for violation, command in zip(violations, again, strict=True):
        page += [Text(""), *map(Text, violation.counterexample), *reproduce(command)]
    return Group(*page)


def _compared(part: Comparison, base: str) -> Iterator[Text]:
    """The lines about one program."""
    if part.after is None:
        touched = "" if part.touched else ", and no line of its code differs"
        why = one_line(f"{part.system}: not compared, {part.left_out}")
        yield Text(f"  {why}{touched}", COLOURS["undecided"])
        return
    yield Text(f"  {part.system}, {base} against the files now")
    if part.before is None:
        yield Text("  at that revision it could not be audited: there is nothing to compare with")
    else:
        yield Text(f"  before  {part.before.result.verdict}: {part.before.result.bound}")
    yield Text(f"  now     {part.after.result.verdict}: {part.after.result.bound}")
    for change in part.changes:
        text = f"  {change.judged:<7} {change.what}: {change.before} -> {change.after}"
        yield Text(continued(text), JUDGED[change.judged])
    for line in unnoticed_lines(part):
        yield Text(f"  {one_line(line)}", COLOURS["undecided"])


def unnoticed_lines(part: Comparison) -> Iterator[str]:
    """The steps on changed lines that can be left out unnoticed, a line each."""
    for step in part.unnoticed:
        yield (
            f"no property notices when line {step.line} of {step.file} is left out ({step.kind}): {step.code}"
        )
    if part.untried:
        yield f"steps on changed lines were not left out: {part.untried}"


def comparison_notes(result: CompareResult) -> list[str]:
    """Return what a reviewer has to know besides the changes: programs left out, steps that go unnoticed."""
    parts = result.programs or (result,)
    out = [f"{part.system}: not compared, {part.left_out}" for part in parts if part.left_out]
    return [*out, *dict.fromkeys(line for part in parts for line in unnoticed_lines(part))]


def _judged(result: CompareResult) -> str:
    if not result.programs and result.before is None:
        return "of the files as they are now"
    worse, better = (sum(1 for c in result.changes if c.judged == kind) for kind in ("worse", "better"))
    still = (
        ", and it is still violated"
        if result.after and result.after.result.verdict == "violated" and not worse
        else ""
    )
    out = sum(1 for part in result.programs if part.left_out)
    left = f", {out} of {len(result.programs)} programs not compared: the budget ran out" if out else ""
    return f"{plural(worse, 'thing')} worse, {better} better{still}{left}"

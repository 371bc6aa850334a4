"""The measurements that RFC-013 publishes, each beside its simulation.

python -m bench.rfc_013            # writes docs/explanations/publish-measurements.md
python -m bench.rfc_013 --check    # writes nothing; exit code 1 if the file differs

The rows are the checks of the scenarios `rfc-013-*`, all of which use one path. The page counts the numbers
of that path, and names the rows that a number was taken from: those agree by construction, the others are
predictions.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fencepost.results import to_json
from fencepost.sim.scenarios import Order, load, perform

PAGE = Path(__file__).parents[1] / "docs" / "explanations" / "publish-measurements.md"
SCENARIOS = (
    "rfc-013-original",
    "rfc-013-opener",
    "rfc-013-hops",
    "rfc-013-capped",
    "rfc-013-branches",
    "rfc-013-maintenance",
    "rfc-013-production",
)
WITHOUT_SCENARIO = (
    ("46 s", "one insert across regions", "1", "neither distance, nor depth, nor build is given"),
    ("110 s", "a mutation of five nodes across regions", "1", "the same; nor is the number of tables"),
    (
        "192 requests",
        "a write to a node that does not exist",
        "5.1",
        "the depth is not given; without its data requests, the path as found sends 192 at depth 11",
    ),
    (
        "+5 requests a commit",
        "slope after tables are opened by address",
        "2.4",
        "the account's own table has 6: 353 requests at depth 40, and 593 at depth 80",
    ),
    ("258 s to 30 s", "wall time before and after both changes", "2.4", "withdrawn in the account itself"),
    (
        "under 1 s",
        "the four operations on a local disk",
        "1",
        "the path describes requests to a store; a local disk answers without one",
    ),
)
"""Published numbers whose circumstances the account does not give: figure, subject, section, reason."""


def simulated() -> dict[str, dict[str, Any]]:
    """Run every scenario; return the results by name."""
    return {name: to_json(perform(Order(load(name), jobs=1))) for name in SCENARIOS}


def page(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page on these results."""
    checks = [check for name in SCENARIOS for check in results[name]["checks"]]
    return "\n".join([*_head(checks), *_rows(results), *_without(), *_numbers(), ""])


INTRODUCTION = """# Publish: the measurements of RFC-013 beside the simulation

`python -m bench.rfc_013` writes this page; `tests/sim/scenarios/test_rfc_013.py` compares it with a new run.
One description, `sim/scenarios/library/paths/rfc-013.toml`, gives all simulated figures. The scenarios differ
in what was measured only: build, depth, state of the tables, distance and cap.

| rows | of them |
|---|---|"""
REASONS = """
A row outside of its tolerance has to stay outside: its check fails once the reason is no longer needed."""


def _head(checks: list[Mapping[str, Any]]) -> Iterator[str]:
    missed = [check for check in checks if check["misses"]]
    taken = [check for check in checks if check["basis"] and not check["misses"]]
    predicted = [check for check in checks if not check["basis"] and not check["misses"]]
    yield INTRODUCTION
    yield f"| {len(checks)} | published figures with a simulated counterpart |"
    yield f"| {len(predicted)} | predicted within the tolerance; the widest error is {_widest(predicted)} |"
    yield f"| {len(taken)} | within the tolerance, but a number of the path was taken from the row |"
    yield f"| {len(missed)} | outside of the tolerance, each with its reason |"
    yield f"| {len(WITHOUT_SCENARIO)} | more figures whose circumstances the account does not give |"
    yield REASONS


def _widest(checks: list[Mapping[str, Any]]) -> str:
    return f"{100 * max(abs(check['error']) for check in checks):.1f} %"


HEAD = """\
| section | measurement | published | simulated | error | tolerance | number taken from it, or why it misses |
|---|---|---:|---:|---:|---:|---|"""


def _rows(results: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name in SCENARIOS:
        yield ""
        yield f"## {results[name]['title'].removeprefix('RFC-013: ').capitalize()}"
        yield ""
        yield f"`fencepost simulate {name} -v`"
        yield ""
        yield HEAD
        for check in results[name]["checks"]:
            cells = (
                check["source"],
                check["name"],
                _figure(check["reference"], check["unit"]),
                _figure(check["simulated"], check["unit"]),
                f"{100 * check['error']:+.1f} %",
                f"{100 * check['tolerance']:g} %",
                f"misses: {check['misses']}" if check["misses"] else check["basis"] or check["says"],
            )
            yield f"| {' | '.join(cells)} |"


def _figure(value: float, unit: str) -> str:
    if unit == "ms":
        return f"{value / 1000:,.2f} s"
    return f"{value:,.10g}" if value == int(value) else f"{value:,.2f}"


def _without() -> Iterator[str]:
    yield ""
    yield "## Figures without a counterpart"
    yield ""
    yield "| section | published | of | why it has no simulated counterpart |"
    yield "|---|---|---|---|"
    for figure, subject, section, reason in WITHOUT_SCENARIO:
        yield f"| {section} | {figure} | {subject} | {reason} |"


def _numbers() -> Iterator[str]:
    path = load(SCENARIOS[0]).path
    assert path is not None
    fitted = [name for name, origin in path.origins.items() if origin.startswith("fitted")]
    times = [f"{step.compute_ns / 1e9:g} s before `{step.name}`" for step in path.steps if step.compute_ns]
    times.append(f"{path.compute_per_request_ns / 1e6:g} ms for each request")
    yield f"""
## Numbers of the path

{len(path.parameters)} parameters, of which {len(fitted)} are fitted to measurements and the others stated in
the account or read from the structure of the path, and {len(times)} times that are fitted:
{", ".join(times)}.

Three settings of scenarios are chosen as well: the depth of the branches and of production, which is the
deepest of the other series; 64 requests in flight at most, the default of the storage library, for the
published 65; and the 280 ms of production, which the account derives from the 35 s of one write.

Which steps wait for one another is the structure of the path: scans of fragments are parallel, all other
requests serial.

| parameter | value | from |
|---|---:|---|"""
    for name, value in path.parameters.items():
        yield f"| `{name}` | {value:g} | {path.origins.get(name, '')} |"


def main(words: Iterable[str]) -> int:
    text = page(simulated())
    if "--check" in words:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The page as a whole: one file, which fetches nothing, from the results of a folder.

The sections have the order of a review: verdicts, the effect of the change, broken objectives and
counterexamples first; then safeguards, coverage, cost and speed; the origin of the results last.
"""

import base64
import hashlib
from collections.abc import Callable
from importlib import resources

from fencepost.reports.folder import Findings
from fencepost.reports.page import measurements, protocols, verdicts
from fencepost.reports.page.elements import Markup, each, join, tag
from fencepost.reports.page.sequence import styles
from fencepost.results import (
    AuditResult,
    CheckResult,
    CompareResult,
    MutantsResult,
    ProbeResult,
    ReplayResult,
    SimulateResult,
    ZooResult,
)

BYTES_MAX = 5_000_000
"""Of the page, however large the runs were."""

SECTIONS: tuple[tuple[str, str, Callable[[Findings], Markup | None]], ...] = (
    ("verdicts", "Verdicts", verdicts.verdicts),
    ("stages", "Stages of the audits", each((AuditResult, verdicts.stages))),
    ("changes", "What the change did", each((CompareResult, verdicts.comparison))),
    ("objectives", "Objectives", verdicts.objectives),
    ("counterexamples", "Counterexamples", protocols.counterexamples),
    ("expected", "Expected violations", protocols.expected_violations),
    ("safeguards", "Safeguards", each((ZooResult, protocols.zoo), (MutantsResult, protocols.mutants))),
    ("states", "State graphs", protocols.states),
    (
        *("coverage", "Coverage"),
        each((CheckResult, protocols.model_coverage), (AuditResult, protocols.program_coverage)),
    ),
    ("costs", "Cost contract", protocols.costs),
    ("simulations", "Capacity", each((SimulateResult, measurements.scenario))),
    ("replays", "Replayed traces", each((ReplayResult, measurements.replay))),
    ("probes", "Stores", each((ProbeResult, measurements.store))),
    ("provenances", "How it was made", verdicts.provenances),
)


def page(found: Findings, *, title: str = "Fencepost report") -> str:
    """The HTML text."""
    parts = [(name, heading, html) for name, heading, make in SECTIONS if (html := make(found)) is not None]
    body = join(
        tag("a", "Skip to the verdicts", href="#verdicts", class_="skip"),
        tag(
            "header",
            tag("h1", title),
            verdicts.banner(found),
        ),
        tag(
            "nav",
            tag("ul", [_link(*part) for part in parts]),
            aria_label="Sections",
        ),
        tag("main", [_part(name, heading, html) for name, heading, html in parts]),
        _tip(),
    )
    text = _document(title, body)
    size = len(text.encode())
    if size > BYTES_MAX:
        return _shortened(title, parts, size)
    return text


def _link(name: str, heading: str, content: Markup) -> Markup:
    """A line of the navigation, with the number of results or counterexamples in the section."""
    count = content.count("<article")
    return tag("li", tag("a", heading, href=f"#{name}"), f" {count}" if count else None)


def _part(name: str, heading: str, content: Markup) -> Markup:
    return tag(
        "section",
        tag("h2", heading, id=f"{name}-heading"),
        content,
        id=name,
        aria_labelledby=f"{name}-heading",
    )


def _shortened(title: str, parts: list[tuple[str, str, Markup]], size: int) -> str:
    """The sections that fit, in their order; the others are named."""
    kept: list[Markup] = []
    left: list[str] = []
    room = BYTES_MAX - 200_000
    for name, heading, html in parts:
        length = len(html.encode())
        if length > room:
            left.append(heading)
            continue
        room -= length
        kept.append(_part(name, heading, html))
    note = tag(
        "p",
        f"The whole page would have {size:,} bytes. Left out: {', '.join(left)}. "
        "Give fencepost report a folder with fewer results.",
        class_="warning",
    )
    return _document(title, join(tag("header", tag("h1", title), note), tag("main", *kept), _tip()))


def _tip() -> Markup:
    """The end of an arrow, shared by the pictures."""
    marker = tag(
        "marker",
        tag("path", d="M0 0 L8 4 L0 8 Z"),
        id="tip",
        viewBox="0 0 8 8",
        refX=6,
        refY=4,
        markerWidth=7,
        markerHeight=7,
        orient="auto",
    )
    return tag(
        "svg", tag("defs", marker), width=0, height=0, aria_hidden="true", class_="defs", focusable="false"
    )


def _document(title: str, body: Markup) -> str:
    style, script = _asset("style.css") + styles(), _asset("script.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    html = tag("html", tag("head", head), tag("body", body, tag("script", Markup(script))), lang="en")
    return f"<!DOCTYPE html>\n{html}\n"


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """For the content security policy: nothing in a result can become a script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

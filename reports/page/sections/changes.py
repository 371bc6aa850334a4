"""What a change made better or worse: the audit at two revisions."""

from fencepost.reports.page.elements import Markup, join, tag
from fencepost.reports.page.found import Findings, Result
from fencepost.reports.page.sections.pieces import anchor, table, verdict

SIGNS = {"worse": "violated", "better": "holds", "other": "undecided"}


def section(found: Findings) -> Markup | None:
    """A table for each comparison."""
    parts = [_comparison(result) for result in found.of("compare")]
    return join(*parts) if parts else None


def _comparison(result: Result) -> Markup:
    data = result.data
    rows = [
        (
            change["what"],
            verdict(SIGNS[change["judged"]], change["judged"]),
            change["before"],
            change["after"],
        )
        for change in data["changes"]
    ]
    base = str(data["base"])[:12]
    return tag(
        "article",
        tag("h3", result.title, id=anchor(result)),
        table(f"Against {base}", ("what", "is", f"at {base}", "now"), rows)
        if rows
        else tag("p", verdict("holds", f"Nothing is different from {base}")),
    )

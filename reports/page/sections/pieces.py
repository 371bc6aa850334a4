"""What several sections draw alike: verdicts, tables, folded parts, regions that scroll."""

from collections.abc import Iterable, Sequence

from fencepost.reports.page.elements import Content, Markup, tag
from fencepost.reports.page.found import Result

SIGNS = {
    "holds": ("good", "✓"),
    "safe": ("good", "✓"),
    "violated": ("bad", "✗"),
    "unsafe": ("bad", "✗"),
    "undecided": ("open", "?"),
    "unsupported": ("open", "-"),
}
ROWS_MAX = 200
"""Of one table: keeps the page small however much there is to tell."""


def verdict(word: str, said: str = "") -> Markup:
    """A verdict: told by its word and its sign, not by colour alone."""
    kind, sign = SIGNS.get(word, ("open", "?"))
    return tag("span", tag("span", f"{sign} ", aria_hidden="true"), said or word, class_=f"verdict {kind}")


def anchor(result: Result) -> str:
    """Where on the page a result is told."""
    return "r-" + "".join(c if c.isalnum() else "-" for c in result.file)


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[Content]], *, numbers: str = ""
) -> Markup:
    """A table whose first column names its rows. `numbers` has an `n` for each column of numbers."""
    cells = list(rows)
    left_out = max(0, len(cells) - ROWS_MAX)
    kinds = [("n" if at < len(numbers) and numbers[at] == "n" else None) for at in range(len(head))]
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            (tag("td", c, class_=k) for c, k in zip(row[1:], kinds[1:], strict=True)),
        )
        for row in cells[:ROWS_MAX]
    ]
    if left_out:
        body.append(
            tag("tr", tag("td", f"and {left_out:,} more, in the results themselves", colspan=len(head)))
        )
    return scrolling(
        tag(
            "table",
            tag("caption", caption),
            tag(
                "thead",
                tag(
                    "tr",
                    (tag("th", name, scope="col", class_=k) for name, k in zip(head, kinds, strict=True)),
                ),
            ),
            tag("tbody", body),
        ),
        caption,
    )


def scrolling(content: Content, label: str) -> Markup:
    """What may be wider than the screen scrolls by itself, by touch and by keyboard."""
    return tag("div", content, class_="scroll", role="region", aria_label=label, tabindex=0)


def folded(summary: Content, *content: Content, open_: bool = False) -> Markup:
    """A part that is opened when wanted; open in print."""
    return tag("details", tag("summary", summary), *content, open=open_)


def amount(value: object) -> str:
    """Numbers with separators, few digits behind the point; everything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"

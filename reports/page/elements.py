"""HTML and SVG as values that escape themselves, and the pieces that sections share.

    tag("td", "a < b", title="3 & 4")      # <td title="3 &amp; 4">a &lt; b</td>
    tag("ul", (tag("li", name) for name in names))

A string is text and is escaped; the result of `tag` is markup and is not. So a key, an error message or a
body that somebody else chose can never become markup.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fencepost.reports.folder import Entry, Findings
from fencepost.reports.media import for_html

VOID = frozenset({"br", "col", "hr", "input", "link", "meta"})
SIGNS = {
    "holds": ("good", "✓"),
    "safe": ("good", "✓"),
    "violated": ("bad", "✗"),
    "unsafe": ("bad", "✗"),
    "error": ("bad", "!"),
    "undecided": ("open", "?"),
    "unsupported": ("open", "-"),
}
ROWS_MAX = 200
"""Of one table: keeps the page small however much there is to show."""


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Content = str | int | float | Iterable["Content"] | None


def tag(name: str, /, *content: Content, **attributes: object) -> Markup:
    """An element. `class_` and `for_` lose their underscore, other underscores become hyphens; an attribute
    that is None or False is left out, one that is True has no value."""
    head = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        assert not content, f"<{name}> holds nothing"
        return Markup(f"<{head}>")
    return Markup(f"<{head}>{join(*content)}</{name}>")


def join(*content: Content) -> Markup:
    """Several pieces after one another."""
    return Markup("".join(_text(piece) for piece in content))


def _text(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return for_html(content)
    if isinstance(content, int | float):
        return str(content)
    return "".join(_text(piece) for piece in content)


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_") if key.endswith("_") else key.replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {name}="{for_html(text)}"'


def verdict(word: str, text: str = "") -> Markup:
    """A verdict, recognizable by its word and its sign, not by colour alone."""
    kind, sign = SIGNS.get(word, ("open", "?"))
    return tag("span", tag("span", f"{sign} ", aria_hidden="true"), text or word, class_=f"verdict {kind}")


def anchor(entry: Entry) -> str:
    """The id of a result on the page."""
    return "r-" + "".join(c if c.isalnum() else "-" for c in entry.file)


def article(entry: Entry, *content: Content) -> Markup:
    """The part of a section about one result."""
    return tag("article", tag("h3", entry.title, id=anchor(entry)), *content)


def each(*parts: tuple[type[Any], Callable[[Entry], Markup]]) -> Callable[[Findings], Markup | None]:
    """A section: what is rendered of every result of each type; None when there is none."""
    return lambda found: join(*(render(entry) for kind, render in parts for entry in found.of(kind))) or None


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[Content]], *, numbers: str = ""
) -> Markup:
    """A table whose first column names its rows. `numbers` has an `n` for each column of numbers.

    A cell carries the name of its column: on a phone a row becomes a block, with a line for each cell.
    """
    cells = list(rows)
    left_out = max(0, len(cells) - ROWS_MAX)
    kinds = [("n" if at < len(numbers) and numbers[at] == "n" else None) for at in range(len(head))]
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            (
                tag("td", cell, class_=kind, data_head=name)
                for cell, kind, name in zip(row[1:], kinds[1:], head[1:], strict=True)
            ),
        )
        for row in cells[:ROWS_MAX]
    ]
    if left_out:
        more = f"and {left_out:,} more, in the results themselves"
        body.append(tag("tr", tag("td", more, colspan=len(head))))
    heads = (tag("th", name, scope="col", class_=k) for name, k in zip(head, kinds, strict=True))
    whole = tag("table", tag("caption", caption), tag("thead", tag("tr", heads)), tag("tbody", body))
    return scrolling(whole, caption)


def scrolling(content: Content, label: str) -> Markup:
    """Wrap content that may be wider than the screen in a region that scrolls by touch and keyboard."""
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

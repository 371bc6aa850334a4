"""HTML and SVG as values that escape themselves.

    tag("td", "a < b", title="3 & 4")      # <td title="3 &amp; 4">a &lt; b</td>
    tag("ul", (tag("li", name) for name in names))

A string is text and is escaped; what `tag` answers is markup and is not. So a key, an error message or a
body that somebody else chose can never become markup.
"""

import html
from collections.abc import Iterable

from fencepost.reports.quantities import printable

VOID = frozenset({"br", "col", "hr", "input", "link", "meta"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Content = str | int | float | Iterable["Content"] | None


def tag(name: str, /, *content: Content, **attributes: object) -> Markup:
    """An element. `class_` and `for_` lose their underscore, other underscores become hyphens; an attribute
    that is None or False is left out, one that is True stands alone."""
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
        return html.escape(printable(content), quote=False)
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
    return f' {name}="{html.escape(printable(text))}"'

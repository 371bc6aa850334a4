"""Markup escapes itself: a key or an error message of somebody else never becomes part of the page."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from fencepost.reports.page.elements import Markup, join, tag


def test_text_is_escaped_and_markup_is_not() -> None:
    assert tag("td", "a < b & c", tag("b", "d")) == "<td>a &lt; b &amp; c<b>d</b></td>"


def test_attributes() -> None:
    """The last one is how a quote in a title would break out."""
    assert tag("a", "x", class_="c", aria_label="l", open=True, hidden=False, id=None) == (
        '<a class="c" aria-label="l" open>x</a>'
    )
    assert tag("a", title='"><script>') == '<a title="&quot;&gt;&lt;script&gt;"></a>'
    assert tag("rect", x=1.0, y=0.30000000001) == '<rect x="1" y="0.3"></rect>'


def test_pieces_join() -> None:
    assert join("a", None, ["<", Markup("<b>")], 3) == "a&lt;<b>3"


class Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.text = ""

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((name, attributes))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(
    st.text(st.characters(exclude_categories=["C", "Z"])),
    st.text(st.characters(exclude_categories=["C", "Z"])),
)
def test_whatever_the_text_a_parser_reads_it_back(text: str, title: str) -> None:
    """And sees exactly the one element that was made."""
    seen = Seen()
    seen.feed(tag("p", text, title=title))
    seen.close()
    assert seen.tags == [("p", [("title", title)])]
    assert seen.text == text


def test_control_characters_are_shown() -> None:
    """HTML forbids them, and a key may hold them."""
    assert tag("b", "a\x00\x1b[31m\n") == "<b>a\\x00\\x1b[31m\n</b>"

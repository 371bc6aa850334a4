"""A result in a notebook: its page in a frame of its own, so that neither changes the looks of the other."""

from typing import Any

from fencepost.reports.folder import Entry, Findings
from fencepost.reports.page.elements import Markup, tag
from fencepost.reports.page.page import page
from fencepost.results import Recorded

STYLE = "width:100%;height:32rem;border:0"


def notebook_html(recorded: Recorded[Any]) -> Markup:
    """The frame. Its content fetches nothing, as the page does not."""
    entry = Entry("result.json", recorded.result, provenance=recorded.provenance)
    text = page(Findings([entry]), title=entry.title)
    return tag("iframe", srcdoc=text, title=entry.title, style=STYLE)

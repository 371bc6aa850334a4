"""A result in a notebook is its page, in a frame."""

import html
import json
from pathlib import Path

import pytest

from fencepost.reports.folder import Entry, Findings
from fencepost.reports.page.page import page
from fencepost.results import ProbeResult, read_result
from tests.reports.samples import PROBE


def test_a_result_shows_itself(tmp_path: Path) -> None:
    file = tmp_path / "probe.json"
    file.write_text(json.dumps(PROBE))
    result = read_result(file)
    assert isinstance(result.result, ProbeResult)
    shown = result._repr_html_()
    assert shown.startswith("<iframe ")
    assert (
        html.escape(page(Findings([Entry("result.json", result.result)]), title="probe memory://")) in shown
    )


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("[]")
    with pytest.raises(ValueError, match="no result"):
        read_result(file)

"""The picture of what happened over time."""

from fencepost.reports.timeline import Chart, figures

CHARTS = [
    Chart("lag", "hours", {"ages": [(0.0, 0.1), (1.0, 0.2)]}),
    Chart("requests", "", {"HEAD": [(0.0, 3.0)], "DELETE": [(0.0, 1.0)]}),
]


def test_it_has_every_line_and_every_kind_of_span_and_repeats_itself() -> None:
    spans = [("endpoints down", 0.2, 0.4), ("disk full", 0.5, 0.6), ("endpoints down", 0.7, 0.8)]
    found = figures("a week", "days", CHARTS, spans)
    assert found == figures("a week", "days", CHARTS, spans)
    assert found["png"].startswith(b"\x89PNG")
    text = found["svg"].decode()
    for shown in (
        "a week",
        "days",
        "lag",
        "hours",
        "requests",
        "HEAD",
        "DELETE",
        "endpoints down",
        "disk full",
    ):
        assert f"<!-- {shown} -->" in text, shown
    assert text.count("<!-- endpoints down -->") == 1

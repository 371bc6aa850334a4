"""Charts over one time axis, above each other, with the spans in which something happened shaded.

    figures("a week", "days", [Chart("lag", "hours", {"ages": [(0, 0.1), (1, 0.2)]})], [("down", 0.2, 0.4)])

The bytes depend on the arguments alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fencepost.reports.simulation_plots import METADATA, STYLE, image

SHADES = ("#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf")
WIDTH_IN, CHART_HEIGHT_IN = 10.0, 2.2


@dataclass(frozen=True)
class Chart:
    title: str
    unit: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    """Times and values, by the name of the line."""


def figures(
    title: str, label: str, charts: Sequence[Chart], spans: Sequence[tuple[str, float, float]] = ()
) -> dict[str, bytes]:
    """Return the picture in each format, by the ending of its file; `label` is that of the time axis."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(name for name, _, _ in spans))
    height = CHART_HEIGHT_IN * len(charts) + 0.6
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(
            len(charts), 1, figsize=(WIDTH_IN, height), sharex=True, layout="constrained", squeeze=False
        )
        figure.suptitle(title)
        for axis, chart in zip(axes.flat, charts, strict=True):
            for name, since, until in spans:
                axis.axvspan(since, until, color=SHADES[names.index(name) % len(SHADES)], alpha=0.15, lw=0)
            for name, points in chart.lines.items():
                axis.plot([x for x, _ in points], [y for _, y in points], label=name, lw=1)
            axis.set_title(chart.title)
            axis.set_ylabel(chart.unit)
            axis.set_ylim(bottom=0)
            axis.grid(visible=True, alpha=0.3)
            if len(chart.lines) > 1:
                axis.legend(fontsize=7, loc="upper right")
        axes.flat[-1].set_xlabel(label)
        shades = [mpl.patches.Patch(color=SHADES[at % len(SHADES)], alpha=0.3) for at in range(len(names))]
        if names:
            figure.legend(shades, names, loc="outside lower center", ncols=3, fontsize=7)
        files = {kind: image(figure, kind) for kind in METADATA}
        plt.close(figure)
    return files

"""One line in the terminal that says how far a check has come."""

from rich.console import Console

from fencepost.commands.terminal import StatusLine
from fencepost.model import Progress
from fencepost.reports.quantities import amount, byte_size


class Line(StatusLine):
    """Depth, states and pace; it remembers the last, for whoever stops the check."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.last = Progress(0, 0, 0, 0, 0.0, 0)

    def show(self, at: Progress) -> None:
        self.last = at
        rate = at.distinct / at.seconds if at.seconds else 0
        self.show_text(
            f"depth {at.depth}, frontier {amount(at.frontier)}, distinct {amount(at.distinct)}, "
            f"generated {amount(at.generated)}, {amount(round(rate))}/s, {byte_size(at.held_bytes)}"
        )

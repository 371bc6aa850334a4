"""A run as a picture: a lane for each process on the left, a lane for each key on the right, time downwards.

A request is a dot where it was sent, a rail beside its process while it was under way, and an arrow to its
key at the moment it took effect. Requests that overtake it appear beside its rail, so no line crosses the
picture. The arrow is labelled with the condition and the version that it names. The content of a key
is shown in its lane when it changes: the short name of the version, the one it replaces, and the trace
fields of its body (epoch, plan). A reply that was lost ends in a cross before it reaches its process; a
crash ends the lane.

The page has the same steps as a list next to the picture, for readers who cannot see it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.reports.page.elements import Markup, join, tag

PROCESS_WIDTH = 170
KEY_WIDTH = 200
ROW_HEIGHT = 40
TOP = 64
ROWS_MAX = 80
"""Of one picture. A longer run shows how it begins and how it ends."""
KEYS_MAX = 7
"""Keys with a lane of their own; the others share one."""
OTHERS = "other keys"
SHRINKS_TO = 0.7
"""Share of its width to which a picture shrinks on a narrow screen before it scrolls."""
WIDTHS = range(200, 2001, 100)
"""Pixels to which pictures shrink, a class of styles each: the page allows no style of one element."""
NAME_LENGTH = 19
HELD_LENGTH = 30
RAIL = 14
"""Pixels between the lane of a process and the rail of a request under way."""

Event = Mapping[str, Any]


def styles() -> str:
    """Return the rules of the classes by which pictures keep a width on a screen."""
    rules = "".join(f" svg.at-least-{width} {{ min-width: {width}px; }}" for width in WIDTHS)
    return f"@media screen {{{rules} }}\n"


def _at_least(width: float) -> str:
    """Return the class of a picture that is so wide where it has the room."""
    fitting = [one for one in WIDTHS if one <= width * SHRINKS_TO]
    return f"at-least-{fitting[-1]}"


@dataclass
class Row:
    """One moment: a request landed or was answered, a note, or a fault."""

    kind: str
    """`request`, `answer`, `note`, `fault`."""
    process: str
    text: str
    key: str = ""
    issued: float = 0.0
    """The row at which the request had been issued."""
    outcome: str = ""
    answered: bool = False
    lost: bool = False
    holds: str = ""
    """The content of the key after a request that changed it."""
    difference: str = ""
    """The difference from the previous content."""


@dataclass
class _Open:
    row: float
    text: str
    event: Event


@dataclass
class _Reader:
    rows: list[Row] = field(default_factory=list)
    open: dict[int, _Open] = field(default_factory=dict)
    last_landed: int = -1
    contents: dict[str, Event] = field(default_factory=dict)
    """The last write of each key: what a body differs from."""

    def take(self, event: Event) -> None:
        phase = event.get("phase", "")
        handler = {
            "request": self._request,
            "landed": self._landed,
            "response": self._response,
            "note": self._note,
        }.get(phase)
        if handler is not None:
            handler(event)
        if phase != "request":
            self.last_landed = event.get("op", -1) if phase == "landed" else -1

    def _request(self, event: Event) -> None:
        self.open[event.get("op", -1)] = _Open(len(self.rows) - 0.45, request_text(event), event)

    def _opened(self, event: Event) -> _Open:
        found = self.open.get(event.get("op", -1))
        return found or _Open(len(self.rows) - 0.45, request_text(event), event)

    def _landed(self, event: Event) -> None:
        opened = self._opened(event)
        key, held = str(event.get("key", "")), _held(event, opened.event)
        written = {**opened.event, **event}
        self.rows.append(
            Row(
                "request",
                str(event.get("process", "")),
                opened.text,
                key=key,
                issued=opened.row,
                outcome=str(event.get("outcome", "")),
                holds=held,
                difference=difference(self.contents.get(key), written) if held else "",
            )
        )
        if held:
            self.contents[key] = written

    def _response(self, event: Event) -> None:
        outcome = str(event.get("outcome", ""))
        lost = outcome == "unknown"
        if self.last_landed == event.get("op", -2):
            row = self.rows[-1]
            row.answered, row.lost = True, lost
            row.outcome = outcome if not lost else row.outcome
            return
        opened = self._opened(event)
        key = str(event.get("key", ""))
        self.rows.append(
            Row("answer", str(event.get("process", "")), opened.text, key, outcome=outcome, lost=lost)
        )

    def _note(self, event: Event) -> None:
        kind, note = str(event.get("kind", "")), str(event.get("note", ""))
        process = str(event.get("process", ""))
        if kind == "note":
            self.rows.append(Row("note", process, f"{event.get('key', '')}: {note}"))
        elif kind == "end":
            self.rows.append(Row("note", process, f"returns {note}" if note != "None" else "returns"))
        else:
            crash = "crash" in (kind, note)
            self.rows.append(Row("fault", process, "CRASH" if crash else note or kind))


def rows_of(events: Sequence[Event]) -> list[Row]:
    """The moments of a run, in their order."""
    reader = _Reader()
    for event in events:
        reader.take(event)
    return reader.rows


def request_text(event: Event) -> str:
    """`put if absent`, `put if 9f9d51`: the request without its key, which is the lane."""
    named = str(event.get("etag", ""))[:6] or "as given"
    words = {
        "absent": " if absent",
        "matches": f" if {named}",
        "anything": " unconditionally" if event.get("kind") != "delete" else "",
        "only-if": f" if {named}",
        "unless": f" unless {named}",
    }
    return f"{event.get('kind', '')}{words.get(str(event.get('condition', '')), '')}"


def difference(before: Event | None, after: Event) -> str:
    """Describe the effect of a write on a key: changes of trace fields, of the version, else of the size."""
    if before is None or str(before.get("kind", "")).startswith("delete"):
        return "" if str(after.get("kind", "")).startswith("delete") else "new"
    was = f"was {str(before.get('etag', '') or before.get('hash', ''))[:6] or 'another'}"
    if str(after.get("kind", "")).startswith("delete"):
        return was
    old, new = (
        dict(pair.split("=", 1) for pair in str(one.get("trace_fields", "")).split() if "=" in pair)
        for one in (before, after)
    )
    parts = [
        f"{name} {old.get(name, 'none')} → {new.get(name, 'none')}"
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    ]
    if not parts and before.get("size") != after.get("size"):
        parts = [f"{before.get('size', '?')} → {after.get('size', '?')} bytes"]
    return ", ".join([*parts, was])


def moments(events: Sequence[Event]) -> int:
    """The number of moments that `diagram` draws."""
    return min(len(rows_of(events)), ROWS_MAX + 1)


WRITES = ("put", "complete", "delete", "copy")


def _held(landed: Event, request: Event) -> str:
    kind = str(landed.get("kind", ""))
    if landed.get("outcome", "done") != "done" or not kind.startswith(WRITES):
        return ""
    if kind.startswith("delete"):
        return "(deleted)"
    name = str(landed.get("etag", "") or request.get("hash", ""))[:6]
    trace_fields = str(landed.get("trace_fields", "") or request.get("trace_fields", ""))
    return f"{name} {trace_fields}".strip() or "written"


def _decisive(row: Row) -> str:
    """Return what a picture shows of a write first: which state became which, else what is there now."""
    changed = row.difference.rpartition(", was ")[0]
    if changed:
        return changed
    fields = row.holds.partition(" ")[2]
    return f"{fields or row.holds}{f' ({row.difference})' if row.difference else ''}"


def shortened(text: str, length: int) -> str:
    """Keeps the end, which distinguishes names with a common beginning."""
    return text if len(text) <= length else f"…{text[1 - length :]}"


def shortened_end(text: str, length: int) -> str:
    """Keeps the beginning."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def diagram(events: Sequence[Event], title: str, *, number: str) -> Markup:
    """The picture. `number` makes its ids unique on the page."""
    rows = rows_of(events)
    left_out = max(0, len(rows) - ROWS_MAX)
    if left_out:
        head = ROWS_MAX // 4
        gap = Row("gap", "", f"{left_out} moments are left out here")
        rows = [*rows[:head], gap, *rows[head + left_out :]]
        for at, row in enumerate(rows[head + 1 :], start=head + 1):
            row.issued = max(row.issued - left_out + 1, float(head)) if row.issued > head else at - 0.45
    return _Drawing(rows, title, number).svg()


class _Drawing:
    def __init__(self, rows: list[Row], title: str, number: str) -> None:
        self._rows, self._title, self._number = rows, title, number
        names = [row.process for row in rows if row.process not in ("", "clock")]
        self._processes = list(dict.fromkeys(names))
        keys = list(dict.fromkeys(row.key for row in rows if row.key))
        self._shared = keys[KEYS_MAX:] if len(keys) > KEYS_MAX + 1 else []
        self._keys = [key for key in keys if key not in self._shared] + ([OTHERS] if self._shared else [])
        self._width = PROCESS_WIDTH * len(self._processes) + KEY_WIDTH * len(self._keys) + 20
        self._height = TOP + ROW_HEIGHT * len(rows) + 24

    def svg(self) -> Markup:
        title, about = f"{self._number}-title", f"{self._number}-about"
        lanes = f"{len(self._processes)} processes, {len(self._keys)} keys, {len(self._rows)} moments"
        return tag(
            "svg",
            tag("title", self._title, id=title),
            tag("desc", f"Sequence diagram: {lanes}. The list of steps has the same content.", id=about),
            self._lanes(),
            (self._row(at, row) for at, row in enumerate(self._rows)),
            viewBox=f"0 0 {max(self._width, 320)} {self._height}",
            width=max(self._width, 320),
            height=self._height,
            role="img",
            aria_labelledby=f"{title} {about}",
            class_=f"sequence {_at_least(max(self._width, 320))}",
        )

    def _x(self, process: str) -> float:
        return 10 + PROCESS_WIDTH * (self._processes.index(process) + 0.5)

    def _key_x(self, key: str) -> float:
        lane = key if key in self._keys else OTHERS
        return 10 + PROCESS_WIDTH * len(self._processes) + KEY_WIDTH * (self._keys.index(lane) + 0.5)

    def _y(self, row: float) -> float:
        return TOP + ROW_HEIGHT * (row + 0.5)

    def _lanes(self) -> Iterator[Markup]:
        for name in self._processes:
            yield from self._lane(self._x(name), name, "process", PROCESS_WIDTH - 14)
        for name in self._keys:
            yield from self._lane(self._key_x(name), name, "key", KEY_WIDTH - 14)

    def _lane(self, x: float, name: str, kind: str, width: float) -> Iterator[Markup]:
        yield tag("line", x1=x, x2=x, y1=44, y2=self._height - 8, class_=f"lane {kind}")
        yield tag("rect", x=x - width / 2, y=14, width=width, height=30, rx=5, class_=f"head {kind}")
        shown = shortened(name, NAME_LENGTH)
        label = tag("text", shown, x=x, y=34, text_anchor="middle", class_=f"name {kind}")
        yield label if shown == name else tag("g", tag("title", name), label)

    def _row(self, at: int, row: Row) -> Markup:
        draw = {"request": self._request, "answer": self._answer, "gap": self._gap}.get(row.kind, self._mark)
        return tag(
            "g", draw(at, row), class_=f"row {row.kind}", data_row=at + 1, id=f"{self._number}-m{at + 1}"
        )

    def _request(self, at: int, row: Row) -> Iterator[Markup]:
        x, y, key_x = self._x(row.process), self._y(at), self._key_x(row.key)
        at_once = row.issued > at - 0.5
        if at_once:
            yield tag("line", x1=x, y1=y - 4, x2=key_x - 5, y2=y - 4, class_="sent")
        else:
            issued, rail = self._y(row.issued), x - RAIL - 5 * (at % 3)  # several can be under way
            yield tag("circle", cx=x, cy=issued, r=2.5, class_="issued")
            yield tag(
                "path",
                tag("title", f"under way since moment {int(row.issued + 1.5)}"),
                d=f"M{x:g} {issued:g} H{rail:g} V{y - 4:g} H{key_x - 5:g}",
                class_="sent",
            )
        yield _head(key_x, y - 4, right=True)
        yield from self._label(x + 8, y - 10, f"{row.text} → {row.outcome}" if row.outcome else row.text, row)
        if row.answered:
            end = (x + (key_x - x) * 0.4) if row.lost else x + 5
            yield tag(
                "line", x1=key_x, y1=y + 6, x2=end, y2=y + 10, class_="reply lost" if row.lost else "reply"
            )
            yield _cross(end, y + 10) if row.lost else _head(x, y + 10, right=False)
        if row.holds:
            yield tag("rect", x=key_x - 94, y=y - 1, width=188, height=20, rx=4, class_="held")
            shown = shortened_end(_decisive(row), HELD_LENGTH)
            yield tag(
                "g",
                tag("title", f"{row.holds}{f': {row.difference}' if row.difference else ''}"),
                tag("text", shown, x=key_x, y=y + 13, text_anchor="middle", class_="held"),
            )

    def _answer(self, at: int, row: Row) -> Iterator[Markup]:
        x, y = self._x(row.process), self._y(at)
        key_x = self._key_x(row.key) if row.key else x + PROCESS_WIDTH / 2
        end = (x + (key_x - x) * 0.4) if row.lost else x + 5
        if not row.lost:
            yield tag("line", x1=key_x, y1=y, x2=end, y2=y, class_="reply")
            yield _head(x, y, right=False)
        else:
            yield tag("line", x1=x, y1=y, x2=end, y2=y, class_="sent lost")
            yield _cross(end, y)
        yield from self._label(x + 8, y - 6, f"{row.text} → {row.outcome}", row)

    def _mark(self, at: int, row: Row) -> Iterator[Markup]:
        y = self._y(at)
        if row.process not in self._processes:
            yield tag("line", x1=10, x2=self._width - 10, y1=y, y2=y, class_="time")
            yield tag("text", row.text, x=14, y=y - 4, class_="time")
            return
        x = self._x(row.process)
        yield _cross(x, y, 7) if row.kind == "fault" else tag("circle", cx=x, cy=y, r=4, class_="note")
        yield tag("text", shortened(row.text, 60), x=x + 11, y=y + 4, class_=f"caption {row.kind}")

    def _gap(self, at: int, row: Row) -> Iterator[Markup]:
        yield tag("text", row.text, x=self._width / 2, y=self._y(at) + 4, text_anchor="middle", class_="time")

    def _label(self, x: float, y: float, text: str, row: Row) -> Iterator[Markup]:
        kind = "lost" if row.lost else "refused" if row.outcome not in ("done", "") else "done"
        yield tag(
            "text", f"{text}{', reply lost' if row.lost and row.answered else ''}", x=x, y=y, class_=kind
        )


def _head(x: float, y: float, *, right: bool) -> Markup:
    back = x - 8 if right else x + 8
    return tag("path", d=f"M{x:g} {y:g} L{back:g} {y - 4:g} L{back:g} {y + 4:g} Z", class_="arrow")


def _cross(x: float, y: float, size: float = 5) -> Markup:
    return join(
        tag("line", x1=x - size, y1=y - size, x2=x + size, y2=y + size, class_="cross"),
        tag("line", x1=x - size, y1=y + size, x2=x + size, y2=y - size, class_="cross"),
    )

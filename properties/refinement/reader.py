"""Events of one run as letters: names are renamed to ranks, and the rest is looked up.

What an event looks like apart from names (its *form*) is worked out once for all runs that a `Lens` serves;
a `Reader` holds the names of one run. Both keep what they have seen, so that most events cost two
look-ups in dictionaries.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.properties.refinement.automaton import Automaton
from holdfast.properties.refinement.refinement import SILENT, Refinement
from holdfast.properties.refinement.sighting import SEEN, Role, Sighting

PROCESS, LIFE = "process", "life"
"""Values that every event has: its process, and the process with restarts told apart."""

FORMS_MAX = 1 << 18
"""Forms that are remembered; names of their own make every run's different."""

Looks = tuple[str, str, str, str, str, str]
"""Phase, kind, key, condition, outcome, facts: what the columns of an event say without its process."""


@dataclass(frozen=True, slots=True)
class Played:
    """A value in its role."""

    role: int
    within: str
    name: str
    text: str
    lookup: bool


@dataclass(frozen=True, slots=True)
class Form:
    """An event without its names."""

    number: int
    bare: Sighting
    played: tuple["Played", ...]
    owned: str
    """The text of the value that somebody owns."""


class Lens:
    """A refinement as a reader of columns."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.refinement: Refinement = automaton.refinement
        self._patterns = [(keys.name, re.compile(keys.pattern)) for keys in self.refinement.keys]
        self._named = [[_split(name) for name in role.of] for role in self.refinement.roles]
        self._forms: dict[Looks, Form | None] = {}
        self._made_so_far = 0
        self.letters: dict[object, int] = {}

    def form(self, looks: Looks) -> Form | None:
        """None: this event means nothing to the model."""
        if looks not in self._forms:
            if len(self._forms) > FORMS_MAX:
                self._forms.clear()
                self.letters.clear()
            self._forms[looks] = self._made(looks)
        return self._forms[looks]

    def silent(self, sighting: Sighting) -> bool:
        """Whether the model notices nothing, whenever it lands."""
        return self.automaton.meaning(sighting) == SILENT

    def _made(self, looks: Looks) -> Form | None:
        phase, kind, key, condition, outcome, facts = looks
        refinement = self.refinement
        if phase == "note":
            what = key.split(" ", 1)[0]
            if what not in refinement.notes:
                return None
            values: dict[str, str] = {}
        else:
            if kind not in refinement.kinds:
                return None
            matches = ((name, pattern.fullmatch(key)) for name, pattern in self._patterns)
            what, match = next(((name, match) for name, match in matches if match), ("", None))
            if match is None:
                return None
            values = {name: text for name, text in match.groupdict().items() if text is not None}
        for word in facts.split():
            name, _, text = word.partition("=")
            values[name] = text
        plain = tuple((name, values[name]) for name in refinement.facts if name in values)
        bare = Sighting(phase, kind, what, condition, outcome, (), plain)
        self._made_so_far += 1
        return Form(self._made_so_far, bare, self._played(values), values.get(refinement.owned, ""))

    def _played(self, values: Mapping[str, str]) -> tuple[Played, ...]:
        return tuple(
            Played(
                number, values.get(scope, ""), self._said(number, name, lookup), values.get(name, ""), lookup
            )
            for number, named in enumerate(self._named)
            for name, scope, lookup in named
            if name in values or name in (PROCESS, LIFE)
        )

    def _said(self, role: int, name: str, lookup: bool) -> str:
        """What a sighting calls the rank: a value that is looked up may be so in several roles."""
        return f"{name} in {self.refinement.roles[role].name}" if lookup else name


def _split(name: str) -> tuple[str, str, bool]:
    """A value, the one within which it is ranked, and whether it is only looked up."""
    value, _, scope = name.partition("@")
    return value.rstrip("?"), scope, value.endswith("?")


class Reader:
    """One run's names."""

    def __init__(self, lens: Lens) -> None:
        self.lens = lens
        self._roles = lens.refinement.roles
        self._seen: dict[tuple[int, str], dict[str, int]] = {}
        self._owners: dict[str, tuple[str, int]] = {}

    def state(self) -> tuple[object, ...]:
        """The names so far: runs with the same read the same from here on."""
        names = tuple((place, tuple(ranks.items())) for place, ranks in sorted(self._seen.items()))
        return (names, tuple(self._owners.items()))

    def sighting(self, looks: Looks, process: str, incarnation: int) -> Sighting | None:
        """What is seen; None for an event that means nothing to the model."""
        form = self.lens.form(looks)
        return None if form is None else self._sighted(form, *self._ranked(form, process, incarnation))

    def letter(self, looks: Looks, process: str, incarnation: int) -> int:
        """The letter of an event that is read where it stands; 0 for one that means nothing."""
        form = self.lens.form(looks)
        if form is None:
            return 0
        ranks, own, stranger = self._ranked(form, process, incarnation)
        key = (form.number, ranks, own, stranger)
        letter = self.lens.letters.get(key)
        if letter is None:
            letter = self.lens.automaton.letter(self._sighted(form, ranks, own, stranger))
            self.lens.letters[key] = letter
        return letter

    def _sighted(self, form: Form, ranks: tuple[tuple[str, int], ...], own: bool, stranger: str) -> Sighting:
        bare = form.bare
        return Sighting(
            bare.phase,
            bare.kind,
            bare.what,
            bare.condition,
            bare.outcome,
            () if stranger else ranks,
            () if stranger else bare.facts,
            own,
            stranger,
        )

    def _ranked(
        self, form: Form, process: str, incarnation: int
    ) -> tuple[tuple[tuple[str, int], ...], bool, str]:
        ranks = []
        stranger = ""
        whose = {PROCESS: process, LIFE: f"{process}/{incarnation}"}
        for value in form.played:
            role, place = self._roles[value.role], (value.role, value.within)
            text = whose.get(value.name, value.text)
            if value.lookup and text not in self._seen.get(place, ()):
                continue
            rank = _rank(role, self._seen.setdefault(place, {}), text)
            if rank < role.least or (role.most is not None and rank > role.most):
                stranger = stranger or value.name
            ranks.append((value.name, rank))
        own = False
        if form.owned:
            me = (process, incarnation)
            own = self._owners.setdefault(form.owned, me) == me
        return tuple(ranks), own, stranger


def _rank(role: Role, known: dict[str, int], text: str) -> int:
    if role.order is SEEN:
        return known.setdefault(text, role.start + len(known))
    if not text.isdecimal():
        return role.least - 1  # no number of ours: a stranger
    if not known:
        known["first"] = int(text)
    return role.start + int(text) - known["first"]

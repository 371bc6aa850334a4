"""Events of one run as letters: names are renamed to ranks, and the rest is looked up.

What an event looks like apart from names (its *form*) is worked out once for all runs that a `Lens` serves,
and so is what it is to a run that has shown certain names before. So a run that repeats another one, up to
some step, costs one look-up an event.
"""

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace

from fencepost.properties.refinement.automaton import NOTHING, Automaton
from fencepost.properties.refinement.observation import SEEN, Observation, Role
from fencepost.properties.refinement.refinement import SILENT, Refinement

PROCESS, LIFE = "process", "life"
"""Values that every event has: its process, and the process with restarts told apart."""

FORMS_MAX = 1 << 18
"""Forms that are remembered; names of their own make every run's different."""

Looks = tuple[str, str, str, str, str, str]
"""Phase, kind, key, condition, outcome, trace fields: the columns of an event without its process."""


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

    bare: Observation
    played: tuple["Played", ...]
    owned: str
    """The text of the value that somebody owns."""


class Names:
    """The names that a run has shown so far, and their ranks."""

    def __init__(self, roles: tuple[Role, ...]) -> None:
        self._roles = roles
        self._ranks: dict[tuple[int, str], dict[str, int]] = {}
        self._owners: dict[str, tuple[str, int]] = {}

    def copy(self) -> "Names":
        made = Names(self._roles)
        made._ranks = {place: dict(ranks) for place, ranks in self._ranks.items()}
        made._owners = dict(self._owners)
        return made

    def key(self) -> Hashable:
        """Equal for names by which everything is read alike."""
        ranks = tuple((place, tuple(known.items())) for place, known in sorted(self._ranks.items()) if known)
        return (ranks, tuple(self._owners.items()))

    def observation(self, form: Form, process: str, incarnation: int) -> Observation:
        """The event as the model could have seen it. New names get their ranks."""
        ranks, stranger = [], ""
        whose = {PROCESS: process, LIFE: f"{process}/{incarnation}"}
        for value in form.played:
            role, known = self._roles[value.role], self._ranks.setdefault((value.role, value.within), {})
            text = whose.get(value.name, value.text)
            if value.lookup and (text not in known if role.order is SEEN else not known):
                continue
            rank = _rank(role, known, text)
            if rank < role.least or (role.most is not None and rank > role.most):
                stranger = stranger or value.name
            ranks.append((value.name, rank))
        me = (process, incarnation)
        own = bool(form.owned) and self._owners.setdefault(form.owned, me) == me
        if stranger:
            return replace(form.bare, trace_fields=(), own=own, stranger=stranger)
        return replace(form.bare, ranks=tuple(ranks), own=own)


class Lens:
    """A refinement as a reader of columns."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.refinement: Refinement = automaton.refinement
        self._patterns = [(keys.name, re.compile(keys.pattern)) for keys in self.refinement.keys]
        self._named = [[_split(name) for name in role.of] for role in self.refinement.roles]
        self._forms: dict[Looks, Form | None] = {}
        self.read: dict[tuple[int, Looks, str, int], tuple[int, int]] = {}
        """By names so far and event: the letter, and the names then."""
        self.words: dict[tuple[int, int], int] = {}
        """A tree of the runs that were followed: by place in it (the root is 0) and letter the next place."""
        self._names = [Names(self.refinement.roles)]
        self._numbers: dict[Hashable, int] = {self._names[0].key(): 0}

    def form(self, looks: Looks) -> Form | None:
        """None: this event means nothing to the model."""
        if looks not in self._forms:
            if len(self._forms) > FORMS_MAX:
                self._forms.clear()
            self._forms[looks] = self._made(looks)
        return self._forms[looks]

    def runs(self) -> Iterator[list[Observation]]:
        """The runs that were followed, each once; those that are the beginning of another are left out."""
        before = {place: step for step, place in self.words.items()}
        inner = {place for place, _ in self.words}
        for leaf in (place for place in before if place not in inner):
            letters, place = [], leaf
            while place:
                place, letter = before[place]
                letters.append(letter)
            read = [self.automaton.letters[letter] for letter in reversed(letters)]
            yield [letter.observation for letter in read if letter is not None]

    def names(self, number: int) -> Names:
        return self._names[number]

    def number(self, names: Names) -> int:
        """The number of these names."""
        key = names.key()
        if key not in self._numbers:
            self._numbers[key] = len(self._names)
            self._names.append(names)
        return self._numbers[key]

    def silent(self, observation: Observation) -> bool:
        """Whether the model notices nothing, whenever it lands."""
        return self.automaton.meaning(observation) == SILENT

    def _made(self, looks: Looks) -> Form | None:
        phase, kind, key, condition, outcome, trace_fields = looks
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
        for word in trace_fields.split():
            name, _, text = word.partition("=")
            values[name] = text
        plain = tuple((name, values[name]) for name in refinement.trace_fields if name in values)
        bare = Observation(phase, kind, what, condition, outcome, (), plain)
        return Form(bare, self._played(values), values.get(refinement.owned, ""))

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
        """What a observation calls the rank: a value that is looked up may be so in several roles."""
        return f"{name} in {self.refinement.roles[role].name}" if lookup else name


def _split(name: str) -> tuple[str, str, bool]:
    """A value, the one within which it is ranked, and whether it is only looked up."""
    value, _, scope = name.partition("@")
    return value.rstrip("?"), scope, value.endswith("?")


class Reader:
    """One run, event by event. `names` is the number of the names that it has shown so far."""

    def __init__(self, lens: Lens) -> None:
        self.lens = lens
        self.names = 0

    def observation(self, looks: Looks, process: str, incarnation: int) -> Observation | None:
        """What is seen; None for an event that means nothing to the model."""
        form = self.lens.form(looks)
        if form is None:
            return None
        names = self.lens.names(self.names).copy()
        seen = names.observation(form, process, incarnation)
        self.names = self.lens.number(names)
        return seen

    def letter(self, looks: Looks, process: str, incarnation: int) -> int:
        """The letter of an event that is read where it stands; 0 for one that means nothing."""
        key = (self.names, looks, process, incarnation)
        found = self.lens.read.get(key)
        if found is None:
            if len(self.lens.read) > FORMS_MAX:
                self.lens.read.clear()
            seen = self.observation(looks, process, incarnation)
            letter = NOTHING if seen is None else self.lens.automaton.letter(seen)
            self.lens.read[key] = found = (letter, self.names)
        letter, self.names = found
        return letter


def _rank(role: Role, known: dict[str, int], text: str) -> int:
    if role.order is SEEN:
        return known.setdefault(text, role.start + len(known))
    if not text.isdecimal():
        return role.least - 1  # no number of ours: a stranger
    if not known:
        known["first"] = int(text)
    return role.start + int(text) - known["first"]

"""The campaign of mutants judges: a planted mutant survives no tests, and is killed by real ones.

If these fail, `nox -s mutants` reports survivors that tests kill, or misses survivors, or its tables are old.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.mutants.areas import AREAS, Area
from tests.mutants.campaign import (
    Campaign,
    Judged,
    Mistake,
    choose,
    equivalents,
    files,
    stale,
    survivors,
    table,
)
from tests.mutants.rules import ROOT, Mutant, mutants, selected

KEYS = "model/kernel/search/keys.py"
PLANTED = f"{KEYS}::order_of: drop-statement: tagged &= low"
TESTS = ("tests/model/test_keys.py",)


def area(*tests: str) -> dict[str, Area]:
    return {"planted": Area("one file", {KEYS: tests})}


def planted() -> Mutant:
    (found,) = [each for each in mutants(KEYS) if each.key == PLANTED]
    return found


def judged(
    results: Path, *tests: str, known: dict[str, str] | None = None
) -> tuple[list[Judged], list[Judged]]:
    """The verdicts of a campaign with one mutant, and those that were not known before."""
    new: list[Judged] = []
    campaign = Campaign(results, areas=area(*tests), known=known or {})
    found, complete = campaign.run({KEYS: [planted()]}, jobs=1, show=new.append)
    assert complete
    return found, new


def test_a_planted_mutant_survives_no_tests_and_is_killed_by_real_ones(tmp_path: Path) -> None:
    before = (ROOT / KEYS).read_text()
    results = tmp_path / "mutants.json"
    (survivor,), _ = judged(results)
    assert survivor.verdict == "survived"
    shown = "\n".join(survivors([survivor]))
    assert f"{KEYS}:{survivor.line}: survived" in shown
    assert PLANTED in shown
    assert "-    tagged &= low" in shown
    (killed,), new = judged(results, *TESTS)
    assert (killed.verdict, len(new)) == ("killed", 1), "other tests: it was judged again"
    assert killed.reason.startswith("tests/model/test_keys.py::test_")
    (again,), new = judged(results, *TESTS)
    assert (again, new) == (killed, []), "the same file and tests: the verdict is known"
    assert json.loads(results.read_text())["mutants"][0]["verdict"] == "killed"
    assert (ROOT / KEYS).read_text() == before, "the working tree is not changed"


def test_an_equivalent_mutant_is_not_run(tmp_path: Path) -> None:
    (only,), new = judged(tmp_path / "mutants.json", *TESTS, known={PLANTED: "it is planted"})
    assert (only.verdict, only.reason, new) == ("equivalent", "it is planted", [])
    lines = list(table([only], area()))
    assert lines[0].split() == ["area", "made", "killed", "timed", "out", "survived", "equivalent"]
    assert lines[1].split() == ["planted", "1", "0", "0", "0", "1"]


def test_the_list_of_equivalent_mutants_has_no_stale_entry() -> None:
    """If this fails, the code of an entry has changed: look whether its reason still holds, and remove it."""
    known = equivalents()
    assert stale(known) == []
    assert stale([*known, f"{KEYS}::order_of: negate: nonsense", "no/file.py::f: flip: True"]) == [
        f"{KEYS}::order_of: negate: nonsense",
        "no/file.py::f: flip: True",
    ]


@pytest.mark.parametrize(
    "text", ['[[mutant]]\nkey = "a"\nreason = " "\n', '[[mutant]]\nkey="a"\nreason="b"\n' * 2]
)
def test_an_entry_has_one_place_and_a_reason(text: str, tmp_path: Path) -> None:
    (tmp_path / "list.toml").write_text(text)
    with pytest.raises(Mistake):
        equivalents(tmp_path / "list.toml")


def test_the_table_names_files_and_tests_that_exist() -> None:
    for path in files():
        assert (ROOT / path).is_file(), path
    for each in AREAS.values():
        for path in each.files:
            selection = each.selection(path)
            assert selection, path
            for test in selection:
                file, _, function = test.partition("::")
                text = (ROOT / file).read_text()
                assert f"\ndef {function}" in text or f"\nclass {function}" in text, test


def test_the_usual_choice_has_150_mutants_of_every_area_and_repeats_itself() -> None:
    options = {"share": 0.02, "least": 3, "seed": 1}
    first, again, other = (choose([*AREAS], **{**options, "seed": seed}) for seed in (1, 1, 2))
    assert sum(map(len, first.values())) >= 150
    assert set(first) == set(files())
    assert first == again != other


SAMPLE = '''
def first(values, limit: int) -> bool:
    """A sample."""
    if values and limit > 1:
        values.clear()
    found = {1, 2}
    kept = [one for one in values[1:] if one not in found]
    raise ValueError(f"left alone: {limit == 2}")


def second(count) -> None:
    assert count == 3
    count.total += count.left | count.right
    return done(count, flag=True)
'''
MADE = {
    "negate: values and limit > 1": "(not (values and limit > 1))",
    "and-or: values and limit > 1": "((values) or (limit > 1))",
    "drop-operand-1: values and limit > 1": "((limit > 1))",
    "drop-operand-2: values and limit > 1": "((values))",
    "compare: limit > 1": "((limit) >= (1))",
    "off-by-one: 1": "2",
    "off-by-one: 1 #2": "2",
    "drop-statement: values.clear()": "pass",
    "drop-branch: if values and limit > 1: values.clear()": "pass",
    "drop-element-1: {1, 2}": "{2}",
    "drop-element-2: {1, 2}": "{1}",
    "negate: one not in found": "(not (one not in found))",
    "compare: one not in found": "((one) in (found))",
    "return-true: if values and limit > 1: values.clear()": "return True",
    "return-false: if values and limit > 1: values.clear()": "return False",
    "drop-statement: count.total += count.left | count.right": "pass",
    "drop-left: count.left | count.right": "(count.right)",
    "drop-right: count.left | count.right": "(count.left)",
    "flip: True": "False",
    "return-at-once: assert count == 3": "return",
}


def test_rules_change_conditions_statements_elements_and_numbers_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text(SAMPLE)
    found = mutants("sample.py", tmp_path)
    assert {each.key.partition(": ")[2]: each.new for each in found} == MADE
    for each in found:
        changed = each.applied(SAMPLE)
        compile(changed, "sample.py", "exec")
        assert each.code.split()[0] in SAMPLE.splitlines()[each.line - 1]


def test_every_mutant_of_the_table_can_be_compiled() -> None:
    for path in files():
        text = (ROOT / path).read_text()
        some: Sequence[Mutant] = selected(mutants(path), 0.05, 10, 7)
        assert some
        for each in some:
            compile(each.applied(text), path, "exec")

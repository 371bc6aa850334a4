"""`fencepost audit --base`: what a change made better or worse, from the code at two revisions."""

import json
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from fencepost.commands.audit_base import packages
from fencepost.commands.changed_code import changed_code, find_repository, program_files
from fencepost.commands.exit_codes import Exit
from fencepost.results import CompareResult, from_json
from tests.commands.running import exit_of

GOOD = """
from fencepost.impl.store import ABSENT
def claim(world, store, name):
    if store.put("leader", name.encode(), when=ABSENT).done:
        world.note("leads", name)
"""
BROKEN = """
from fencepost.impl.store import ANYTHING
def claim(world, store, name):
    if not store.head("leader").done:
        store.put("leader", name.encode(), when=ANYTHING)
        world.note("leads", name)
"""
AUDIT = """
from app.lead import claim
def election(world):
    for name in ("a", "b"):
        world.spawn(claim, world, world.store(), name, name=name)
    world.always("one leads", lambda view: len(set(view.notes("leads"))) <= 1)
"""


def git(folder: Path, *words: str) -> None:
    options = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *options, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of somebody else's, whose audited code is right in its first commit."""
    root = tmp_path / "project"
    (root / "app").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "app" / "lead.py").write_text(GOOD)
    (root / "tests" / "audits.py").write_text(AUDIT)
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    monkeypatch.chdir(root)
    return root


ends = partial(exit_of, "audit")


NAME = "tests/audits.py:election"


def test_a_change_that_breaks_a_property_is_worse(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Although only a file that the audited one imports was changed, and not committed."""
    (project / "app" / "lead.py").write_text(BROKEN)
    assert ends(NAME, "--base", "HEAD", "--budget", "60") == Exit.VIOLATED
    output = capsys.readouterr().out
    assert "worse   verdict: holds -> violated" in output
    assert "property 'one leads': not broken -> broken" in output
    shown = output.splitlines()
    again = shlex.split(shown[shown.index("to reproduce:") + 1])
    assert again[:4] == ["fencepost", "audit", NAME, "--replay"], "the limits of a search are left out"
    assert ends(*again[2:]) == Exit.VIOLATED
    assert output.splitlines()[0] == "violated: 2 things worse, 0 better"
    assert (project / "app" / "lead.py").read_text() == BROKEN


def test_a_mend_is_better(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a folder within the repository, with the file named from there."""
    (project / "app" / "lead.py").write_text(BROKEN)
    git(project, "commit", "-q", "-a", "-m", "broken")
    (project / "app" / "lead.py").write_text(GOOD)
    monkeypatch.chdir(project / "tests")
    target = project / "out.json"
    assert ends("audits.py:election", "--base", "HEAD", "--json", str(target)) == Exit.HOLDS
    found = json.loads(target.read_text())
    assert {change["what"] for change in found["changes"] if change["judged"] == "better"} == {
        "verdict",
        "property 'one leads'",
    }
    assert (found["before"]["verdict"], found["after"]["verdict"]) == ("violated", "holds")
    assert len(found["base"]) == 40


def test_what_is_still_broken_is_not_the_changes_doing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "app" / "lead.py").write_text(BROKEN)
    git(project, "commit", "-q", "-a", "-m", "broken")
    assert ends(NAME, "--base", "HEAD") == Exit.HOLDS
    assert (
        capsys.readouterr().out.splitlines()[0] == "holds: 0 things worse, 0 better, and it is still violated"
    )


def test_what_was_not_there_before_is_judged_by_itself(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "tests" / "more.py").write_text(AUDIT)
    assert ends("tests/more.py:election", "--base", "HEAD") == Exit.HOLDS
    output = capsys.readouterr()
    assert "there is nothing to compare with" in output.out
    assert "there is no file" in output.err


def test_the_options_hold_for_both(project: Path) -> None:
    target = project / "out.json"
    assert ends(NAME, "--base", "HEAD", "--faults", "none", "--json", str(target)) == Exit.HOLDS
    found = json.loads(target.read_text())
    assert found["before"]["faults"]["crash"] == found["after"]["faults"]["crash"] == 0
    assert found["changes"] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((NAME, "--base", "nothing"), "git knows no revision 'nothing'"),
        ((NAME, "--base", "--all"), "git knows no revision '--all'"),
        (("nowhere/x.py:f", "--base", "HEAD"), "there is no file nowhere/x.py"),
        ((NAME, "--base", "HEAD", "--replay", "default"), "leave out either"),
        ((NAME, "--base", "HEAD", "--resume", "x"), "leave out either"),
        ((f"{NAME}s", "--base", "HEAD"), "as it is now could not run"),
    ],
)
def test_an_invalid_request_is_reported(
    project: Path, words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(*words) == Exit.BAD_REQUEST
    output = capsys.readouterr().err
    assert says in output.splitlines()[-1]
    assert "Traceback" not in output


def test_outside_of_a_repository_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert ends("election", "--base", "HEAD") == Exit.BAD_REQUEST
    assert "is not under git" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ('[tool.setuptools.package-dir]\nmine = "lib"\n"mine.part" = "part"\n', "packages"),
        ('[tool.setuptools.package-dir]\n"" = "src"\n', "src"),
    ],
)
def test_packages_of_a_tree_go_before_what_is_installed(tmp_path: Path, settings: str, place: str) -> None:
    """Else both audits would run on the same, installed code and never differ."""
    (tmp_path / "pyproject.toml").write_text(settings)
    for folder in ("lib", "part", "src/mine/part"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "src" / "mine" / "__init__.py").write_text("")
    paths = packages(tmp_path, tmp_path / "packages")
    assert paths == [tmp_path / place]
    ran = subprocess.run(
        [sys.executable, "-c", "import mine.part; print(mine.part.__file__)"],
        env={"PYTHONPATH": str(paths[0])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(ran.stdout.strip()).is_relative_to(tmp_path)


def test_a_mapped_package_is_audited_at_its_revision(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of the package's own name stands in the root, as ours does. It must hide nothing."""
    (project / "mine").mkdir()
    (project / "mine" / "__init__.py").write_text("")
    (project / "pyproject.toml").write_text(
        '[tool.setuptools.package-dir]\nmine = "mine"\n"mine.part" = "app"\n'
    )
    (project / "app" / "__init__.py").write_text("")
    audits = project / "tests" / "audits.py"
    audits.write_text(AUDIT.replace("from app.lead", "from mine.part.lead"))
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "mapped")
    (project / "app" / "lead.py").write_text(BROKEN)
    assert ends(NAME, "--base", "HEAD") == Exit.VIOLATED
    assert "worse   verdict: holds -> violated" in capsys.readouterr().out


def test_what_costs_more_is_worse_and_named_with_its_figures(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "app" / "lead.py").write_text(GOOD + "    store.get('leader')\n")
    assert ends(NAME, "--base", "HEAD") == Exit.VIOLATED
    output = capsys.readouterr().out
    for name in ("a", "b"):
        change = f"at most, {name} without faults: 1 request in 1 hop -> 2 requests in 2 hops"
        assert f"  worse   {change}" in output


def test_without_a_mapping_there_is_nothing_to_link(tmp_path: Path) -> None:
    assert packages(tmp_path, tmp_path / "packages") == []
    (tmp_path / "pyproject.toml").write_text("[project")
    assert packages(tmp_path, tmp_path / "packages") == []


OTHER = """
from app.other import claim
def second(world):
    for name in ("a", "b"):
        world.spawn(claim, world, world.store(), name, name=name)
    world.always("one leads", lambda view: len(set(view.notes("leads"))) <= 1)
"""
GUARDED = """
from fencepost.impl.store import ABSENT
def claim(world, store, name):
    found = store.get("leader")
    if found.done:
        return
    if store.put("leader", name.encode(), when=ABSENT).done:
        world.note("leads", name)
"""
SECOND = "tests/more.py:second"


@pytest.fixture
def two(project: Path) -> Path:
    """A second program, of other modules."""
    (project / "tests" / "more.py").write_text(OTHER)
    (project / "app" / "other.py").write_text(GOOD)
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "two")
    return project


def compared(target: Path) -> CompareResult:
    found = from_json(CompareResult, json.loads(target.read_text()))
    assert isinstance(found, CompareResult)
    return found


@pytest.mark.slow
def test_what_a_change_touches_is_compared_first(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whichever is named first, and although only a module that is imported differs."""
    (two / "app" / "other.py").write_text(BROKEN)
    words = ("--base", "HEAD", "--json", "out.json", "--markdown", "-")
    assert ends(NAME, SECOND, *words) == Exit.VIOLATED
    found = compared(two / "out.json")
    assert [(part.system, part.touched, part.verdict) for part in found.programs] == [
        (SECOND, True, "violated"),
        (NAME, False, "holds"),
    ]
    assert f"{SECOND}: verdict" in {change.what for change in found.changes}
    output = capsys.readouterr()
    assert f"| {SECOND}: verdict | holds | violated |" in output.out.splitlines()
    assert f"<details><summary>audit {SECOND}: one leads</summary>" in output.out.splitlines()
    shown = output.err.splitlines()
    assert shown[0] == "violated: 2 things worse, 0 better"
    again = shlex.split(shown[shown.index("to reproduce:") + 1])
    assert again[:4] == ["fencepost", "audit", SECOND, "--replay"]
    assert ends(*again[2:]) == Exit.VIOLATED


def test_when_the_budget_runs_out_it_says_what_was_not_compared(
    two: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program that the change touches takes it all, and the other may differ for all that is known."""
    (two / "app" / "other.py").write_text(GOOD + "# changed\n")
    words = ("--base", "HEAD", "--budget", "0.3", "--markdown", "out.md", "--json", "out.json")
    assert ends(NAME, SECOND, *words) == Exit.UNDECIDED
    shown = capsys.readouterr().out
    assert ", 1 of 2 programs not compared: the budget ran out" in shown.splitlines()[0]
    why = "not compared, the budget ran out before it"
    assert f"  {NAME}: {why}, and no line of its code differs" in shown
    assert why in (two / "out.md").read_text()
    assert [part.left_out != "" for part in compared(two / "out.json").programs] == [False, True]


@pytest.mark.slow
def test_a_step_on_a_changed_line_that_no_property_misses_is_listed(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The guard only saves a request; without the condition two would lead. It fails nothing by itself."""
    lead = project / "app" / "lead.py"
    lead.write_text(GUARDED.replace("found.done", "found.done is True"))
    git(project, "commit", "-q", "-a", "-m", "guarded")
    lead.write_text(GUARDED.replace("when=ABSENT).done", "when=ABSENT).done is True"))
    words = (NAME, "--base", "HEAD", "--markdown", "out.md", "--json", "out.json")
    assert ends(*words) == Exit.HOLDS
    line = "no property notices when line 5 of app/lead.py is left out (guard): if found.done:"
    assert capsys.readouterr().out.count(f"  {line}\n") == 1
    found = compared(project / "out.json").unnoticed
    assert [(one.file, one.line, one.kind) for one in found] == [("app/lead.py", 5, "guard")]
    assert f"- {line[:48]}" in (project / "out.md").read_text()


def test_mutate_with_a_base_changes_only_changed_lines(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The condition was there before, and is on a line that stays."""
    for name in ("app", "app.lead"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert ends(NAME, "--mutate", "--base", "HEAD") == Exit.HOLDS
    assert "no changed line of tests/audits.py:election has a step to leave out" in capsys.readouterr().out
    (project / "app" / "lead.py").write_text(GUARDED)
    for name in ("app", "app.lead"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    ends(NAME, "--mutate", "--base", "HEAD", "--json", "out.json")
    rows = json.loads((project / "out.json").read_text())["rows"]
    assert {row["line"] for row in rows if row["safeguard"]} == {5}


@pytest.mark.parametrize(("enough", "ended"), [("no-faults", Exit.HOLDS), ("all", Exit.UNDECIDED)])
def test_enough_makes_a_pass_of_what_is_undecided(project: Path, enough: str, ended: Exit) -> None:
    words = ("--max-schedules", "8", "--enough", enough, "--json", "out.json")
    assert ends(NAME, "--base", "HEAD", *words) == ended
    assert compared(project / "out.json").verdict == "undecided"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((NAME, NAME), "only --base compares several programs"),
        ((NAME, NAME, "--mutate", "--base", "HEAD"), "only --base compares several programs"),
        ((NAME, "--markdown", "x.md"), "give --base REV with it"),
        ((NAME, "--base", "HEAD", "--markdown", "-", "--json", "-"), "would mix on standard output"),
        ((NAME, "--base", "HEAD", "--markdown", "no/such/x.md"), "cannot write no/such/x.md"),
        ((NAME, "nowhere/none.py:f", "--base", "HEAD"), "there is no file nowhere/none.py"),
    ],
)
def test_requests_that_make_no_sense_are_one_line(
    project: Path, words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(*words) == Exit.BAD_REQUEST
    output = capsys.readouterr()
    assert says in output.err.splitlines()[-1]
    assert "Traceback" not in output.err
    assert not (project / "x.md").exists()


def test_imports_are_followed_in_every_form(tmp_path: Path) -> None:
    for name, text in {
        "audits.py": "import a.b\nfrom c import d\ndef f():\n    from e import g\nimport json, audits\n",
        "a/__init__.py": "",
        "a/b.py": "from . import near\nfrom .near import x\nfrom ..c import d\n",
        "a/near.py": "from c.d import nothing\n",
        "c/d.py": "import a\n",
        "e.py": "def broken(:\n",
        "other.py": "",
        "json/decoder.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = {str(file.relative_to(tmp_path)) for file in program_files(tmp_path / "audits.py", [tmp_path])}
    assert found == {"audits.py", "a/__init__.py", "a/b.py", "a/near.py", "c/d.py", "e.py"}


def test_changed_lines_are_found_under_any_name(project: Path) -> None:
    """A name with a space and one that is not ASCII; a file that git does not follow; lines that are gone."""
    for name in ("with space.py", "größe.py"):
        (project / "app" / name).write_text("x = 1\n")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "names")
    for name in ("with space.py", "größe.py", "new.py"):
        (project / "app" / name).write_text("x = 1\ny = 2\n")
    (project / "app" / "lead.py").write_text(GOOD.replace("    if store", "\n    if store").rstrip()[:40])
    found = changed_code(find_repository(NAME, "HEAD"))
    lines = {file.name: sorted(found[file]) for file in found}
    assert lines.pop("lead.py") is not None
    assert lines == {"with space.py": [2], "größe.py": [2], "new.py": [1, 2]}

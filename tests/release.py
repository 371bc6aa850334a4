"""Build and check the files of a release: `nox -s release`. Nothing is published.

    python -m tests.release [--unchecked] [--out DIR]

The files come from the commit alone, not from the tree: an sdist, a wheel for this platform, the notes (the
section of the version in CHANGELOG.md), and an SBOM of what the wheel installs with all extras. The wheel is
installed into an empty environment outside of the checkout for each supported Python that is found, and runs
`fencepost demo` there. `--unchecked` builds also if `nox -s all` was not green for this commit, or if the
changelog calls the version unreleased.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from docs.site import version
from tests import sessions

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def notes(changelog: str, of: str, *, unreleased: bool = False) -> str:
    """Return the section of a version; raise LookupError if there is none, or if it is not released."""
    for section in re.split(r"^(?=## )", changelog, flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        if re.search(rf"(?<![\d.]){re.escape(of)}(?![\d.])", heading):
            if "Unreleased" in heading and not unreleased:
                raise LookupError(f"CHANGELOG.md calls {of} unreleased: write '## {of} - DATE'")
            return text.strip() + "\n"
    raise LookupError(f"CHANGELOG.md has no section for {of}: write '## {of} - DATE'")


def not_green(folder: Path, commit: str, names: Sequence[str]) -> list[str]:
    """Return the sessions that were not green for this commit."""
    table = sessions.Table(folder)
    return [name for name in names if name not in sessions.LEFT_OUT and not table.green(name, commit)]


def run(*words: object, cwd: Path = ROOT) -> None:
    """Run a command without what this environment sets for Python; end with its error."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    subprocess.run([str(word) for word in words], cwd=cwd, env=kept, check=True)


def build(commit: str, out: Path) -> Path:
    """Build the sdist and the wheel of a commit into `out` and return the wheel."""
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "source"), Path(folder, "built")
        archive = Path(folder, "source.tar")
        run("git", "archive", "--output", archive, commit)
        with tarfile.open(archive) as files:
            files.extractall(source, filter="data")
        run(sys.executable, "-m", "build", "--outdir", built, source, cwd=source)
        (wheel,) = built.glob("*.whl")
        if sys.platform == "linux" and not wheel.stem.endswith("-any"):
            run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", out, wheel)
        else:
            shutil.copy(wheel, out)
        (sdist,) = built.glob("*.tar.gz")
        shutil.copy(sdist, out)
    run(sys.executable, "-m", "twine", "check", "--strict", *out.glob("fencepost-*"))
    return next(out.glob("*.whl"))


def tour(wheel: Path, python: str, sbom: Path | None) -> None:
    """Install the wheel into an empty environment and run the tour; write the SBOM of the environment."""
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", f"{folder}/env")
        run(f"{folder}/env/bin/pip", "install", "-q", f"{wheel}[all]", cwd=Path(folder))
        run(f"{folder}/env/bin/fencepost", "demo", "--out", f"{folder}/tour", cwd=Path(folder))
        if sbom is not None:
            options = ("--output-reproducible", "--of", "JSON", "--output-file", sbom)
            run(sys.executable, "-m", "cyclonedx_py", "environment", *options, f"{folder}/env")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="nox -s release --", description="Build and check a release.")
    parser.add_argument("--unchecked", action="store_true", help="also if nox -s all was not green")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "release", metavar="DIRECTORY")
    options = parser.parse_args(words)
    commit = sessions.clean_commit()
    if not commit:
        parser.error("the tree differs from its commit: commit or remove the changes")
    try:
        text = notes((ROOT / "CHANGELOG.md").read_text(), version(), unreleased=options.unchecked)
    except LookupError as error:
        parser.error(str(error))
    if not options.unchecked and (red := not_green(sessions.FOLDER, commit, sessions.listed())):
        parser.error(f"not green for this commit: {', '.join(red)}; run nox -s all")
    out = options.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "notes.md").write_text(text)
    wheel = build(commit, out)
    found = {one: path for one in PYTHONS if (path := shutil.which(f"python{one}"))}
    for number, (one, python) in enumerate(found.items()):
        tour(wheel, python, None if number else out / "sbom.json")
        sys.stdout.write(f"{wheel.name}: installed, and the tour passed on Python {one}\n")
    for one in sorted(set(PYTHONS) - set(found)):
        sys.stdout.write(f"{wheel.name}: not tried on Python {one}, which is not on the path\n")
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"failed: {' '.join(error.cmd)}") from None

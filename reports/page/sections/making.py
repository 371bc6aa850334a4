"""How every number was made, and the command that makes it again."""

from fencepost.reports.page.elements import Markup, join, tag
from fencepost.reports.page.found import Findings
from fencepost.reports.page.sections.pieces import table


def section(found: Findings) -> Markup | None:
    """A row for each result, and the versions they share."""
    rows = []
    for result, made in found.provenances():
        commit = str(made.get("commit", ""))[:12] or "unknown"
        changed = " with uncommitted changes" if made.get("uncommitted_changes") else ""
        seed = result.data.get("seed")
        rows.append(
            (
                result.file,
                tag("code", made.get("command", "unknown")),
                f"{commit}{changed}",
                "" if seed is None else str(seed),
            )
        )
    versions = sorted({_versions(made) for _, made in found.provenances() if made})
    return join(
        table("Results and their commands", ("file", "command", "commit", "seed"), rows),
        [tag("p", line) for line in versions],
    )


def _versions(made: object) -> str:
    assert isinstance(made, dict)
    libraries = ", ".join(f"{name} {version}" for name, version in made.get("libraries", {}).items())
    ours, python, system = (made.get(name, "?") for name in ("fencepost", "python", "system"))
    return f"Fencepost {ours}, Python {python} on {system}; {libraries}."

"""`fencepost report DIR`: one page of what the other commands wrote, for a colleague, code host or
printer."""

from pathlib import Path

import click

from fencepost.commands.changed_code import changed_lines
from fencepost.commands.exit_codes import VERDICT_EXITS, BadRequest, Exit
from fencepost.commands.messages import say
from fencepost.commands.output_files import write_file, write_result
from fencepost.reports.code_hosts import annotations, junit, markdown, sarif
from fencepost.reports.folder import Findings, read_folder
from fencepost.reports.page.page import page
from fencepost.reports.text import plural

EPILOG = """Exit codes: 0 every result holds, 1 something is violated, 2 a result is an error or cannot be
read, or the request made no sense, 3 something is not decided. Example: fencepost check two-phase --json
out/check.json; fencepost audit election --json out/audit.json; fencepost report out."""

FORMS = {"markdown": markdown, "junit": junit, "sarif": sarif, "annotations": annotations}


@click.command("report", short_help="One page of what the other commands wrote.", epilog=EPILOG)
@click.argument("folder", metavar="DIR", required=False)
@click.option("--out", metavar="FILE", help="The page.  [default: DIR/report.html]")
@click.option("--title", default="Fencepost report", show_default=True, help="Title of the page.")
@click.option("--markdown", metavar="FILE", help="Write a summary for a comment; - is standard output.")
@click.option("--junit", metavar="FILE", help="Write the verdicts as JUnit XML, for a code host.")
@click.option("--sarif", metavar="FILE", help="Write the violations as SARIF, for a code host.")
@click.option("--annotations", metavar="FILE", help="Write annotations for GitHub; - is standard output.")
@click.option("--base", metavar="REV", help="Let SARIF and annotations point at lines changed since REV.")
@click.option("--json", metavar="FILE", help="Write the summary as JSON; - is standard output.")
@click.option("--list", "listing", is_flag=True, help="List the results in DIR.")
def command(folder: str | None, title: str, listing: bool, **files: str | None) -> int:
    """Write one self-contained HTML page of the results in DIR: the files that the other commands wrote with
    --json, at any depth. The page fetches nothing, and can be attached to a pull request.
    """
    if folder is None:
        raise BadRequest("name the folder that holds the results, as in: fencepost report out")
    json_file = files["json"]
    on_output = [f"--{name} -" for name in (*FORMS, "json") if files[name] == "-"]
    if len(on_output) > 1:
        raise BadRequest(f"{' and '.join(on_output)} would mix on standard output; give all but one a file")
    found = _read(Path(folder))
    if files["base"] is not None:
        found.changed = changed_lines(files["base"])
    if listing:
        for result in found.results:
            say(f"{result.file}: {result.title}, {result.verdict}")
        return Exit.HOLDS
    target = Path(files["out"] or Path(folder) / "report.html")
    _write(target, page(found, title=title), "--out")
    for option, make in FORMS.items():
        file = files[option]
        if file == "-":
            say(make(found), nl=False)
        elif file:
            _write(Path(file), make(found), f"--{option}")
    verdict = found.verdict
    if json_file:
        write_result(
            {
                "verdict": verdict,
                "page": str(target),
                "results": [
                    {"file": r.file, "title": r.title, "verdict": r.verdict, "expected": r.expected}
                    for r in found.results
                ],
                "unread": found.unread,
            },
            json_file,
        )
    for name, why in found.unread.items():
        say(f"fencepost: {name}: {why}", err=True)
    count = plural(len(found.results), "result")
    if expected := sum(entry.expected for entry in found.results):
        count += f", {plural(expected, 'violation')} of them expected,"
    if found.unread:
        count += f", {plural(len(found.unread), 'file')} that could not be read,"
    say(f"{verdict}: {count} in {target}", err=bool(on_output))
    return VERDICT_EXITS[verdict]


def _read(folder: Path) -> Findings:
    if not folder.is_dir():
        raise BadRequest(
            f"{folder} is no folder; name the one that holds what the commands wrote with --json"
        )
    found = read_folder(folder)
    if not found.results and not found.unread:
        raise BadRequest(
            f"{folder} holds no results; write some into it, as in: fencepost check two-phase --json "
            f"{folder}/check.json"
        )
    return found


def _write(path: Path, text: str, option: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadRequest(f"cannot write {path}: {error.strerror}; give {option} another file") from error
    write_file(path, text.encode(), option)

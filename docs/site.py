"""Pages of the site that are no files of docs/, and links that leave docs/: a hook of mkdocs (mkdocs.yml).

README.md, CONTRIBUTING.md and CHANGELOG.md become pages, and so do notebooks and the reference of each public
module. A link to a file of the repository that is no page becomes text: the site has only pages.
"""

import ast
import json
import posixpath
import re
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files at the top of the repository that are pages, and the names of their pages."""
PUBLIC = "reference/public-names.md"
"""Page whose table lists the public modules; each gets a section of reference."""
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)


LAYERS = ("examples", "impl", "model", "properties", "reports", "sim")
_folders: list[tempfile.TemporaryDirectory[str]] = []
"""Removed with the process."""


def version() -> str:
    """Return the version of the package, without importing it."""
    for statement in ast.parse((ROOT / "fencepost/__init__.py").read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__version__":
            return str(ast.literal_eval(statement.value))
    raise LookupError("fencepost/__init__.py has no __version__")


def on_config(config: Any) -> None:
    """Build into a folder of the version, and show mkdocstrings the package as it is imported."""
    config.site_dir = str(Path(config.site_dir) / version())
    _folders.append(tempfile.TemporaryDirectory(prefix="fencepost-site-"))
    package = Path(_folders[-1].name) / "fencepost"
    package.mkdir()
    for file in (ROOT / "fencepost").iterdir():
        (package / file.name).symlink_to(file)
    for layer in LAYERS:
        (package / layer).symlink_to(ROOT / layer)
    config.plugins["mkdocstrings"].config.handlers["python"]["paths"] = [str(package.parent)]


on_config.mkdocs_priority = 100  # type: ignore[attr-defined]  # before mkdocstrings reads it; mkdocs looks here


def on_post_build(config: Any) -> None:
    """Write the list of the versions that are built, newest first, and lead to the newest."""
    site = Path(config.site_dir).parent
    built = sorted((file.parent.name for file in site.glob("*/index.html")), key=_number, reverse=True)
    rows = [{"version": one, "title": one, "aliases": ["latest"] * (one == built[0])} for one in built]
    (site / "versions.json").write_text(json.dumps(rows, indent=1))
    (site / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={built[0]}/index.html">')


def _number(name: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", name)]


def public_modules() -> list[str]:
    """Return the public modules, in the order of their table."""
    return re.findall(r"^\| `([a-z_.]+)` \|", (ROOT / "docs" / PUBLIC).read_text(), re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are no files of docs/."""
    from mkdocs.structure.files import File  # the tests read this module without mkdocs

    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    for notebook in sorted((ROOT / "docs").rglob("*.ipynb")):
        page = notebook.relative_to(ROOT / "docs").with_suffix(".md").as_posix()
        files.append(File.generated(config, page, content=as_markdown(json.loads(notebook.read_text()))))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page, and add the reference to the page of public names."""
    source = page.file.src_uri
    parts = _FENCE.split(markdown)  # every second one is a block of code
    parts[::2] = [_LINK.sub(lambda found: link(source, found[1], found[2]), part) for part in parts[::2]]
    text = "".join(parts)
    if source == PUBLIC:
        text += "".join(f"\n\n::: {module}\n" for module in public_modules())
    return text


def link(source: str, text: str, target: str) -> str:
    """Return a link of a page as the site has it; `source` is the page's name in docs/."""
    path, _, anchor = target.partition("#")
    if "://" in target or not path:
        return f"[{text}]({target})"
    written_in = next((top for top, page in PAGES.items() if page == source), f"docs/{source}")
    file = posixpath.normpath(posixpath.join(posixpath.dirname(written_in), path))
    if file in PAGES:
        file = PAGES[file]
    elif file.startswith("docs/") and file.endswith((".md", ".ipynb")):
        file = file.removeprefix("docs/").replace(".ipynb", ".md")
    elif (ROOT / file).exists():
        return text if text.startswith("`") else f"{text} (`{file}`)"
    else:
        return f"[{text}]({target})"  # mkdocs reports it as broken
    relative = posixpath.relpath(file, posixpath.dirname(source) or ".")
    return f"[{text}]({relative}{'#' * bool(anchor)}{anchor})"


def as_markdown(notebook: dict[str, Any]) -> str:
    """Return a notebook as a page: its texts, its code and the text that the code printed."""
    blocks = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        blocks.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", []):
            printed = output.get("text") or output.get("data", {}).get("text/plain") or []
            blocks += [f"```text\n{''.join(printed).rstrip()}\n```"] if printed else []
    return "\n\n".join(blocks) + "\n"

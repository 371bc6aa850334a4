"""`fencepost catalog branch`: list, create, merge, delete."""

import click

from fencepost.commands.catalog_open import MAIN, ended, reading, told, writing
from fencepost.commands.catalog_options import AUTHOR, BRANCH, JSON, finish


@click.group("branch", short_help="Branches: list, create, merge, delete.")
def branch_group() -> None:
    """Work aside and merge later. A branch costs one object, however many tables there are."""


@branch_group.command("list")
@click.argument("url")
@JSON
@told
def list_(url: str, json_file: str | None) -> int:
    """List the branches."""
    with reading(url) as catalog:
        names = catalog.branches()
    return finish({"url": url, "branches": names}, "\n".join(names), json_file)


@branch_group.command("create")
@click.argument("url")
@click.argument("name")
@click.option(
    "--from", "source", default=MAIN, show_default=True, metavar="BRANCH", help="What it begins as."
)
@click.option("--at", type=click.IntRange(1), metavar="MANIFEST", help="As that branch was then.")
@AUTHOR
@JSON
@told
def create(
    url: str, name: str, source: str, at: int | None, author: str | None, json_file: str | None
) -> int:
    """Make branch NAME."""
    with writing(url, author, source) as catalog:
        code, found = ended(catalog.create_branch(name, at), url, name)
    text = f"made branch {name} of {source}" if found["published"] else ""
    return finish({"url": url, "branch": name, **found}, text, json_file, code)


@branch_group.command("merge")
@click.argument("url")
@click.argument("name")
@click.option("--into", "target", default=MAIN, show_default=True, metavar="BRANCH")
@AUTHOR
@JSON
@told
def merge(url: str, name: str, target: str, author: str | None, json_file: str | None) -> int:
    """Make another branch what NAME is, provided that it has no commits of its own since."""
    with writing(url, author, target) as catalog:
        code, found = ended(catalog.merge(name), url, target)
    text = f"merged {name} into {target} as manifest {found['manifest']}" if found["published"] else ""
    return finish({"url": url, "branch": target, **found}, text, json_file, code)


@branch_group.command("delete")
@click.argument("url")
@click.argument("name")
@AUTHOR
@JSON
@told
def delete(url: str, name: str, author: str | None, json_file: str | None) -> int:
    """Delete branch NAME. What it alone holds goes with the next cleanup."""
    with writing(url, author) as catalog:
        code, found = ended(catalog.delete_branch(name), url, name)
    return finish({"url": url, "branch": name, **found}, f"deleted branch {name}", json_file, code)


@click.command("settle", short_help="What became of a commit that nobody knew about.")
@click.argument("url")
@click.argument("plan")
@click.option("--base", type=click.IntRange(0), required=True, help="As the line about it says.")
@BRANCH
@JSON
@told
def settle(url: str, plan: str, base: int, branch: str, json_file: str | None) -> int:
    """Say whether PLAN was published, never will be, or is still open (exit code 3)."""
    from fencepost.commands.exit_codes import Exit
    from fencepost.impl.publish import Published, Unknown

    with reading(url, branch) as catalog:
        found = catalog.settle(Unknown(plan, "asked again", base))
    if isinstance(found, Published):
        text, state = f"plan {plan} was published as manifest {found.id}", "published"
    elif found is None:
        text, state = f"plan {plan} was not published and never will be: it may be repeated", "never"
    else:
        text, state = f"plan {plan} is still open; `fencepost catalog repair {url}` settles it", "unknown"
    code = Exit.UNDECIDED if state == "unknown" else Exit.HOLDS
    return finish({"url": url, "branch": branch, "plan": plan, "state": state}, text, json_file, code)


COMMANDS = (branch_group, settle)

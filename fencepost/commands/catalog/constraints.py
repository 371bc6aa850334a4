"""`fencepost catalog constrain`: limits and cascades. `catalog get URL _constraints` lists them."""

import click

from fencepost.commands.catalog.group import (
    AUTHOR,
    BRANCH,
    MESSAGE,
    TABLE,
    committed,
    subcommand,
    writing,
)
from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.operating import Result
from fencepost.impl.publish import Transaction
from fencepost.impl.publish.constraints import TABLE as TABLE_OF_ALL
from fencepost.impl.publish.constraints import Constraint


@subcommand(
    "constrain",
    "Limit rows with the same values, or let an edge cascade.",
    TABLE,
    click.argument("columns", metavar="COLUMN...", nargs=-1, required=True),
    click.option(
        "--at-most",
        type=click.IntRange(1),
        metavar="N",
        help="Rows that may have the same values in the columns.  [default: 1]",
    ),
    click.option("--cascade", is_flag=True, help="The column is an edge: delete its rows with their target."),
    click.option("--drop", is_flag=True, help="Remove the constraint."),
    BRANCH,
    AUTHOR,
    MESSAGE,
)
def constrain(
    url: str,
    table: str,
    columns: tuple[str, ...],
    at_most: int | None,
    cascade: bool,
    drop: bool,
    branch: str,
    author: str | None,
    message: str,
) -> Result:
    """Declare a constraint of TABLE: its rows are checked now, and a commit that breaks it is refused.

    Rows with an empty value are not counted. A row that an edge points at cannot be removed unless the edge
    cascades.
    """
    if cascade and (at_most is not None or len(columns) > 1):
        raise BadRequest("--cascade takes one column, which is an edge, and no --at-most")
    limits = not cascade and not drop
    wanted = Constraint(table, columns, None if cascade else at_most or 1)

    def change(draft: Transaction) -> None:
        if drop:
            snapshot = draft.snapshot
            if TABLE_OF_ALL not in snapshot.tables or snapshot.get(TABLE_OF_ALL, wanted.name) is None:
                raise BadRequest(f"there is no constraint {wanted.name!r}; nothing was removed")
            draft.drop_constraint(wanted.name)
        elif cascade:
            draft.cascade(table, columns[0])
        else:
            draft.limit(table, columns, at_most or 1)

    with writing(url, author, branch, tables=[table, TABLE_OF_ALL]) as catalog:
        text = f"{'dropped' if drop else 'declared'} {wanted.name}" + (f" {wanted.at_most}" if limits else "")
        return committed(
            catalog.write(change, message=message),
            url,
            branch,
            lambda id_: f"published as manifest {id_}: {text}",
            constraint=wanted.name,
        )

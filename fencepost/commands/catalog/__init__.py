"""`fencepost catalog`: keep a small dataset of many tables in a bucket or a directory."""

from fencepost.commands.catalog import commits, constraints, maintain, maintenance, rows, serve
from fencepost.commands.catalog.group import command

"""`fencepost ingest`: batches from many agents, accepted once, by any of several collectors."""

from fencepost.commands.ingest import agent, collector, conflicts, maintenance, query
from fencepost.commands.ingest.group import command

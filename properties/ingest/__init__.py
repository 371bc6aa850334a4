"""Why the ingest library and its model agree."""

from fencepost.properties.ingest.as_modelled import AsModelled
from fencepost.properties.ingest.followed import Followed
from fencepost.properties.ingest.grouping import Names, by_identity
from fencepost.properties.ingest.refinement import IngestRefinement

__all__ = ["AsModelled", "Followed", "IngestRefinement", "Names", "by_identity"]

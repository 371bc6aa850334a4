"""Why the ingest library and its model agree."""

from holdfast.properties.ingest.as_modelled import AsModelled
from holdfast.properties.ingest.grouping import Names, by_identity
from holdfast.properties.ingest.machine import Followed
from holdfast.properties.ingest.refinement import IngestRefinement

__all__ = ["AsModelled", "Followed", "IngestRefinement", "Names", "by_identity"]

"""Why the ingest library and its model agree."""

from fencepost.properties.ingest.refinement import AsModelled, IngestRefinement

__all__ = ["AsModelled", "IngestRefinement"]

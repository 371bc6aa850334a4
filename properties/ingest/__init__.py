"""The correspondence of the ingest library and its specification."""

from fencepost.properties.ingest.refinement import IngestRefinement

__all__ = ["IngestRefinement"]

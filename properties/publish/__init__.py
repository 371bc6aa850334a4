"""Why the publish library and its model agree."""

from fencepost.properties.publish.refinement import PublishCoverage, PublishRefinement

__all__ = ["PublishCoverage", "PublishRefinement"]

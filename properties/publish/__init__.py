"""Why the publish library and its model agree."""

from fencepost.properties.publish.refinement import PublishRefinement

__all__ = ["PublishRefinement"]

"""The sections of the page, one a module: `section(found)` answers HTML, or None for nothing to show."""

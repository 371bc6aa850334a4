"""Small programs to audit, and to learn from. They ship with the package as `fencepost.examples`."""

"""Properties of whole runs: `eventually` and `always_recoverable`."""

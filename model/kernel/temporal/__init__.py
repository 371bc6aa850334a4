"""Properties of whole runs: `eventually`, `infinitely_often`, `leads_to` and `always_recoverable`."""

"""The report of a check: verdicts, counterexamples, vacuity warnings."""

"""What a check reports: verdicts, counterexamples, vacuity warnings."""

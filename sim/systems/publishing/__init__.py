"""What the audit of publish is made of: the run, the changes, the scenarios, and what must hold."""

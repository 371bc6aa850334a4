"""What the audits of the shipped libraries share: their clock, what they watch, examine and follow."""

"""What users call: linear algebra on their own arrays, with what was tuned."""

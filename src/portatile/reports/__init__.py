"""One idea: tuning results as a page that people read: tables, charts, kernel text, the data behind each."""

"""The report: tuning results as an HTML page with tables, charts, kernel text and the data behind each."""

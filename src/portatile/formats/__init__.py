"""Other tools' files, read and written: a file for each format."""

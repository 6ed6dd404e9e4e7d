"""The tables of the pages: a module for each bench, whose ``from_results(folder)`` gives tables and pictures of what it recorded."""

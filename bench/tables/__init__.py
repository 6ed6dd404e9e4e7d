"""The tables of the pages: a module for each bench, whose ``made(folder)`` gives tables and pictures of what it recorded."""

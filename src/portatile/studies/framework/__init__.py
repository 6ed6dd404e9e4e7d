"""The framework of all studies: journals to continue interrupted ones, tables, pages, and comparable measurements of configurations."""

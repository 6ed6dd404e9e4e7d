"""The form that all studies share: the journal that lets them go on, tables, pages, and configurations measured beside each other."""

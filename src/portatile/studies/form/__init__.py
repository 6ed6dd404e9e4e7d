"""What all studies share: their form, the journal that lets them go on, tables, pages, and configurations measured beside each other."""

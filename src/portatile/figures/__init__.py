"""Charts as accessible SVG, for the report and for studies: lines, bars, stacked bars and heat maps, with the one style sheet of all."""

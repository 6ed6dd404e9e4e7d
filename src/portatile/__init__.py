"""portatile."""

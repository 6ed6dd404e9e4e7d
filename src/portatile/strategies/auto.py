"""The default."""
from portatile.strategies.gaussian import search as search

"""Ground for scenarios from the map files of other programs, one module a format."""

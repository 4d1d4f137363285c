"""Battles commanded by whoever is no network: reports out, orders in, as plain data and plain words."""

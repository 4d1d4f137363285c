"""Importers of map files from other programs as the ground of scenarios, one module per format."""

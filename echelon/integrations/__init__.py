"""Echelon for the users of other frameworks: a module each, with the framework's own names and shapes.

A module imports its framework, which an extra of the same name installs, so nothing else of the package imports one.
"""

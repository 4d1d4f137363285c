"""The command-line programs: each parses its flags, builds the objects, and runs them."""

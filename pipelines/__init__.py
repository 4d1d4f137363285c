"""The programs: each parses its command line, builds what it asks for, and runs it."""

"""Recorded battles: recorded on the device, converted to events, and written to one file."""

"""Recorded battles: recorded on the device, converted to events on the host, and written to one file."""

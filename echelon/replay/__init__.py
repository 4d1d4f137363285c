"""Battles kept to be watched: recorded on the device, told as events, written to one file."""

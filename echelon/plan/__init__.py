"""Drawing from above: arrays of a battle in, pixels out."""

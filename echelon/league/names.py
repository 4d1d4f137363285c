"""Names of commanders, generated from what they are."""

from __future__ import annotations

TEMPERS = (
    *("amber", "ashen", "bitter", "blazing", "brazen", "calm", "cold", "crimson", "dire", "eager", "fabled", "fell"),
    *("fervent", "gaunt", "gilded", "grave", "grim", "hollow", "iron", "keen", "lucid", "lurking", "marble", "mute"),
    *("nimble", "obsidian", "pale", "patient", "proud", "quiet", "ragged", "restless", "rusted", "sable", "savage"),
    *("silent", "stern", "stubborn", "sudden", "sullen", "swift", "tireless", "vagrant", "veiled", "wary", "wild"),
)
BEINGS = (
    *("adder", "anvil", "badger", "basilisk", "bastion", "boar", "bulwark", "cobra", "condor", "dervish", "drake"),
    *("falcon", "ferret", "gargoyle", "golem", "griffin", "hammer", "harrier", "hornet", "hound", "hydra", "ibex"),
    *("jackal", "kestrel", "kraken", "lance", "lynx", "mantis", "marten", "mastiff", "monolith", "osprey", "otter"),
    *("panther", "raven", "rook", "sentinel", "serpent", "sphinx", "stoat", "talon", "viper", "warden", "wolf"),
)


def commander_name(digest: str, taken: set[str]) -> str:
    """A name for the entry of this sha256, the same wherever it is free; a number tells namesakes apart."""
    number = int(digest[:16], 16)
    name = f"{TEMPERS[number % len(TEMPERS)]}-{BEINGS[number // len(TEMPERS) % len(BEINGS)]}"
    count, free = 1, name
    while free in taken:
        count += 1
        free = f"{name}-{count}"
    return free

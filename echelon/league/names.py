"""Generated names of commanders."""

from __future__ import annotations

ADJECTIVES = (
    *("amber", "ashen", "bitter", "blazing", "brazen", "calm", "cold", "crimson", "dire", "eager", "fabled", "fell"),
    *("fervent", "gaunt", "gilded", "grave", "grim", "hollow", "iron", "keen", "lucid", "lurking", "marble", "mute"),
    *("nimble", "obsidian", "pale", "patient", "proud", "quiet", "ragged", "restless", "rusted", "sable", "savage"),
    *("silent", "stern", "stubborn", "sudden", "sullen", "swift", "tireless", "vagrant", "veiled", "wary", "wild"),
)
NOUNS = (
    *("adder", "anvil", "badger", "basilisk", "bastion", "boar", "bulwark", "cobra", "condor", "dervish", "drake"),
    *("falcon", "ferret", "gargoyle", "golem", "griffin", "hammer", "harrier", "hornet", "hound", "hydra", "ibex"),
    *("jackal", "kestrel", "kraken", "lance", "lynx", "mantis", "marten", "mastiff", "monolith", "osprey", "otter"),
    *("panther", "raven", "rook", "sentinel", "serpent", "sphinx", "stoat", "talon", "viper", "warden", "wolf"),
)


def commander_name(digest: str, used: set[str]) -> str:
    """A name derived from a sha256 in hexadecimal. A number is appended if the name is in `used`."""
    number = int(digest[:16], 16)
    name = f"{ADJECTIVES[number % len(ADJECTIVES)]}-{NOUNS[number // len(ADJECTIVES) % len(NOUNS)]}"
    count, free = 1, name
    while free in used:
        count += 1
        free = f"{name}-{count}"
    return free

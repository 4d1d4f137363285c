"""A custom position, a wall between two mechs, played with many seeds: win rates by commander and side."""

import echelon


def position() -> echelon.Scene:
    scene = echelon.Scene().wall((19, 10), (21, 30), height=4)
    scene.place("blue", "medium", at=(11.0, 21.0), facing_deg=-15.0)
    return scene.place("red", "medium", at=(30.0, 20.0), facing_deg=180.0)


def main(seeds: int = 64) -> echelon.Evaluation:
    found = echelon.evaluate("hard", position().scenario, ["easy"], battles=2 * seeds, device="cpu")
    print(found)
    return found


if __name__ == "__main__":
    main()

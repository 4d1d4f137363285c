#!/usr/bin/env bash
# Guess: a tile layer in a group that is hidden is not among the visible layers, and its offset includes the group's.
# Seen: visible_layers and visible_tile_layers ask the layer alone, so a layer in a group with visible="0" is drawn; its
#   offset is its own. The layer has no link to its group, and `layers` is not in the order of the file: groups come
#   first, so that the layers after a group cannot be told from those in it.
# Versions: PyTMX 3.32, Python 3.11 (2026-11-30); the map as Tiled 1.11 writes it.
# Hurt: games and importers of Tiled maps: drafts and alternatives that the author has hidden become walls, and groups
#   that were moved are in the wrong place.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q PyTMX==3.32
cat > "$work/map.tmx" << 'END'
<?xml version="1.0" encoding="UTF-8"?>
<map version="1.10" tiledversion="1.11.0" orientation="orthogonal" renderorder="right-down" width="2" height="1" tilewidth="16" tileheight="16" infinite="0" nextlayerid="7" nextobjectid="1">
 <tileset firstgid="1" name="t" tilewidth="16" tileheight="16" tilecount="16" columns="4">
  <image source="t.png" width="64" height="64"/>
 </tileset>
 <layer id="1" name="ground" width="2" height="1">
  <data encoding="csv">1,1</data>
 </layer>
 <layer id="2" name="notes" width="2" height="1" visible="0">
  <data encoding="csv">1,1</data>
 </layer>
 <group id="3" name="draft" visible="0">
  <layer id="4" name="wall" width="2" height="1">
   <data encoding="csv">2,2</data>
  </layer>
 </group>
 <group id="5" name="moved" offsetx="32" offsety="16">
  <layer id="6" name="roof" width="2" height="1">
   <data encoding="csv">3,3</data>
  </layer>
 </group>
</map>
END
cd "$work"
"$work/v/bin/python" -W ignore - << 'END'
import sys

import pytmx

tiles = pytmx.TiledMap("map.tmx")
shown = [layer.name for layer in tiles.visible_layers if isinstance(layer, pytmx.TiledTileLayer)]
offsets = {layer.name: (layer.offsetx, layer.offsety) for layer in tiles.layers if layer.name in ("moved", "roof")}
order = [layer.name for layer in tiles.layers]
print("visible tile layers:", shown, "; offsets:", offsets, "; order:", order)
holds = shown == ["ground", "wall", "roof"] and offsets["moved"] == (32, 16) and offsets["roof"] == (0, 0)
holds = holds and order == ["draft", "moved", "ground", "notes", "wall", "roof"]
print("a layer of a hidden group counts as visible, one of a moved group as unmoved:", holds)
sys.exit(not holds)
END

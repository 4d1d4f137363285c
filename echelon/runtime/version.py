"""Which Echelon this is. Files name the one that wrote them."""

VERSION = "0.2.0"

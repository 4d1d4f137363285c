"""Which Echelon this is. Files name the one that wrote them."""

VERSION = "1.0.0"

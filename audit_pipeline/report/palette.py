"""Colours of charts and page in light and dark, readable on their ground. No shape and no word is chosen here.

Every pair reaches a contrast of 4.5:1, and none carries meaning alone: shape, position or a word says the same.
"""

from __future__ import annotations

# name: (light, dark). Charts are drawn in the light colours; the page maps them to CSS variables, so that one drawing
# serves both schemes.
COLOURS: dict[str, tuple[str, str]] = {
    "ground": ("#ffffff", "#14181d"),
    "panel": ("#f4f6f8", "#1d232a"),
    "ink": ("#1b1f24", "#e8eaed"),
    "muted": ("#56606b", "#a9b3bd"),
    "line": ("#d9dee4", "#3a434d"),
    "blue": ("#0b62a8", "#74b8ff"),
    "orange": ("#a84a00", "#f3a765"),
    "green": ("#1a7446", "#67d39d"),
    "purple": ("#7a3f9d", "#d0a8f2"),
    "red": ("#b3261e", "#ff8f85"),
}

LIGHT = {name: pair[0] for name, pair in COLOURS.items()}


def css_variables(scheme: int) -> str:
    """The CSS custom properties of the light (0) or the dark (1) scheme."""
    return "".join(f"--{name}:{pair[scheme]};" for name, pair in COLOURS.items())


def css_chart_colours() -> str:
    """Rules that turn the light colours of inline SVG into the variables: CSS wins over presentation attributes."""
    return "\n".join(
        f'svg [{attribute}="{colour}"]{{{attribute}:var(--{name})}}'
        for name, colour in LIGHT.items()
        for attribute in ("fill", "stroke")
    )

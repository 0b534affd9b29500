"""Small SVG pictures that read well on light and on dark pages.

In: boxes, cells, arrows and texts, in pixels. Out: the text of an SVG file.
"""

from __future__ import annotations

from html import escape

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 11.5px } .strong { font-weight: 600 } .quiet { fill: #59636e }
.page { fill: #ffffff; stroke: #d1d9e0 } .lane { fill: #f6f8fa }
.box { fill: #ffffff; stroke: #818b98 }
.line { stroke: #59636e; stroke-width: 1.5; fill: none } .dashed { stroke-dasharray: 5 4 }
.head { fill: #59636e }
.a { fill: #c5dcfa } .b { fill: #fbd9a5 } .c { fill: #c3e6c0 } .d { fill: #e6cff2 }
.empty { fill: #e7ebef }
.cell { stroke: #ffffff } .gone { opacity: 0.4 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .quiet { fill: #a3adb8 }
.page { fill: #161a20; stroke: #3d444d } .lane { fill: #1e242c }
.box { fill: #161a20; stroke: #7d8590 }
.line { stroke: #a3adb8 } .head { fill: #a3adb8 }
.a { fill: #1c4a80 } .b { fill: #7a4b0c } .c { fill: #255a2b } .d { fill: #5c3575 }
.empty { fill: #2b323b }
.cell { stroke: #161a20 }
}
"""


class Drawing:
    """Collects shapes; `svg()` gives the file. The first ones lie below the later ones."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.size = width, height
        self.title = title
        self.shapes: list[str] = []

    def rectangle(
        self, x: float, y: float, width: float, height: float, kind: str, radius: float = 3
    ) -> None:
        """A rectangle; `kind` is one or several classes of the style."""
        self.shapes.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
            f'rx="{radius:g}"/>'
        )

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        """One line of text, its base line at y; the anchor is "start", "middle" or "end"."""
        self.shapes.append(
            f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def box(self, x: float, y: float, width: float, height: float, title: str, *lines: str) -> None:
        """A box with a title, and smaller lines below it."""
        self.rectangle(x, y, width, height, "box", 6)
        top = y + height / 2 - 8 * len(lines) + 5
        self.text(x + width / 2, top, title, "strong", "middle")
        for number, line in enumerate(lines, 1):
            self.text(x + width / 2, top + 16 * number, line, "small quiet", "middle")

    def cell(
        self, x: float, y: float, width: float, height: float, label: object, kind: str
    ) -> None:
        """A coloured cell with a label in its middle."""
        self.rectangle(x, y, width, height, f"cell {kind}")
        faded = "small gone" if "gone" in kind else "small"
        self.text(x + width / 2, y + height / 2 + 4, str(label), faded, "middle")

    def bracket(self, x: float, y: float, width: float, label: str) -> None:
        """A bracket below things, and its label."""
        self.shapes.append(f'<path class="line" d="M{x:g} {y:g} v6 h{width:g} v-6"/>')
        self.text(x + width / 2, y + 23, label, "small quiet", "middle")

    def arrow(self, *points: tuple[float, float], dashed: bool = False) -> None:
        """A line through points, with a head at the last one; its last piece runs along an axis."""
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
        self.shapes.append(f'<path class="line{" dashed" * dashed}" d="{path}"/>')
        (before_x, before_y), (x, y) = points[-2:]
        across = (x > before_x) - (x < before_x)
        down = (y > before_y) - (y < before_y)
        tips = [
            (x, y),
            (x - 8 * across - 4 * down, y - 8 * down - 4 * across),
            (x - 8 * across + 4 * down, y - 8 * down + 4 * across),
        ]
        self.shapes.append(
            f'<path class="head" d="M{" L".join(f"{a:g} {b:g}" for a, b in tips)}Z"/>'
        )

    def svg(self) -> str:
        """The text of the file."""
        width, height = self.size
        space = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {space} role="img">'
        page = (
            f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>'
        )
        return "\n".join(
            [
                head,
                f"<title>{escape(self.title)}</title>",
                f"<style>{STYLE}</style>",
                page,
                *self.shapes,
                "</svg>\n",
            ]
        )

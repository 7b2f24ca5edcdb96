"""LaTeX to MathML that can stand in a page: checked, compact, without namespace."""

from __future__ import annotations

from functools import cache
from xml.etree import ElementTree

ELEMENTS = set(
    [
        "math",
        "mrow",
        "mi",
        "mn",
        "mo",
        "ms",
        "mtext",
        "mspace",
        "mstyle",
        "mfrac",
        "msqrt",
        "mroot",
        "msub",
        "msup",
        "msubsup",
        "munder",
        "mover",
        "munderover",
        "mmultiscripts",
        "mtable",
        "mtr",
        "mtd",
        "mpadded",
        "mphantom",
        "menclose",
        "merror",
        "none",
    ]
)
NAMESPACE = ' xmlns="http://www.w3.org/1998/Math/MathML"'  # in HTML every math element has it
REFUSED = {"href", "src", "style", "class", "id"}


@cache
def mathml(latex: str) -> str | None:
    """`latex` as a MathML element, or None where the converter fails or lets markup through.

    latex2mathml copies `\\text{<b>}` and `&` as they are and leaves commands it does not know in the text; such an
    equation is better read as LaTeX.
    """
    from latex2mathml.converter import convert

    try:
        root = ElementTree.fromstring(convert(latex, display="block").replace(NAMESPACE, ""))
    except Exception:
        return None
    for element in root.iter():
        attributes = {name for name in element.attrib if name in REFUSED or name.startswith("on")}
        if element.tag not in ELEMENTS or attributes or "\\" in (element.text or ""):
            return None
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)

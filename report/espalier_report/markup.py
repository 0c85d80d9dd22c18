"""HTML elements. Text in them is escaped unless it is already markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable


class Markup(str):
    """Text that is already HTML."""


Content = str | Iterable["Content"] | None


def markup(content: Content) -> Markup:
    if content is None:
        return Markup("")
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return Markup(html.escape(content))
    return Markup("".join(markup(part) for part in content))


def breakable(name: str) -> Markup:
    """A name that a narrow cell breaks after a separator, and elsewhere only if necessary."""
    return Markup("<wbr>".join(markup(part) for part in re.split(r"(?<=[/_])(?=[^/_])", name)))


def element(tag: str, *content: Content, **attributes: str | None) -> Markup:
    """`class_` and `for_` stand for the reserved words, `aria_label` for aria-label."""
    written = "".join(f' {name.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
                      for name, value in attributes.items() if value is not None)
    return Markup(f"<{tag}{written}>{markup(content)}</{tag}>")

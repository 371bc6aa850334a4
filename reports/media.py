"""Text that others wrote, made harmless for the medium that shows it: one function per medium.

Theory. The exceptions, keys, notes and bodies of an audited program can hold any text, and somebody else may
have chosen it: a comment on a pull request shows the keys of the program in that pull request. Every medium
has characters that it obeys instead of showing them:

- a terminal: control characters. ESC moves the cursor, sets the title or opens a link. The marks of writing
  direction show text in another order than it has.
- Markdown: punctuation, `www.` and `://`; on code hosts also `@name` and `#12`, which notify and link.
- XML and HTML: `<`, `&`, quotation marks. XML 1.0 can hold most control characters in no form.
- SARIF: brackets in a message, which make a link.
- workflow commands of GitHub: line breaks, and in a property also `:` and `,`.

A writer passes each text through the function of its medium, once, where it puts the text into the document.
JSON files and traces are data: they keep the text as it is.
"""

import html
import re
from collections.abc import Iterable

_MARKDOWN = re.compile(r"[\\`*_{}\[\]<>|~!^$&]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_BLOCK = re.compile(r"^(\d*)([-+=#.)])")
"""The start of a heading, a rule or an item of a list."""
_REFERENCE = re.compile(r"(@(?=\w|\\_)|#(?=\w))")
_SPLIT = r"\1<!-- -->"
"""A comment between the characters of a mention: code hosts look for `@name` after they have unescaped."""


def printable(text: str) -> str:
    """Return the text with everything that cannot be printed written as Python writes it.

    Line breaks and tabs stay. Code points without a character, surrogates among them, are written out too.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def one_line(text: str) -> str:
    """Return the text for one line of a terminal or a log: line breaks are written out as well."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def continued(text: str, indent: str = "    ") -> str:
    """Return the text for a terminal; its further lines are indented, so that none passes for our own."""
    return printable(text).replace("\n", f"\n{indent}")


def for_html(text: str) -> str:
    """Return the text for an element of HTML or XML, or for an attribute in quotation marks."""
    return html.escape(printable(text))


def for_markdown(text: str) -> str:
    """Return the text for a paragraph or a cell of a table, on one line. Nothing in it is markup."""
    escaped = _MARKDOWN.sub(r"\\\g<0>", " ".join(printable(text).split()))
    return _REFERENCE.sub(_SPLIT, _BLOCK.sub(r"\1\\\2", escaped))


def for_markdown_summary(text: str) -> str:
    """Return the text for an element of HTML inside Markdown, on one line."""
    return _REFERENCE.sub(_SPLIT, html.escape(" ".join(printable(text).split()), quote=False))


def markdown_code(lines: Iterable[str]) -> list[str]:
    """Return the lines of an indented code block. A line break in a line does not leave the block."""
    return ["    " + part for line in lines for part in printable(line).split("\n")]


def for_sarif(text: str) -> str:
    """Return the text for a message of SARIF, where brackets and backslashes are written with a backslash."""
    return re.sub(r"[\[\]\\]", r"\\\g<0>", printable(text))


def for_github(text: str) -> str:
    """Return the text for the message of a workflow command of GitHub."""
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def for_github_property(text: str) -> str:
    """Return the text for a property of a workflow command of GitHub."""
    return for_github(text).replace(":", "%3A").replace(",", "%2C")

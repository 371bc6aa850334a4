"""One word for one thing: the words that docs/reference/glossary.md replaces are used nowhere."""

import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GLOSSARY = "docs/reference/glossary.md"
# Words that are used in no text either, in any form of writing them.
NO_TEXT = ("told", "said", "asking", "story", "sighting", "upkeep", "mended")
# A word that only identifiers avoid; prose and the titles of documents may use it.
PROSE_MAY_USE = {"wrong"}
EXEMPT = {GLOSSARY, "tests/test_glossary.py", "LICENSE"}
TEXTS = {".py", ".pyi", ".md", ".toml", ".c", ".css", ".js", ".yml", ".yaml", ".txt", ".json"}


def tracked() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\n") if (ROOT / name).is_file()]


def replaced_words(text: str) -> set[str]:
    """The words in backticks of the last column of every three-column table."""
    rows = re.findall(r"^\|[^|\n]*\|[^|\n]*\|([^|\n]*)\|$", text, re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`(\w+)`", row)}


def parts_of_identifiers(source: str) -> set[str]:
    """The words that identifiers consist of: `read_HTTPReply` is read, http and reply."""
    names = {
        token.string
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.NAME
    }
    return {
        part.lower() for name in names for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]+", name)
    }


def test_words_are_taken_apart() -> None:
    assert replaced_words("| a | b | `x`, `y` |\n| a | `b` |\n") == {"x", "y"}
    assert parts_of_identifiers("read_HTTPReply = toldStory(_WRONG)\n") == {
        *("read", "http", "reply", "told", "story", "wrong"),
    }
    assert parts_of_identifiers("history = 'told'\n") == {"history"}


def test_no_identifier_contains_a_replaced_word() -> None:
    """If this fails, one concept has two names again, and a newcomer looks for two concepts."""
    replaced = replaced_words((ROOT / GLOSSARY).read_text()) | set(NO_TEXT)
    assert {"story", "facts", "doubt", "wrong"} <= replaced
    sources = {
        name: (ROOT / name).read_text() for name in tracked() if name.endswith(".py") and name not in EXEMPT
    }
    # Most files contain none of the words anywhere; to take all of them apart takes seconds.
    anywhere = re.compile("|".join(replaced), re.IGNORECASE)
    found = {
        (name, word)
        for name, source in sources.items()
        if anywhere.search(source)
        for word in parts_of_identifiers(source) & replaced
    }
    assert not found, sorted(found)


def test_no_file_is_named_by_a_replaced_word() -> None:
    replaced = replaced_words((ROOT / GLOSSARY).read_text())
    found = [
        name
        for name in tracked()
        if set(re.split(r"[/_.-]", name)) & (replaced - PROSE_MAY_USE if name.endswith(".md") else replaced)
    ]
    assert not found, found


def test_no_text_contains_a_word_of_the_old_dialect() -> None:
    words = re.compile(rf"\b({'|'.join(NO_TEXT)})\b", re.IGNORECASE)
    found = [
        f"{name}:{number}: {line.strip()[:80]}"
        for name in tracked()
        if Path(name).suffix in TEXTS and name not in EXEMPT
        for number, line in enumerate((ROOT / name).read_text().splitlines(), start=1)
        if words.search(line)
    ]
    assert not found, "\n".join([f"{len(found)} lines", *found[:40]])

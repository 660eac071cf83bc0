# SPDX-License-Identifier: GPL-2.0
"""The READMEs and the other pages are short, and so are their sentences."""

import re

import pytest

from bench.paths import TOP
from selftests.lint.test_style import tracked

MOST_LINES = 150            # of README.md
MOST_WORDS = 30             # of a sentence
PAGES = tracked(".md")
GENERATED = re.compile(r"<!-- table: .*?<!-- end -->", re.S)
FENCED = re.compile(r"^```.*?^```", re.S | re.M)
# Lines that are no prose: headings, tables and pictures.  A line indented by four spaces is code, unless
# it continues a list item.
NO_PROSE = re.compile(r"#|\||!\[")
ITEM = re.compile(r"\s*([-*]|\d+\.) ")
# A sentence ends at a full stop, question or exclamation mark; "et al. 2008" goes on.
END = re.compile(r"(?<=[.?!])(?<!\bal\.)\s+")
HARD_TO_READ = ("of which", "what there is", "says so", "is not to be had", "came to that")


def paragraphs(text: str) -> list[str]:
    """Paragraphs and list items, each as one line, without code, tables and generated blocks."""
    text = FENCED.sub("", GENERATED.sub("", text))
    joined, in_item = [""], False
    for line in text.splitlines():
        if ITEM.match(line):
            joined.append(ITEM.sub("", line, count=1))
            in_item = True
        elif not line.strip() or NO_PROSE.match(line):
            joined.append("")
            in_item = in_item and not NO_PROSE.match(line)
        elif line.startswith("    ") and not (in_item and joined[-1]):
            joined.append("")
        else:
            in_item = in_item and line.startswith(" ")
            joined[-1] += " " + line.strip()
    return [paragraph.strip() for paragraph in joined if paragraph.strip()]


def sentences(text: str) -> list[str]:
    return [sentence for paragraph in paragraphs(text) for sentence in END.split(paragraph)]


def words(sentence: str) -> list[str]:
    """Code in backticks is one word; so is a link's text with its address."""
    sentence = re.sub(r"`[^`]*`", "code", sentence)
    sentence = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence)
    return [word for word in sentence.split() if re.search(r"\w", word)]


def too_long(text: str) -> list[str]:
    return [f"{len(words(sentence))} words: {sentence}" for sentence in sentences(text)
            if len(words(sentence)) > MOST_WORDS]


def hard_to_read(text: str) -> list[str]:
    return [f"{phrase!r}: {sentence}" for sentence in sentences(text)
            for phrase in HARD_TO_READ if re.search(rf"\b{phrase}\b", sentence)]


def test_readme_is_short():
    assert len((TOP / "README.md").read_text().splitlines()) <= MOST_LINES


def test_pages_are_complete():
    names = {str(page.relative_to(TOP)) for page in PAGES}
    assert {"README.md", "CONTRIBUTING.md", "tools/INSTALL.md", "hybla/README.md"} <= names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_sentences_are_short(page):
    text = page.read_text()
    assert sentences(text)
    assert too_long(text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_no_phrase_needs_a_second_reading(page):
    assert hard_to_read(page.read_text()) == []


LONG = "word " * MOST_WORDS + "end."


@pytest.mark.parametrize("text", [
    LONG, f"# Title\n\n{LONG}", f"Short. {LONG} Short.", f"- item\n- {LONG}", f"1. {LONG}",
    "- item\n\n" + LONG, "word\n" * (MOST_WORDS + 1), f"    code\n{LONG}", f"<!-- end -->\n{LONG}",
    "- " + "word " * MOST_WORDS + "\n    end", LONG.replace("end", "`code with spaces`"),
    LONG.replace("word", "et al.", 1)])
def test_a_long_sentence_is_seen(text):
    assert len(too_long(text)) == 1


@pytest.mark.parametrize("text", [
    LONG.replace(" end", ""), f"    {LONG}", f"| {LONG} |", f"```\n{LONG}\n```", f"# {LONG}",
    f"<!-- table: links -->\n{LONG}\n<!-- end -->", "Word. " + LONG.replace("word ", "", 1),
    "`" + LONG + "`", "- " + LONG.replace("word ", "", 1)])
def test_code_tables_and_short_sentences_pass(text):
    assert too_long(text) == []


def test_a_hard_phrase_is_seen():
    assert hard_to_read("It has a buffer, of\nwhich TCP uses half.") != []
    assert hard_to_read("    of which") == []

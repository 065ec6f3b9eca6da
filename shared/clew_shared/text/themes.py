"""The theme of a thought, by a table of whole words, so that a person can check each result. Pure."""

import re

GENERAL = "general"  # the theme of a thought in which no theme's words occur
_THEMES = {  # the words of each theme in all their forms; where several match, the first theme wins
    "planning": r"plan(?:s|ned|ning)?|strateg(?:y|ies)|approach(?:es|ed|ing)?|need(?:s|ed|ing)? to",
    "synthesis": (
        r"synthesi(?:s|[sz](?:e|es|ed|ing))|combin(?:e|es|ed|ing)|overall"
        r"|summar(?:y|ies|i[sz](?:e|es|ed|ing))"
    ),
    "search_intent": r"search(?:es|ed|ing)?|find(?:s|ing)?|look(?:s|ed|ing)? for",
    "read_intent": r"read(?:s|ing)?|articles?|pages?",
}
_PATTERNS = {
    name: re.compile(rf"(?<![^\W\d_])(?:{words})(?![^\W\d_])") for name, words in _THEMES.items()
}


def theme(text: str) -> str:
    said = " ".join(text.casefold().split())
    return next((name for name, words in _PATTERNS.items() if words.search(said)), GENERAL)

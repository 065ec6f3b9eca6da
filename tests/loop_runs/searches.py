"""Kind d: the same search with its words reordered."""

import itertools
import json

from tests.loop_runs.moves import Run, act, edit, fails, page, sh, thinks

HITS = [
    f"{n}. How to stop a {word} in time - https://docs.example/{word}"
    for n, word in enumerate(("task", "thread", "process", "timer", "socket", "loop"), 1)
]


def orders(words, most=6):
    return [" ".join(p) for p in itertools.islice(itertools.permutations(words.split()), most)]


def turned(hits, by):
    """Return hits in another order, numbered by rank."""
    names = [hit.partition(". ")[2] for hit in hits]
    return page([f"{n}. {name}" for n, name in enumerate(names[by:] + names[:by], 1)])


LOOPS = [
    Run(
        "the same hits",
        [act("web_search", page(HITS), query=q) for q in orders("python asyncio cancel")],
        4,
    ),
    Run(
        "the same hits in another order",
        [
            act("web_search", turned(HITS, n), query=q)
            for n, q in enumerate(orders("python asyncio cancel timeout"))
        ],
        4,
    ),
    Run(
        "nothing found",
        [act("search", "nothing found", pattern=q) for q in orders("retry limit config")],
        4,
    ),
    Run(
        "JSON with scores",
        [
            act(
                "kb.search",
                json.dumps(
                    {
                        "hits": [
                            {"title": f"Article {k}", "score": round(0.9 - k / 10 + n / 1000, 3)}
                            for k in range(4)
                        ]
                    }
                ),
                q=q,
            )
            for n, q in enumerate(orders("refund policy late delivery"))
        ],
        4,
    ),
    Run(
        "other capitals and signs",
        [
            act("lookup", "No results.", question=q)
            for q in (
                "visa rules Japan",
                "Japan, visa rules",
                "Rules: visa Japan",
                "japan rules visa?",
                "VISA JAPAN RULES",
                "rules Japan visa",
            )
        ],
        4,
    ),
    Run(
        "a thought before each",
        [
            m
            for q in orders("bread recipe rye")
            for m in (
                *thinks(f"I try the words in another order: {q}"),
                act("web_search", page(HITS[:3]), query=q),
            )
        ],
        8,
    ),
    Run(
        "alternatives in quotes",
        [
            sh(f'grep -rnE "{"|".join(p)}" src', "src/a.py:3: limit = 5")
            for p in itertools.islice(itertools.permutations(("retry", "limit", "backoff")), 6)
        ],
        4,
    ),
    Run(
        "the query in a body",
        [
            act(
                "http_post",
                '{"total": 0, "hits": []}',
                url="/search",
                body={"query": q, "size": 10},
            )
            for q in orders("error handler missing")
        ],
        4,
    ),
    Run(
        "a page is opened in between",
        [
            m
            for q in orders("cheap flight Oslo")
            for m in (
                act("web_search", page(HITS), query=q),
                act("open_page", "the same page", url="/1"),
            )
        ],
        8,
    ),
    Run(
        "words in turn, some hits missing",
        [
            act("web_search", page(HITS[: 6 - n % 3]), query=q)
            for n, q in enumerate(orders("stop running thread"))
        ],
        4,
    ),
]

WORK = [
    Run(
        "a word more each time",
        [
            act(
                "web_search",
                page(HITS[: 6 - n]),
                query=" ".join(
                    ["python", "asyncio", "cancel", "task", "group", "timeout"][: n + 1]
                ),
            )
            for n in range(4)
        ],
    ),
    Run(
        "another word each time",
        [
            act("search", f"src/m{n}.py: {w}", pattern=f"def {w}")
            for n, w in enumerate(("parse", "lex", "emit", "walk", "fold"))
        ],
    ),
    Run(
        "reordered words that find something new",
        [
            act("web_search", page([f"{n}{k}. page {n} {k}" for k in range(4)]), query=q)
            for n, q in enumerate(orders("python asyncio cancel"))
        ],
    ),
    Run(
        "there and back",
        [
            act("flights", f"{a} {b} at {n + 6}:15", origin=a, to=b)
            for n, (a, b) in enumerate(
                (("OSL", "JFK"), ("JFK", "OSL"), ("OSL", "SEA"), ("SEA", "OSL"))
            )
        ],
    ),
    Run(
        "there and back, none",
        [
            act("flights", "no flights", origin=a, to=b)
            for a, b in (("OSL", "JFK"), ("JFK", "OSL"), ("OSL", "SEA"), ("SEA", "OSL"))
        ],
    ),
    Run(
        "tests in another order",
        [
            sh(f"pytest {' '.join(p)}", "3 passed")
            for p in itertools.islice(
                itertools.permutations(("test_a.py", "test_b.py", "test_c.py")), 4
            )
        ],
    ),
    Run(
        "the same words after each edit",
        [
            m
            for n, q in enumerate(orders("retry limit config"))
            for m in (
                edit("a.py", f"{n}", f"{n + 1}"),
                act("search", "a.py:1: retry limit", pattern=q),
            )
        ],
    ),
    Run(
        "a word left out each time",
        [
            act("web_search", "no results", query=q)
            for q in ("red wool winter coat", "wool winter coat", "winter coat", "coat")
        ],
    ),
    Run(
        "one search, the other way round, then another subject",
        [
            act("web_search", page(HITS), query="cancel asyncio task"),
            act("web_search", page(HITS), query="asyncio cancel task"),
            act("web_search", "1. Trio", query="trio nursery"),
            act("web_search", "1. Curio", query="curio spawn"),
        ],
    ),
    Run(
        "comparisons in both directions",
        [
            *[
                fails(f"diff {a} {b}", f"< {a}\n> {b}")
                for a, b in (("a", "b"), ("b", "a"), ("a", "c"), ("c", "a"))
            ]
        ],
    ),
]

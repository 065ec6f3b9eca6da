"""What the judge notices of loops and of honest work: python -m bench.loops [FILE of recorded runs].

Beside the files named it judges 68 written runs, of kinds that the recorded ones do not have: `stories.jsonl`, written
before the judge was looked at, and `fresh.jsonl`, written before it was changed after them. Of a loop `not_before` is
the first step at which a word could be justified, `truth_index` the one at which a careful person would speak.

Each run is played through the real core as an agent with tools of its own would report it (its changes are claimed).
A loop is caught if it is refused, or told of, in time; of honest work a refusal is a false one, a word is counted
apart. Nothing here runs a model or a daemon.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.loop_runs.player import PlayedRun, play_recorded

from clew_shared.config.tables import LoopSettings
from clew_shared.judge import reading

if TYPE_CHECKING:
    from collections.abc import Iterable

Row = dict[str, Any]
COLUMNS = ("loops", "caught", "by a refusal", "honest", "refused", "told")
TONGUES = {
    "German": "Vorgang ohne Ergebnis beendet weil keine Datei gefunden nicht geöffnet werden Fehler läuft noch",
    "Japanese": "処理 結果 失敗 成功 見つからない 接続 切断 再試行 待機中 完了 行 開けない 変更 権限 拒否 一覧",
}
# Words of a text; the keys of JSON belong to the tool, whatever language it speaks.
_WORD = re.compile(r"""[A-Za-z]{4,}+(?!\w*\\?"\s*:)""")
OAK = tuple(re.findall(r"\w+", "red oak sea fog ash bee elm owl ivy dew fir sky jay hay pod rye"))


def verdict(row: Row, heard: PlayedRun) -> list[str]:
    """Return the columns that a run counts in."""
    if row["truth"] == "ok":
        return ["honest", *(["refused"] if heard.refusals else ["told"] if heard.warnings else [])]
    last = row["truth_index"] + row["tolerance"]
    first = row.get("not_before") or 0
    in_time = [at for at, _ in heard.refusals + heard.warnings if first <= at <= last]
    refused = any(first <= at <= last for at, _ in heard.refusals)
    return ["loops", *(["caught"] if in_time else []), *(["by a refusal"] if refused else [])]


def kind_of(row: Row) -> str:
    """Return the letters of the kinds that a run is of, or near to."""
    found = re.match(r"(?:near )?([a-z](?:, [a-z])*)\b.*?:", row.get("note") or "")
    return found[1][0] if found else "-"


def score(rows: list[Row], loops: LoopSettings | None = None) -> Counter[str]:
    """Return how many runs count in each column."""
    counts = Counter[str]()
    for row in rows:
        counts.update(verdict(row, play_recorded(row, loops)))
    return counts


def loaded(path: Path) -> list[Row]:
    """Return the recorded runs of a file, without the contested ones."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if not row.get("contested")]


def spoken(value: Any, words: list[str]) -> Any:
    """Return texts with each longer word in another language; the same word is the same again."""
    if isinstance(value, list):
        return [spoken(one, words) for one in value]
    if isinstance(value, dict):
        return {key: spoken(one, words) for key, one in value.items()}
    return (
        _WORD.sub(lambda m: translated(m[0].lower(), words), value)
        if isinstance(value, str)
        else value
    )


def translated(word: str, words: list[str]) -> str:
    return word if word == "sleep" else words[len(word) % len(words)] + ending(word)


@functools.cache
def ending(word: str) -> str:
    """Return four letters that tell words of one length apart."""
    return "".join(chr(ord("a") + ord(c) % 26) for c in reading.hashed(word)[:4])


def changed(row: Row, how: str) -> Row:
    """Return a run with its tools renamed, its arguments turned round, in another language, or with noise."""
    row, dice = copy.deepcopy(row), random.Random(row["id"])
    names: dict[str, str] = {}
    for step in row["steps"]:
        if step["kind"] != "action":
            continue
        output = step.get("output") or ""
        noise = {
            "ids": lambda: f" req={dice.getrandbits(48):012x} {dice.random():.3f}s",
            "numbers": lambda: f" load {dice.random():.2f} of {dice.randint(100, 900)} threads",
            "words": lambda: " " + " ".join(dice.sample(OAK, 3)),
        }
        if how == "tools":
            step["name"] = names.setdefault(step["name"], f"tool{len(names)}")
        elif how == "arguments":
            step["args"] = dict(sorted(step["args"].items(), key=lambda _: dice.random()))
        elif how in TONGUES:
            step["output"], step["args"] = (
                spoken(output, TONGUES[how].split()),
                spoken(step["args"], TONGUES[how].split()),
            )
        elif how.startswith("a line of "):
            step["output"] = f"{output}\n{noise[how.removeprefix('a line of ')]().strip()}"
        elif how.startswith("each line "):
            end = noise[how.removeprefix("each line ")]
            step["output"] = "\n".join(line + end() for line in output.split("\n"))
    return row


CHANGES = ("tools", "arguments", *TONGUES, *(f"{where} {what}" for where in ("a line of", "each line")
           for what in ("ids", "numbers", "words")))  # fmt: skip


def line(name: str, sets: Iterable[Counter[str]]) -> None:
    """Print a row of a table: caught, refused and told of each set."""
    cells = [
        f"{c['caught']}/{c['loops']} ({c['by a refusal']}), {c['refused']}, {c['told']}"
        for c in sets
    ]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def unexpected(row: Row, loops: LoopSettings) -> str:
    """Return a line about a run that was missed, refused or told of, "" for the others."""
    heard = play_recorded(row, loops)
    found = verdict(row, heard)
    if found in (["honest"], *([["loops", "caught"], ["loops", "caught", "by a refusal"]])):
        return ""
    window = f"{row.get('not_before', 0)} to {row.get('truth_index')} + {row.get('tolerance')}"
    what = "missed" if found == ["loops"] else found[-1]
    return f"  {what}: {row['id']} ({window}): {heard.refusals[:3]} {heard.warnings[:5]}"


def main() -> None:
    """Print the tables that were asked for."""
    options = argparse.ArgumentParser(prog="python -m bench.loops", description=__doc__)
    options.add_argument("file", nargs="*", type=Path, help="recorded runs, one JSON object a line")
    options.add_argument("--runs", action="store_true", help="list unexpected runs, too")
    options.add_argument(
        "--changes", action="store_true", help="with other names, languages and noise"
    )
    options.add_argument("--kinds", action="store_true", help="by kind")
    given = options.parse_args()
    loops = LoopSettings()
    written = (Path(__file__).with_name(f"{name}.jsonl") for name in ("stories", "fresh"))
    sets = {path.stem: loaded(path) for path in (*given.file, *written) if path.exists()}
    print("caught of loops (by a refusal), honest ones refused, honest ones told\n")
    print(f"| | {' | '.join(sets)} |\n| --- |{' --- |' * len(sets)}")
    line("as they are", (score(rows, loops) for rows in sets.values()))
    for how in CHANGES if given.changes else ():
        line(how, (score([changed(row, how) for row in rows], loops) for rows in sets.values()))
    if given.kinds:
        for kind in sorted({kind_of(row) for rows in sets.values() for row in rows}):
            of_kind = ([r for r in rows if kind_of(r) == kind] for rows in sets.values())
            line(f"kind {kind}", (score(rows, loops) for rows in of_kind))
    if given.runs:
        odd = (unexpected(row, loops) for rows in sets.values() for row in rows)
        print(*filter(None, odd), sep="\n")


if __name__ == "__main__":
    main()

"""The attack table of docs/attacks.md, made from the register: `python attack_table.py` puts it in its place."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import attack

DOCUMENT = Path(__file__).parents[2] / "docs" / "attacks.md"
BEGIN, END = "<!-- attacks -->\n", "<!-- end of attacks -->"


def rendered():
    """The attacks of each group, by what refuses them."""
    attack.load()
    parts = []
    for group in dict.fromkeys(one.group for one in attack.ATTACKS.values()):
        found = [one for one in attack.ATTACKS.values() if one.group == group]
        lines = []
        for by in dict.fromkeys(map(_refused_by, found)):
            same = [one for one in found if _refused_by(one) == by]
            told = "; ".join(f"{_circumstances(one)}{one.does} (`{one.name}`)" for one in same)
            lines.append(f"- **{by}**: {told}.")
        parts.append(f"## {group[0].upper()}{group[1:]}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _refused_by(one):
    roles = {"agent": "agent", "executor": "command", "own_tools": "own tools"}
    cells = {said: _cell(one, role) for role, said in roles.items()}
    if cells["own tools"] == cells["command"]:
        cells.pop("own tools")
    told = "; ".join(f"{said}: {cell}" for said, cell in cells.items())
    return cells["agent"] if len(set(cells.values())) == 1 else told


def _cell(one, role):
    by = one.refused(role)
    if by is None:
        return "may do so"
    only = one.acts_where if role != "agent" else ""
    return f"{by}; without namespaces not refused" if only == "pidns" else by


def _circumstances(one):
    return {"pidns": "With namespaces: ", "root": "", "user": "", "offline": ""}.get(one.where, "")


def in_place(text):
    """A document's text with the table as it should be."""
    table = f"{BEGIN}\n{rendered()}\n\n{END}"
    return re.sub(f"{BEGIN}.*?{END}", lambda _: table, text, flags=re.DOTALL)


if __name__ == "__main__":
    DOCUMENT.write_text(in_place(DOCUMENT.read_text()))

"""What is asked before a change: to confirm it, to write a message, to choose a refused action."""

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, OptionList, Static

from clew_daemon.reading.sanitize import clean

Answer = TypeVar("Answer")
KEYS = """\
Enter      open              Esc   back
1 2 3 4    of a goal: all of it, its timeline, prompts, files
arrows, PgUp, PgDn, Home, End, Tab, mouse   move
p r c      pause, continue, cancel the goal at the cursor
f          a message to its agent
u          allow a refused action again
l          the log (/ filters it)
d          dark or light
q          quit; the goals continue

Before a change its command is shown, and you confirm it.
! before a goal: it needs you."""


class Dialog(ModalScreen[Answer]):
    """A box in front of the screen, with a text, a command mostly, above some widgets; it returns an answer."""

    def __init__(self, text: str, *below: Widget) -> None:
        super().__init__()
        self._text, self._below = text, below

    def compose(self) -> ComposeResult:
        yield Vertical(Static(Text(self._text)), *self._below, classes="dialog")


class KeysDialog(Dialog[None]):
    """Shows the keys; any key closes it."""

    def __init__(self) -> None:
        super().__init__(KEYS)

    def on_key(self) -> None:
        self.dismiss()


class ConfirmDialog(Dialog[bool]):
    """Asks whether to run a command; returns whether it was confirmed.

    Enter alone is a no but for what can be taken back: it may be meant for another program.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("y", "dismiss(True)", "Yes"),
        ("n,escape", "dismiss(False)", "No"),
    ]

    def __init__(self, command: str) -> None:
        self._yes, no = Button("Yes", variant="primary"), Button("No")
        super().__init__(command, Static("Run this? (y/n)"), Horizontal(self._yes, no))
        can_be_taken_back = command.startswith(("$ clew pause ", "$ clew continue "))
        self._preferred = self._yes if can_be_taken_back else no

    def on_mount(self) -> None:
        self._preferred.focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button is self._yes)


class AskDialog(Dialog[str]):
    """Asks for the rest of a command, a text or one of some choices; returns it, "" for none."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss('')", "Cancel")]

    def __init__(self, command: str, hint: str = "", choices: Sequence[str] = ()) -> None:
        options = OptionList(*(Text(clean(one)) for one in choices))
        super().__init__(f"{command} …", options if choices else Input(placeholder=hint))
        self._choices = choices

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._choices[event.option_index])

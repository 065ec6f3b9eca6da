"""Kind g: thoughts in a row before the first action, with and without new content."""

from tests.loop_runs.moves import Run, act, thinks

LOOPS = [
    Run("nothing said", thinks("Hm.", "Let me see.", "Okay.", "Right.", "Well."), 4),
    Run("one sentence", thinks(*["I should look at the parser before I change anything."] * 5), 4),
    Run(
        "the same in other words",
        thinks(
            "The import is missing, so the build breaks. I will add the import to the module.",
            "Since the import is missing, the build breaks; let me add the import to the module.",
            "The build breaks as the import is missing in the module. Let me add it.",
            "Add the missing import to the module, because the build breaks.",
        ),
        4,
    ),
    Run("numbers only", thinks(*[f"Let me think about step {n}." for n in range(1, 7)]), 4),
    Run(
        "to and fro",
        thinks(
            *["Use a dictionary for the lookup of names.", "Better a list for the lookup of names."]
            * 4
        ),
        5,
    ),
    Run(
        "always about to begin",
        thinks(
            "I am going to start now.", "Now I really start.", "Starting now, then.", "So I start."
        ),
        4,
    ),
    Run(
        "new content without end",
        thinks(
            "The report has two sections, revenue and costs.",
            "Revenue comes from the orders table by month.",
            "Costs are kept by suppliers in another currency.",
            "Exchange rates might be cached for a week.",
            "Charts belong under each section, in colour.",
            "Readers print it, so margins matter.",
            "Fonts should be embedded in the document.",
            "A cover page shows the logo.",
            "An appendix lists the sources of all figures.",
        ),
        7,
    ),
    Run(
        "a question asked again",
        thinks(
            *[
                "Which file has the handler of uploads?",
                "Where is the handler of uploads, in which file?",
            ]
            * 3
        ),
        4,
    ),
    Run(
        "after an action, nothing new",
        [act("read_file", "text", path="a.py"), *thinks(*["I have read the file a.py now."] * 4)],
        5,
    ),
    Run(
        "a plan read aloud",
        thinks(*["The steps are: read the log, find the error, fix it, test it."] * 4),
        4,
    ),
]


def before_acting(*texts):
    return [*thinks(*texts), act("read_file", "text", path="a.py")]


WORK = [
    Run(
        "a crash",
        before_acting(
            "The traceback ends in decode_header, with a UnicodeDecodeError on byte 0xe9.",
            "Latin-1 mail headers are legal without an encoding, so strict UTF-8 decoding must fail there.",
            "RFC 2047 allows a fallback; the email package in the standard library uses surrogateescape.",
            "So decode_header could catch the error and decode with latin-1; a test with byte 0xe9 would show it.",
        ),
    ),
    Run(
        "a slow query",
        before_acting(
            "The dashboard takes nine seconds, and the log blames the orders query.",
            "That query filters by customer and sorts by creation date without a composite index.",
            "PostgreSQL would use (customer_id, created_at) for both filter and sort.",
            "Adding it concurrently avoids a lock on a table of forty million rows.",
        ),
    ),
    Run(
        "a trip",
        before_acting(
            "Four travellers from Oslo want Lisbon in June, within two thousand euros.",
            "Direct flights leave only on Tuesdays and Saturdays with one carrier.",
            "Hotels near Baixa cost about ninety a night for a double room.",
            "Two doubles for five nights take nine hundred, which leaves eleven hundred for tickets.",
            "Saturday departures exceed that, so Tuesday it is; I check availability.",
        ),
    ),
    Run(
        "a race",
        before_acting(
            "Two workers write the same checkpoint file, as both logs show the same inode.",
            "The rename is atomic, yet the temporary name is shared between processes.",
            "A truncated file appears when one opens the temporary while another renames it.",
            "Unique temporary names, by pid, would remove the collision entirely.",
        ),
    ),
    Run(
        "a puzzle",
        before_acting(
            "The cipher maps each letter by a linear function modulo 26.",
            "Frequency suggests that ciphertext Q stands for plaintext E, and K for T.",
            "Those two pairs give equations whose difference has an inverse, since 15 is coprime to 26.",
            "Hence the multiplier is 7 and the shift 14; decrypting the first block would confirm.",
        ),
    ),
    Run(
        "a migration",
        before_acting(
            "Users have a single address column holding street, city and zip code in one string.",
            "A new addresses table needs a foreign key, and existing rows must be parsed into it.",
            "About three percent of rows contain commas inside quoted street names.",
            "A parser with csv semantics handles quotes; ambiguous rows go to a review table.",
        ),
    ),
    Run(
        "a contract",
        before_acting(
            "Clause seven obliges the vendor to refund deposits within thirty days.",
            "The annex defines a deposit as any advance exceeding ten percent of the price.",
            "Our payment was twelve percent, hence it qualifies for reimbursement.",
            "Cancellation happened on March third, so the deadline passed in April.",
        ),
    ),
    Run(
        "layout",
        before_acting(
            "The sidebar overlaps the table on narrow screens, below 640 pixels.",
            "Grid columns are fixed at 220px and 1fr without any media query.",
            "Collapsing the sidebar into a drawer needs a toggle button in the header.",
            "The design system already provides Drawer with focus trapping.",
        ),
    ),
    Run(
        "memory",
        before_acting(
            "Heap snapshots show Listener objects growing by four thousand per hour.",
            "Each websocket registers a listener on the shared emitter during connect.",
            "The close handler removes only the heartbeat timer and forgets the emitter.",
            "Calling emitter.off inside close, with the same bound function, should release them.",
        ),
    ),
    Run(
        "after some work",
        [
            act("read_file", "old text", path="b.py"),
            *before_acting(
                "The loader resolves relative imports against the package of the caller.",
                "Plugins are loaded by path, therefore their package attribute is empty.",
                "importlib's spec_from_file_location accepts submodule_search_locations for this case.",
                "Passing the plugin folder there gives relative imports a parent.",
            ),
        ],
    ),
]

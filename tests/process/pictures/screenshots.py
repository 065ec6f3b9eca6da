"""Write the pictures of README.md, docs/top.md and docs/web.md: `python screenshots.py DOCS`. From a real home."""

import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[n]) for n in range(2)]
sys.path.insert(0, str(Path(__file__).parents[1] / "web"))

import top_pictures  # noqa: E402
from browsers import Visitor, chromium  # noqa: E402
from harness import become_subreaper  # noqa: E402
from showcase import showcase  # noqa: E402
from web_server import WebServer  # noqa: E402

SCREENS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1180, "height": 820}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1180, "height": 820}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}


def write_pages(clew, shown, folder):
    """Write each page as it looks on each screen."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {
        "goals": "/",
        "goal": f"/goals/{shown.looping}",
        "changes": f"/goals/{shown.changing}/changes",
        "prompt": f"/goals/{shown.thinking}/prompt?turn=3",
        "log": "/log?q=action",
    }
    server = WebServer(clew).start()
    try:
        with chromium() as browser:
            for screen, options in SCREENS.items():
                visitor = Visitor(browser, server, **options)
                for name, path in pages.items():
                    page = visitor.goto(path)
                    visitor.waits("document.querySelector('#live').textContent === 'live'")
                    page.screenshot(path=folder / f"{name}-{screen}.png")
                visitor.context.close()
    finally:
        server.stop()


def main(docs):
    """Make a home, and write the pictures of its pages and of its terminal."""
    become_subreaper()
    with tempfile.TemporaryDirectory() as place, showcase(Path(place)) as (clew, shown):
        write_pages(clew, shown, docs / "web")
        top_pictures.write(clew, shown, docs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

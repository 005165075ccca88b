"""Does on `/ui/` what people do there, in headless Chromium with scripts turned off; keeps pictures of the screens.

usage: people.py ORIGIN FOLDER
"""

import os

from page import ORIGIN, SCREENSHOT as FOLDER, Page, is_quiet, run
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

WITHOUT_SCRIPTS = {"profile.managed_default_content_settings.javascript": 2}
SIZES = {"wide": (1360, 900), "narrow": (400, 800)}


def text(page: Page, selector: str) -> str:
    return page.find(selector).text


def follow(page: Page, words: str, inside: str = "main") -> None:
    page.find(inside).find_element(By.PARTIAL_LINK_TEXT, words).click()


def pictures(page: Page, screens: dict[str, str]) -> None:
    """Each screen wide and narrow, light and dark. Nothing is wider than the window."""
    for size, (width, height) in SIZES.items():
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        page.chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        for scheme in ("light", "dark"):
            feature = {"name": "prefers-color-scheme", "value": scheme}
            page.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
            for name, path in screens.items():
                page.chrome.get(ORIGIN + path)
                layout = page.chrome.execute_cdp_cmd("Page.getLayoutMetrics", {})
                assert layout["cssContentSize"]["width"] <= width, (name, size, layout["cssContentSize"])
                page.chrome.save_screenshot(os.path.join(FOLDER, f"{name}-{size}-{scheme}.png"))


def main(page: Page) -> None:
    page.chrome.get(ORIGIN)
    page.write(page.find("#user_name"), "admin")
    page.write(page.find("#password"), os.environ["INVENTORY__AUTH__INITIAL_ADMIN_PASSWORD"])
    page.find("button.main").click()
    follow(page, "Server", "#types")
    name = text(page, "table.list tbody td a")
    print(f"signed in, and listed the servers; the first is {name}")

    page.write(page.find("#q"), name)
    page.find("#q").submit()
    page.find("ul.results a").click()
    server = page.chrome.current_url.split("?")[0]
    assert name in text(page, "h1"), text(page, "h1")
    for part in ("#about", "#history", "#refers"):
        assert text(page, part), part
    print("found it by its name; who changed it, its history and what refers to it are on its page")

    follow(page, "Edit")
    page.write(page.find("input[name='f.model']"), "Model <b>B</b>" + Keys.ENTER)
    assert text(page, ".notice") == "Saved.", text(page, ".notice")
    assert "Model <b>B</b>" in text(page, "#history"), text(page, "#history")
    print("changed a value, which the history tells")

    rack = page.find("dl.values").parent.find_element(By.XPATH, "//dt[contains(., 'Rack')]/../dd//a")
    rack.click()
    assert "/ui/objects/" in page.chrome.current_url and page.chrome.current_url != server
    print(f"its rack is {text(page, 'h1')}")

    path = server[len(ORIGIN):]
    pictures(page, {"list": "/ui/types/7", "object": path, "edit": f"{path}/edit", "delete": f"{path}/delete",
                    "search": "/ui/search?q=ber", "changes": "/ui/changes/", "overview": "/ui/",
                    "graph": f"{path}/graph", "several": "/ui/types/7/several?all=yes&set=model",
                    "definition": "/ui/types/7/definition", "people": "/ui/people/"})
    page.find("form.who button").click()
    page.find("#user_name")
    is_quiet(page)


os.makedirs(FOLDER, exist_ok=True)
run(main, os.path.join(FOLDER, "failure.png"), WITHOUT_SCRIPTS)

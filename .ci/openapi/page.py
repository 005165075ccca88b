"""Opens `/docs/` in headless Chromium, signs in through it and tries a route; keeps a picture of the page.

usage: page.py ORIGIN SCREENSHOT

Without Chromium it says that it was skipped; with INVENTORY_REQUIRE_BROWSER set that is a failure.
"""

import json
import os
import shutil
import sys
import tempfile

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

ORIGIN, SCREENSHOT = sys.argv[1:3]
FILLED_IN = [
    ("types", "create_type"),
    ("types", "get_type"),
    ("objects", "create_object"),
    ("objects", "list_objects"),
    ("objects", "query_objects"),
    ("objects", "patch_object"),
    ("objects", "create_objects"),
    ("import", "import_objects"),
    ("rights", "list_rights"),
]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,1600",
]


def browser(profile: str, preferences: dict | None = None) -> webdriver.Chrome:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        print("skipped: there is no chromium with chromedriver")
        sys.exit(1 if os.environ.get("INVENTORY_REQUIRE_BROWSER") else 0)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in [*FLAGS, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.add_experimental_option("prefs", preferences or {})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


class Page:
    def __init__(self, chrome: webdriver.Chrome) -> None:
        self.chrome = chrome
        self.wait = WebDriverWait(chrome, 30)

    def find(self, selector: str, inside=None):
        return self.wait.until(lambda _: (inside or self.chrome).find_element(By.CSS_SELECTOR, selector))

    def click(self, selector: str, inside=None) -> None:
        element = self.find(selector, inside)
        self.chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        self.wait.until(lambda _: element.is_displayed() and element.is_enabled())
        element.click()

    def write(self, element, text: str) -> None:
        """Types over what is there, as somebody at a keyboard does."""
        element.click()
        element.send_keys("\ue009a", "\ue017")
        element.send_keys(text)

    def open_operation(self, tag: str, operation_id: str):
        selector = f"#operations-{tag}-{operation_id}"
        if not self.chrome.find_elements(By.CSS_SELECTOR, selector):
            self.click(f"#operations-tag-{tag}")
        block = self.find(selector)
        self.click(".opblock-summary-control", block)
        self.click(".try-out__btn", block)
        return block

    def execute(self, block) -> tuple[str, str]:
        self.click(".execute", block)
        answer = self.find(".live-responses-table tr.response", block)
        status = self.find(".response-col_status", answer).text.split()[0]
        return status, self.find(".response-col_description code", answer).text


def addresses(chrome: webdriver.Chrome) -> list[str]:
    """Everything that the page asked for; the browser opens a page of its own first."""
    messages = (json.loads(entry["message"])["message"] for entry in chrome.get_log("performance"))
    sent = (message for message in messages if message["method"] == "Network.requestWillBeSent")
    asked = (message["params"] for message in sent if message["params"]["documentURL"].startswith(ORIGIN))
    return [params["request"]["url"] for params in asked]


def is_quiet(page: Page) -> None:
    wrong = [entry["message"] for entry in page.chrome.get_log("browser") if entry["level"] == "SEVERE"]
    assert not wrong, wrong
    others = {address for address in addresses(page.chrome) if not address.startswith((ORIGIN, "data:", "blob:"))}
    assert not others, others
    print("no error in the console, no request to another address")


def main(page: Page) -> None:
    page.chrome.get(f"{ORIGIN}/docs/")
    page.find(".info .title")

    login = page.open_operation("auth", "login")
    # The service was started with the password that the page fills in.
    status, text = page.execute(login)
    assert status == "200", (status, text)
    token = json.loads(text)["token"]
    page.click(".opblock-summary-control", login)
    print("signed in through the page")

    page.click(".auth-wrapper .authorize")
    page.write(page.find(".modal-ux input"), token)
    page.click(".modal-ux .authorize")
    page.click(".modal-ux .btn-done")

    page.chrome.refresh()
    page.find(".info .title")
    types = page.open_operation("types", "list_types")
    status, text = page.execute(types)
    assert status == "200", (status, text)
    names = [kind["name"] for kind in json.loads(text)["results"]]
    assert names, text
    print(f"listed the types through the page after a reload: {', '.join(names)}")

    for tag, operation_id in FILLED_IN:
        block = page.open_operation(tag, operation_id)
        status, text = page.execute(block)
        assert status in ("200", "201", "202"), (operation_id, status, text)
        page.click(".opblock-summary-control", block)
    print(f"executed as filled in: {', '.join(operation_id for _, operation_id in FILLED_IN)}")

    page.chrome.execute_script("window.scrollTo(0, 0)")
    page.chrome.save_screenshot(SCREENSHOT)
    is_quiet(page)


def run(story, screenshot: str, preferences: dict | None = None) -> None:
    """Runs a story in a browser of its own; a failure leaves a picture."""
    with tempfile.TemporaryDirectory() as profile:
        chrome = browser(profile, preferences)
        try:
            story(Page(chrome))
        except BaseException:
            chrome.save_screenshot(screenshot)
            raise
        finally:
            chrome.quit()


if __name__ == "__main__":
    run(main, SCREENSHOT)

#!/usr/bin/env python3
"""Loads the packages that are installed on this machine into an inventory, and checks that they can be found.

It needs a Debian or a system made from it (`dpkg-query`), a running inventory-service and nothing but Python's
standard library. README.md beside this file shows how to run it.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass

from api import Api, ApiError

# The summary comes last: it is free text.
DPKG_FIELDS = [
    "db:Status-Status",
    "Package",
    "Architecture",
    "Version",
    "Section",
    "Priority",
    "Essential",
    "Installed-Size",
    "Maintainer",
    "Homepage",
    "binary:Summary",
]
MAINTAINER = re.compile(r"\s*(?P<name>.*?)\s*<(?P<email>[^<>]*)>\s*")
# Debian knows these priorities; `extra` is an old one.
PRIORITIES = ["required", "important", "standard", "optional", "extra"]
PAGE = 1000
PROBLEMS_SHOWN = 20


@dataclass(frozen=True)
class Maintainer:
    """Who looks after packages."""

    name: str
    email: str

    @classmethod
    def parse(cls, text):
        """Reads `Name <address>`; whatever has no address is a name."""
        match = MAINTAINER.fullmatch(text)
        return cls(match["name"], match["email"]) if match else cls(text.strip(), "")

    @property
    def line(self):
        """How references to the maintainer read."""
        return f"{self.name} <{self.email}>"


@dataclass(frozen=True)
class Package:
    """An installed package, as dpkg knows it."""

    name: str
    architecture: str
    version: str
    section: str
    priority: str
    essential: bool
    installed_size: int
    maintainer: Maintainer
    homepage: str
    summary: str

    @property
    def key(self):
        """What no two packages share: libraries may be installed for several architectures."""
        return self.name, self.architecture

    @property
    def line(self):
        """How the package is summed up."""
        return f"{self.name} | {self.version} | {self.architecture}"

    def __str__(self):
        return f"{self.name}:{self.architecture}"


def read_packages(limit):
    """The installed packages, in the order of their names."""
    template = "\\t".join(f"${{{field}}}" for field in DPKG_FIELDS) + "\\n"
    command = ["dpkg-query", "--show", f"--showformat={template}"]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    answer = subprocess.run(command, env=environment, capture_output=True, check=True)
    packages = []
    for line in answer.stdout.decode("utf-8", "replace").split("\n"):
        if line:
            package = parse_package(line)
            if package:
                packages.append(package)
    packages.sort(key=lambda package: package.key)
    return packages[:limit]


def parse_package(line):
    """A line of dpkg-query; None for a package of which only the configuration is left."""
    status, *texts = line.split("\t", len(DPKG_FIELDS) - 1)
    if status != "installed":
        return None
    name, architecture, version, section, priority, essential, size, maintainer, homepage, summary = texts
    return Package(
        name=name,
        architecture=architecture,
        version=version,
        section=section,
        priority=priority,
        essential=essential == "yes",
        installed_size=int(size or 0),
        maintainer=Maintainer.parse(maintainer),
        homepage=homepage,
        summary=summary.strip(),
    )


def field(kind, name, label, **more):
    """A field of a type."""
    return {"type": kind, "name": name, "label": label, **more}


def reference(name, label, type_id, line, names, icon):
    """A field that refers to an object of another type, and how that one is summed up."""
    summary = {"type_id": type_id, "line": line, "label": label, "fields": names, "icon": icon, "prefix": False}
    return field("ref", name, label, ref_types=[type_id], summaries=[summary])


def object_type(name, label, icon, sections, summary, externals):
    """The body of a type, each section given as name, label and fields."""
    return {
        "name": name,
        "label": label,
        "author_id": 1,
        "fields": [item for _, _, fields in sections for item in fields],
        "render_meta": {
            "icon": icon,
            "sections": [
                {"type": "section", "name": name, "label": label, "fields": [item["name"] for item in fields]}
                for name, label, fields in sections
            ],
            "externals": externals,
            "summary": {"fields": summary},
        },
    }


def maintainer_type():
    """Maintainers: a name and an address to write to."""
    fields = [field("text", "name", "Name", required=True), field("email", "email", "E-mail")]
    write = {"name": "write", "href": "mailto:{}", "label": "Write", "icon": "fas fa-envelope", "fields": ["email"]}
    sections = [("maintainer", "Maintainer", fields)]
    return object_type("maintainer", "Maintainer", "fas fa-user", sections, ["name", "email"], [write])


def section_type():
    """Sections of the archive: a name."""
    sections = [("section", "Section", [field("text", "name", "Name", required=True)])]
    return object_type("section", "Section", "fas fa-folder", sections, ["name"], [])


def package_type(maintainer_id, section_id):
    """Packages, with references to the two others."""
    priorities = [{"name": name, "label": name.capitalize()} for name in PRIORITIES]
    sections = [
        (
            "package",
            "Package",
            [
                field("text", "name", "Name", required=True),
                field("text", "version", "Version", required=True),
                field("text", "architecture", "Architecture", required=True),
                field("textarea", "summary", "Summary"),
                field("href", "homepage", "Homepage"),
                field("number", "installed-size", "Installed size (KiB)"),
                field("select", "priority", "Priority", options=priorities),
                field("checkbox", "essential", "Essential"),
            ],
        ),
        (
            "archive",
            "Archive",
            [
                reference("section", "Section", section_id, "{}", ["name"], "fas fa-folder"),
                reference("maintainer", "Maintainer", maintainer_id, "{} <{}>", ["name", "email"], "fas fa-user"),
            ],
        ),
    ]
    homepage = {"name": "homepage", "href": "{}", "label": "Homepage", "icon": "fas fa-home", "fields": ["homepage"]}
    return object_type("package", "Package", "fas fa-box", sections, ["name", "version", "architecture"], [homepage])


def values_of_maintainer(maintainer):
    """The fields of a maintainer."""
    return {"name": maintainer.name, "email": maintainer.email or None}


def values_of_package(package, maintainers, sections):
    """The fields of a package; the two mappings lead to the ids of what it refers to."""
    return {
        "name": package.name,
        "version": package.version,
        "architecture": package.architecture,
        "summary": package.summary or None,
        "homepage": package.homepage or None,
        "installed-size": package.installed_size,
        "priority": package.priority if package.priority in PRIORITIES else None,
        "essential": package.essential,
        "section": sections.get(package.section),
        "maintainer": maintainers[package.maintainer],
    }


def ensure_type(api, body):
    """Creates the type, or makes the one of that name what it should be. Returns its id."""
    found = api.get("/types/", filter={"name": body["name"]})["results"]
    if not found:
        return api.post("/types/", body)["result_id"]
    stored = found[0]
    same = all(stored.get(name) == value for name, value in body.items() if name not in ("fields", "render_meta"))
    if not same or not covers(stored["fields"], body["fields"]) or not covers(stored["render_meta"], body["render_meta"]):
        api.put(f"/types/{stored['public_id']}", body)
        print(f"type {body['name']} was there and has been updated")
    return stored["public_id"]


def covers(stored, wanted):
    """Whether what is stored says all that is wanted; the service fills in members of its own."""
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(covers(stored.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        same_length = isinstance(stored, list) and len(stored) == len(wanted)
        return same_length and all(covers(left, right) for left, right in zip(stored, wanted))
    return stored == wanted


class Loader:
    """Brings the objects of one type into the state that they should have."""

    def __init__(self, api, type_id, key_fields):
        self.api = api
        self.type_id = type_id
        self.key_fields = key_fields
        self.created = self.updated = self.unchanged = 0
        self.stored = {self.key_of(values): (id, values) for id, values in self.read_stored()}

    def read_stored(self):
        """The objects of the type that are there already, page by page."""
        page = 1
        while True:
            answer = self.api.get("/objects/", filter={"type_id": self.type_id}, limit=PAGE, page=page)
            for item in answer["results"]:
                yield item["public_id"], {entry["name"]: entry["value"] for entry in item["fields"]}
            if page >= answer["pager"]["total_pages"]:
                return
            page += 1

    def key_of(self, values):
        """What tells the objects of this type apart."""
        return tuple(values.get(name) for name in self.key_fields)

    def load(self, items):
        """Takes pairs of an item and its fields; returns the id of the object of each item."""
        items = list(items)
        ids = self.api.in_parallel(self.load_one, [values for _, values in items])
        outcomes = [outcome for _, outcome in ids]
        self.created = outcomes.count("created")
        self.updated = outcomes.count("updated")
        self.unchanged = outcomes.count("unchanged")
        return {item: id for (item, _), (id, _) in zip(items, ids)}

    def load_one(self, values):
        """The id of the object with these fields, and what was done for it."""
        body = {
            "type_id": self.type_id,
            "author_id": 1,
            "fields": [{"name": name, "value": value} for name, value in values.items()],
        }
        id, stored = self.stored.get(self.key_of(values), (None, None))
        if id is None:
            return self.api.post("/objects/", body)["result_id"], "created"
        if stored == values:
            return id, "unchanged"
        self.api.put(f"/objects/{id}", body)
        return id, "updated"

    @property
    def report(self):
        """What was done, in words."""
        return f"{self.created} created, {self.updated} updated, {self.unchanged} unchanged"


def load(api, packages):
    """Creates types and objects; returns the ids of types, maintainers, sections and packages."""
    maintainer_id = ensure_type(api, maintainer_type())
    section_id = ensure_type(api, section_type())
    package_id = ensure_type(api, package_type(maintainer_id, section_id))

    begin = time.monotonic()
    loader = Loader(api, maintainer_id, ["name", "email"])
    known = sorted({package.maintainer for package in packages}, key=lambda maintainer: maintainer.line)
    maintainers = loader.load((maintainer, values_of_maintainer(maintainer)) for maintainer in known)
    print(f"{len(maintainers)} maintainers: {loader.report}")

    loader = Loader(api, section_id, ["name"])
    known = sorted({package.section for package in packages if package.section})
    sections = loader.load((section, {"name": section}) for section in known)
    print(f"{len(sections)} sections: {loader.report}")

    loader = Loader(api, package_id, ["name", "architecture"])
    ids = loader.load((package, values_of_package(package, maintainers, sections)) for package in packages)
    print(f"{len(ids)} packages: {loader.report}")
    gone = len(loader.stored.keys() - {package.key for package in packages})
    if gone:
        print(f"{gone} packages in the inventory are not among those that were read; they are left as they are")
    seconds = time.monotonic() - begin
    return package_id, maintainers, sections, ids, seconds


class Check:
    """Asks the service for what was loaded, and collects what is not as it should be."""

    def __init__(self, api, package_type_id, maintainers, sections, ids):
        self.api = api
        self.package_type_id = package_type_id
        self.maintainers = maintainers
        self.sections = sections
        self.ids = ids

    def run(self, packages, whole):
        """All problems, as sentences; `whole` says that the store holds these packages and no others."""
        problems = [problem for found in self.api.in_parallel(self.package, packages) for problem in found]
        if whole:
            problems += [problem for problem in self.api.in_parallel(self.references, self.maintainers) if problem]
        return problems

    def package(self, package):
        """Finds the package by its name and its architecture, and looks at its rendered view."""
        wanted = [
            {"fields": {"$elemMatch": {"name": name, "value": value}}}
            for name, value in (("name", package.name), ("architecture", package.architecture))
        ]
        answer = self.api.get("/objects/", filter={"type_id": self.package_type_id, "$and": wanted}, view="render")
        if answer["total"] != 1 or answer["count"] != 1:
            return [f"{package}: the filter finds {answer['total']} objects instead of one"]
        view = answer["results"][0]
        return [f"{package}: {problem}" for problem in self.problems_of(package, view)]

    def problems_of(self, package, view):
        """What is wrong with the view."""
        shown = view["type_information"]
        fields = {item["name"]: item for item in shown["fields"]}
        links = {item["name"]: item["href"] for item in shown["externals"]}
        section_line = package.section or None
        facts = [
            ("the id", view["object_information"]["object_id"], self.ids[package]),
            ("the summary line", shown["summary_line"], package.line),
            ("the version", fields["version"]["value"], package.version),
            ("the maintainer's id", fields["maintainer"]["value"], self.maintainers[package.maintainer]),
            ("the maintainer", line_of(fields["maintainer"]), package.maintainer.line),
            ("the section's id", fields["section"]["value"], self.sections.get(package.section)),
            ("the section", line_of(fields["section"]), section_line),
            ("the link to the homepage", links.get("homepage"), expected_link(package.homepage)),
        ]
        return [f"{what} is {found!r} instead of {wanted!r}" for what, found, wanted in facts if found != wanted]

    def references(self, maintainer):
        """Counts the packages that refer to the maintainer."""
        wanted = sum(package.maintainer == maintainer for package in self.ids)
        answer = self.api.get(f"/objects/{self.maintainers[maintainer]}/references", limit=1)
        if answer["total"] == wanted:
            return None
        return f"{maintainer.line}: {answer['total']} packages refer to it instead of {wanted}"


def line_of(shown_field):
    """The line by which a rendered field sums up what it refers to; None when it refers to nothing."""
    return shown_field.get("reference", {}).get("line")


def expected_link(homepage):
    """The address that the view should have: none for a package without a homepage."""
    if not homepage:
        return None
    # Characters that cannot stand in an address are encoded; all others stay.
    return "".join(
        "".join(f"%{byte:02X}" for byte in letter.encode()) if letter in ' "<>`{}|^' or not letter.isascii() else letter
        for letter in homepage
    )


def parse_arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    url = os.environ.get("INVENTORY_URL", "http://127.0.0.1:8080")
    parser.add_argument("--url", default=url, help="where the service is (default: INVENTORY_URL, or http://127.0.0.1:8080)")
    parser.add_argument("--user", default="admin", help="whom to sign in as (default: %(default)s)")
    parser.add_argument("--password", help="the password; default: the variable INVENTORY_PASSWORD")
    parser.add_argument("--limit", type=int, metavar="N", help="load the first N packages only")
    parser.add_argument("--threads", type=int, default=8, metavar="N", help="requests at once (default: %(default)s)")
    arguments = parser.parse_args()
    arguments.password = arguments.password or os.environ.get("INVENTORY_PASSWORD")
    if not arguments.password:
        parser.error("give --password or set INVENTORY_PASSWORD")
    return arguments


def run():
    """Loads and checks; returns the exit code."""
    arguments = parse_arguments()
    packages = read_packages(arguments.limit)
    if not packages:
        print("dpkg-query lists no installed package", file=sys.stderr)
        return 1
    with Api(arguments.url, arguments.threads) as api:
        api.sign_in(arguments.user, arguments.password)
        package_type_id, maintainers, sections, ids, load_seconds = load(api, packages)
        whole = api.get("/objects/", filter={"type_id": package_type_id}, limit=1)["total"] == len(packages)
        begin = time.monotonic()
        problems = Check(api, package_type_id, maintainers, sections, ids).run(packages, whole)
        check_seconds = time.monotonic() - begin
    for problem in problems[:PROBLEMS_SHOWN]:
        print(problem, file=sys.stderr)
    if len(problems) > PROBLEMS_SHOWN:
        print(f"... and {len(problems) - PROBLEMS_SHOWN} more", file=sys.stderr)
    objects = len(packages) + len(maintainers) + len(sections)
    print(
        f"{len(packages)} packages, {len(maintainers)} maintainers, {len(sections)} sections: "
        f"loaded in {load_seconds:.1f} s ({objects / load_seconds:.0f} objects/s), "
        f"checked in {check_seconds:.1f} s ({len(packages) / check_seconds:.0f} packages/s), "
        f"{len(problems)} problems"
    )
    return 1 if problems else 0


def main():
    """Like run, with failures in one line."""
    try:
        return run()
    except FileNotFoundError:
        print("dpkg-query is not on this machine; this example needs Debian or a system made from it", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"dpkg-query failed: {error.stderr.decode('utf-8', 'replace').strip()}", file=sys.stderr)
    except (ApiError, OSError) as error:
        print(f"load.py: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

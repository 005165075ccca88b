"""Keeps the object of this machine up to date. See README.md beside this file."""

import json
import os
import platform
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
import uuid

BASE = os.environ.get("INVENTORY_URL", "http://127.0.0.1:8080").rstrip("/") + "/rest"
TOKEN = os.environ.get("INVENTORY_TOKEN")
TRIES = 5
FIELDS = [
    {"type": "text", "name": "hostname", "label": "Host name", "required": True},
    {"type": "text", "name": "system", "label": "Operating system"},
    {"type": "number", "name": "cores", "label": "Cores"},
    {"type": "text", "name": "reporter", "label": "Reported by"},
]


def ask(method, url, body=None, **headers):
    """Sends a request. Gives the answer's body and its headers; raises HTTPError for an error."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    headers.update({"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer), answer.headers


def address(path, **parameters):
    """The URL of a list; parameters that are no strings are sent as JSON."""
    pairs = {name: value if isinstance(value, str) else json.dumps(value) for name, value in parameters.items()}
    return f"{BASE}{path}?{urllib.parse.urlencode(pairs)}"


def type_of_machines():
    """The id of the type, which is made if it is not there."""
    found, _ = ask("GET", address("/types/", filter={"name": "machine"}))
    if found["results"]:
        return found["results"][0]["public_id"]
    body = {"name": "machine", "label": "Machine", "author_id": 1, "fields": FIELDS}
    return ask("POST", f"{BASE}/types/", body)[0]["result_id"]


def keep(type_id, fields):
    """Makes or changes the object with this host name."""
    filter = {"type_id": type_id, "f.hostname": fields["hostname"]}
    found, _ = ask("GET", address("/objects/", filter=filter))
    if not found["results"]:
        body = {"type_id": type_id, "author_id": 1, "fields": fields}
        made, _ = ask("POST", f"{BASE}/objects/", body, Idempotency_Key=str(uuid.uuid4()))
        return f"object {made['result_id']} made"
    object_id = found["results"][0]["public_id"]
    for _ in range(TRIES):
        _, headers = ask("GET", f"{BASE}/objects/{object_id}/native")
        try:
            ask("PATCH", f"{BASE}/objects/{object_id}", {"fields": fields}, If_Match=headers["ETag"])
            return f"object {object_id} changed"
        except urllib.error.HTTPError as error:
            # Somebody else has changed it meanwhile: read it again.
            if error.code != 412:
                raise
    raise RuntimeError(f"object {object_id} changes all the time")


def machines(type_id):
    """The fields of all machines, page by page."""
    url = address("/objects/", filter={"type_id": type_id}, sort="f.hostname", limit="100", after="")
    while url:
        page, headers = ask("GET", url)
        for found in page["results"]:
            yield {field["name"]: field["value"] for field in found["fields"]}
        following = re.search(r'<([^>]*)>; rel="next"', headers.get("Link", ""))
        url = following and urllib.parse.urljoin(url, following.group(1))


def main():
    if not TOKEN:
        sys.exit("set INVENTORY_TOKEN to a token of the service")
    system = platform.system().lower()
    fields = {"hostname": platform.node(), "system": system, "cores": os.cpu_count(), "reporter": "Python"}
    try:
        type_id = type_of_machines()
        print(f"{fields['hostname']}: {keep(type_id, fields)}")
        all_machines = [f"{machine['hostname']} ({machine['system']})" for machine in machines(type_id)]
    except urllib.error.HTTPError as error:
        sys.exit(f"{error.url}: {error.read().decode()}")
    print(f"{len(all_machines)} machines: {', '.join(all_machines)}")


main()

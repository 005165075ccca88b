"""Stores hosts in the service; Ansible lists them as its inventory, and Prometheus discovers and scrapes them.

usage: session.py SERVICE PASSWORD
It needs ansible, ansible-inventory, prometheus and promtool in the path, and writes into the working directory.
"""

import contextlib
import http.server
import json
import os
import pathlib
import shlex
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

SERVICE, PASSWORD = sys.argv[1], sys.argv[2]
REST = f"{SERVICE}/rest"
token = None
HOSTS = ["peking", "tokio", "web-1", "web-2", "wëb 3"]
# Harmless: evaluated it would be a sum.
TEMPLATE = "{{ 20 + 22 }} {# none #} {% raw %}text{% endraw %}"


def call(method, path, body=None):
    """A request to the service that must succeed."""
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(REST + path, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {path}: {error.code} {error.read().decode()}")


def run(*command):
    """The standard output of a program that must succeed, and that must not warn."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    assert "WARNING" not in done.stderr, f"{command}: {done.stderr}"
    return done.stdout


def make_type(name, fields):
    return call("POST", "/types/", {
        "name": name, "label": name, "active": True, "version": "1.0.0", "author_id": 1,
        "fields": [{"type": kind, "name": field, "label": field} for field, kind in fields],
        "render_meta": {"sections": [{"type": "section", "name": "s", "label": "S", "fields": [f for f, _ in fields]}],
                        "externals": [], "summary": {"fields": [fields[0][0]]}},
    })["result_id"]


def make_object(type_id, values):
    fields = [{"name": name, "value": value} for name, value in values.items()]
    body = {"type_id": type_id, "author_id": 1, "version": "1.0.0", "active": True, "fields": fields}
    return call("POST", "/objects/", body)["result_id"]


class Exporter(http.server.BaseHTTPRequestHandler):
    """What Prometheus scrapes."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(b"check_temperature_celsius 21\n")

    def log_message(self, *_):
        pass


def exporter():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def export(**parameters):
    return f"{REST}/export/objects?" + urllib.parse.urlencode(parameters)


def ansible(node, machine):
    """The inventory script of docs/import-export.md."""
    url = export(format="ansible", type_id=node, host="hostname", address="ip-address", group_by="site")
    script = pathlib.Path("inventory.sh")
    script.write_text(f"#!/bin/sh\nexec curl -sSf -H {shlex.quote('Authorization: Bearer ' + machine)} {shlex.quote(url)}\n")
    script.chmod(0o755)
    os.environ["ANSIBLE_LOCALHOST_WARNING"] = "False"
    listed = json.loads(run("ansible-inventory", "-i", "./inventory.sh", "--list"))
    assert listed["type_node"]["hosts"] == HOSTS, listed
    assert listed["site_Berlin__main_"]["hosts"] == ["web-1"], listed
    assert listed["site_北京"]["hosts"] == ["peking"] and listed["site_東京"]["hosts"] == ["tokio"], listed
    assert listed["site_Köln"]["hosts"] == ["web-2"], listed
    assert listed["category_infrastructure"]["hosts"] == HOSTS, listed
    one = json.loads(run("ansible-inventory", "-i", "./inventory.sh", "--host", "web-1"))
    # Before 2.19 ansible-inventory writes the mark, too.
    assert one["ansible_host"] in ("127.0.0.1", {"__ansible_unsafe": "127.0.0.1"}) and one["inventory"]["fields"]["cores"] == 8, one
    graph = run("ansible-inventory", "-i", "./inventory.sh", "--graph")
    assert "@type_node" in graph and "|--wëb 3" in graph, graph
    said = run("ansible", "-i", "./inventory.sh", "-c", "local", "web-1", "-m", "ansible.builtin.debug",
               "-a", "msg={{ inventory.type }}/{{ ansible_host }}")
    assert "node/127.0.0.1" in said, said
    # A text that looks like a template is printed as it stands, wherever it is.
    said = run("ansible", "-i", "./inventory.sh", "-c", "local", "web-2", "-m", "ansible.builtin.debug",
               "-a", "var=inventory.fields")
    assert json.dumps(TEMPLATE, ensure_ascii=False)[1:-1] in said, said
    said = run("ansible", "-i", "./inventory.sh", "-c", "local", "web-2", "-m", "ansible.builtin.debug",
               "-a", "msg=<{{ inventory.fields.note }}>")
    assert json.dumps(f"<{TEMPLATE}>", ensure_ascii=False) in said, said
    said = run("ansible", "-i", "./inventory.sh", "-c", "local", "w?b?3", "-m", "ansible.builtin.debug",
               "-a", "msg=<{{ ansible_host }}>")
    assert "<::1>" in said, said
    assert "geheim" not in json.dumps(listed), listed
    print("ansible-inventory lists, graphs and shows the hosts; ansible uses their variables")


def prometheus(node, machine):
    """Prometheus' own check, then a Prometheus that discovers and scrapes."""
    port = exporter()
    pathlib.Path("token").write_text(machine)
    url = export(format="prometheus-sd", type_id=node, host="ip-address", port=port)
    # JSON is YAML.
    pathlib.Path("prometheus.yml").write_text(json.dumps({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [{
            "job_name": "inventory",
            "http_sd_configs": [{
                "url": url, "refresh_interval": "1s",
                "authorization": {"credentials_file": str(pathlib.Path("token").resolve())},
            }],
            "relabel_configs": [
                {"source_labels": ["__meta_inventory_field_site"], "target_label": "site"},
                {"source_labels": ["__meta_inventory_type"], "target_label": "inventory_type"},
            ],
        }],
    }))
    run("promtool", "check", "config", "prometheus.yml")
    found = json.loads(run("promtool", "check", "service-discovery", "prometheus.yml", "inventory"))
    labels = {one["discoveredLabels"]["__meta_inventory_field_hostname"]: one for one in found}
    assert labels.keys() == set(HOSTS), found
    assert "geheim" not in json.dumps(found), found
    assert all("error" not in one for one in found), found
    first = labels["web-1"]
    assert first["discoveredLabels"]["__address__"] == f"127.0.0.1:{port}", first
    assert labels["wëb 3"]["labels"]["instance"] == f"[::1]:{port}", labels["wëb 3"]
    assert first["discoveredLabels"]["__meta_inventory_field_ip_address"] == "127.0.0.1/8", first
    assert first["discoveredLabels"]["__meta_inventory_categories"] == "infrastructure", first
    assert first["labels"]["site"] == "Berlin (main)" and first["labels"]["inventory_type"] == "node", first
    print("promtool check service-discovery finds", len(found), "targets")
    address = f"127.0.0.1:{free_port()}"
    with open("prometheus.log", "w") as log:
        server = subprocess.Popen(["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=prometheus-data",
                                   f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        until = time.monotonic() + 60
        while not (seen := scraped(address)):
            assert server.poll() is None and time.monotonic() < until, "Prometheus scrapes nothing"
            time.sleep(0.2)
        assert seen == {"Berlin (main)": "21"}, seen
        print("Prometheus discovers and scrapes", seen)
    finally:
        server.terminate()
        server.wait(30)


def scraped(address):
    """The scraped values by site."""
    with contextlib.suppress(OSError):
        url = f"http://{address}/api/v1/query?query=check_temperature_celsius"
        with urllib.request.urlopen(url, timeout=5) as answer:
            found = json.loads(answer.read())["data"]["result"]
        return {one["metric"]["site"]: one["value"][1] for one in found}
    return {}


def main():
    global token
    token = call("POST", "/auth/login", {"user_name": "admin", "password": PASSWORD})["token"]
    node = make_type("node", [("hostname", "text"), ("ip-address", "text"), ("site", "text"), ("cores", "number"),
                              ("note", "textarea"), ("pin", "password")])
    call("POST", "/categories/", {"name": "infrastructure", "label": "Infrastructure", "types": [node]})
    make_object(node, {"hostname": "web-1", "ip-address": "127.0.0.1/8", "site": "Berlin (main)", "cores": 8})
    # Nothing listens there.
    make_object(node, {"hostname": "web-2", "ip-address": "127.0.0.2:9", "site": "Köln", "cores": 4, "note": TEMPLATE,
                       "pin": "geheim"})
    make_object(node, {"hostname": "wëb 3", "ip-address": "::1/128", "site": "a\"b\\c\nd", "cores": 2})
    make_object(node, {"hostname": "peking", "ip-address": "127.0.0.4", "site": "北京"})
    make_object(node, {"hostname": "tokio", "ip-address": "127.0.0.5", "site": "東京"})
    make_object(node, {"site": "without a name or an address"})
    rights = ["base.export.object.*", "base.framework.object.view", "base.framework.category.view"]
    machine = call("POST", "/users/1/tokens/", {"name": "hosts", "rights": rights})["token"]
    ansible(node, machine)
    prometheus(node, machine)


main()

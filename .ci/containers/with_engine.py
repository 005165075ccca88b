"""What README.md and docs/operation.md say about containers, done with an engine."""

import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

from common import BINARY, ROOT, Failed, blocks, check, must, rest, run, step, wait_for
from engine import OUTSIDE

URL = "http://127.0.0.1:8080"
# The gate has nothing that these could run with.
NOT_RUN = {"mongodump": "the stand-in of MongoDB's image has no mongodump", "mongorestore": "nor mongorestore"}


class Stack:
    """A copy of the repository with what docker compose makes of it."""

    def __init__(self, scratch):
        self.folder = scratch / "inventory"
        self.folder.mkdir()
        must(f"git ls-files -co --exclude-standard -z | tar -c --null -T - | tar -x -C {self.folder}", cwd=ROOT)
        # The builder's stage gives way to the gate's own program.
        built = scratch / "built"
        (built / "data").mkdir(parents=True)
        shutil.copy(BINARY, built / "inventory-service")
        image = {"build": {"additional_contexts": {"build": str(built)}}}
        services = {name: dict(image) for name in ("inventory", "inventory-embedded", "instances")}
        # Not every root may raise a limit.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if most < 64000:
            print(f"  this machine allows {most} open files; the containers get no more")
            services.update({name: {"ulimits": {"nofile": most}} for name in ("mongodb", "proxy")})
        override = scratch / "gate.json"
        override.write_text(json.dumps({"services": services}))
        self.environment = {**os.environ, "COMPOSE_FILE": f"docker-compose.yml:{override}", "COMPOSE_ANSI": "never"}
        self.ran = set()

    def must(self, command, **options):
        return must(command, cwd=self.folder, env=self.environment, **options)

    def run(self, command, **options):
        return run(command, cwd=self.folder, env=self.environment, **options)

    def block(self, marks, put=lambda text: text):
        """Runs that block of docs/operation.md in which all these words stand."""
        found = [block for block in blocks("sh") if all(mark in block for mark in marks)]
        if len(found) != 1:
            raise Failed(f"{len(found)} blocks of docs/operation.md have {marks}")
        self.ran.add(found[0])
        return self.must(put(found[0]))

    def secret(self, name):
        return (self.folder / "secrets" / name).read_text().strip()

    def choose(self, **settings):
        text = (self.folder / ".env").read_text()
        for name, value in settings.items():
            text = re.sub(rf"^{name}=.*", f"{name}={value}", text, flags=re.M)
        (self.folder / ".env").write_text(text)

    def containers(self):
        return self.must("docker compose ps -aq").split()

    def inspect(self):
        return json.loads(self.must(["docker", "inspect", *self.containers()]))

    def state(self, service):
        found = subprocess.run(
            ["docker", "compose", "ps", "-a", "--format", "{{.Health}}", service],
            cwd=self.folder, env=self.environment, text=True, capture_output=True,
        )
        return set(found.stdout.split())

    def healthy(self, *services):
        for service in services:
            wait_for(f"{service} is healthy", lambda: self.state(service) == {"healthy"}, 120)

    def ready(self):
        wait_for("the service is ready", lambda: status("/health/ready") == 200, 120)

    def sign_in(self):
        login = {"user_name": "admin", "password": self.secret("admin_password")}
        return rest(URL, "POST", "/rest/auth/login", login)["token"]

    def mongosh(self, text, user="root", secret="mongodb_root_password", source="admin"):
        """What a user of MongoDB gets for this."""
        uri = f"mongodb://{user}:{self.secret(secret)}@127.0.0.1:27017/inventory?authSource={source}&directConnection=true"
        return self.run(["docker", "compose", "exec", "-T", "mongodb", "mongosh", "--quiet", "--norc", uri, "--eval", text])


def status(path, headers=None):
    try:
        with urllib.request.urlopen(urllib.request.Request(URL + path, headers=headers or {}), timeout=3) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


# How many objects the first session of README.md leaves: three that it makes, and two that it imports.
OF_SESSION = 5


def objects(token):
    return rest(URL, "GET", "/rest/objects/?limit=1", token=token)["total"]


def add(token):
    rest(URL, "POST", "/rest/objects/", {"type_id": 1, "author_id": 1, "fields": [{"name": "hostname", "value": "more"}]}, token)


def start(stack):
    step("the three commands of README.md")
    copy, secrets, up = must([".ci/readme-commands", "README.md", "Operation"], cwd=ROOT).splitlines()[:3]
    stack.must(copy)
    forgotten = stack.run(up, timeout=600)
    check(forgotten.returncode != 0 and "secrets/" in forgotten.stderr, f"without secrets nothing starts: {forgotten.stderr.strip().splitlines()[-1]}")
    stack.must(secrets)
    stack.must(up, timeout=600)
    stack.ready()
    stack.healthy("inventory", "mongodb")
    print(stack.must(["docker", "compose", "ps", "--format", "  {{.Name}}: {{.Status}}"]))
    labels = json.loads(stack.must(["docker", "image", "inspect", "inventory-service:local", "--format", "{{json .Config.Labels}}"]))
    check(labels["org.opencontainers.image.version"] in stack.must([BINARY, "--version"]), f"the image's label is the program's version: {labels}")
    told = stack.must(["docker", "inspect", *stack.containers()])
    check(not any(stack.secret(file.name) in told for file in (stack.folder / "secrets").iterdir()), "docker inspect shows no secret")
    check((stack.folder / "secrets").stat().st_mode & 0o777 == 0o700, "only the owner enters the directory of secrets")


def session(stack):
    step("the first session of README.md")
    (stack.folder / "data").mkdir(exist_ok=True)
    (stack.folder / "data/initial-admin-password.txt").write_text(stack.secret("admin_password"))
    (stack.folder / "session.sh").write_text(must([".ci/readme-commands", "README.md", "A first session"], cwd=ROOT))
    stack.must(["bash", "-euo", "pipefail", "session.sh"])
    check(objects(stack.sign_in()) == OF_SESSION, "the objects of the session")
    print(stack.must("docker compose exec -T inventory inventory-service check"))
    token = {"Authorization": f"Bearer {stack.secret('metrics_token')}"}
    check((status("/metrics"), status("/metrics", token)) == (401, 200), "metrics want the token of the file")


def database(stack):
    step("mongodb: its users, its commands in the documents, its network, its connections")
    for block in blocks("js"):
        outcome = stack.mongosh(f"print(EJSON.stringify({block.strip()}))")
        print(f"  {outcome.stdout.strip()[:150]}")
        check(outcome.returncode == 0, f"it works {outcome.stderr.strip()[-300:]}")
    viewer = {"user": "viewer", "secret": "mongodb_viewer_password", "source": "inventory"}
    read = stack.mongosh('print(db.getCollection("framework.objects").countDocuments())', **viewer)
    check(read.stdout.strip() == str(OF_SESSION), "viewer reads")
    written = stack.mongosh('db.getCollection("framework.objects").deleteMany({})', **viewer)
    check(written.returncode != 0 and "not authorized" in written.stdout + written.stderr, "viewer does not write")
    with socket.create_server((OUTSIDE, 9)):
        knock = f"timeout 3 bash -c 'exec 3<> /dev/tcp/{OUTSIDE}/9'"
        out = stack.run(["docker", "compose", "exec", "-T", "mongodb", "bash", "-c", knock])
        check(out.returncode != 0, f"mongodb does not reach the outside: {out.stderr.strip().splitlines()[:1]}")
        name = next(one["NetworkSettings"]["Networks"] for one in stack.inspect() if "inventory-1" in one["Name"])
        other = stack.run(["docker", "run", "--rm", "--network", next(n for n in name if "front" in n), "stand-in:local", "bash", "-c", knock])
        check(other.returncode == 0, "a container of the other network does, so the question was a good one")
    cost = stack.must(["docker", "compose", "exec", "-T", "mongodb", "bash", "-c", "time /opt/inventory/health.sh 27017"], stderr=subprocess.STDOUT, capture_output=False, stdout=subprocess.PIPE)
    times = [float(seconds) for seconds in re.findall(r"(?:user|sys)\s+0m([\d.]+)s", cost)]
    check(len(times) == 2 and sum(times) < 0.2, f"its health check costs {sum(times):.3f} s of processor time")
    address = next(one["NetworkSettings"]["Networks"] for one in stack.inspect() if "mongodb" in one["Name"])
    address = next(network["IPAddress"] for network in address.values())
    connections = []
    try:
        for _ in range(700):
            connections.append(socket.create_connection((address, 27017), timeout=5))
        open_now = stack.mongosh("print(db.serverStatus().connections.current)").stdout.strip()
        check(int(open_now) >= 700, f"mongodb has {open_now} connections")
    finally:
        for connection in connections:
            connection.close()
    check(status("/health/ready") == 200, "the service is still ready")


def coming_and_going(stack):
    step("down and up: the data stay, and nothing is left over")
    token = stack.sign_in()
    volumes = stack.must("docker volume ls -q")
    for _ in range(2):
        stack.must("docker compose down")
        stack.must("docker compose up -d")
    stack.ready()
    check(objects(token) == OF_SESSION, "the objects of the session, with the token of before")
    check(stack.must("docker volume ls -q") == volumes, f"the volumes are the same: {volumes.split()}")
    step("kill -9 of each process")
    stack.healthy("inventory", "mongodb")
    for service, mark in (("mongodb", "mongod --dbpath"), ("mongodb", "start.sh"), ("inventory", "inventory-service")):
        lines = stack.must(["docker", "compose", "top", service]).splitlines()
        found = [line.split() for line in lines if mark in line and not (mark.startswith("mongod") and "start.sh" in line)]
        check(len(found) == 1, f"{service} runs {mark}")
        before = {one["Name"]: one["RestartCount"] for one in stack.inspect()}
        os.kill(int(found[0][1]), signal.SIGKILL)
        wait_for(f"{service} was started again", lambda: sum(one["RestartCount"] for one in stack.inspect()) > sum(before.values()), 30)
        stack.ready()
        check(objects(token) == OF_SESSION, "the objects of the session")
    step("stop")
    stack.healthy("inventory", "mongodb")
    began = time.monotonic()
    stack.must("docker compose stop")
    codes = {one["Name"]: one["State"]["ExitCode"] for one in stack.inspect()}
    check(set(codes.values()) == {0}, f"all ended well within {time.monotonic() - began:.1f} s: {codes}")
    stack.must("docker compose start")
    stack.ready()


def keeping(stack, service, marks):
    step(f"backup and restore of {service}")
    token = stack.sign_in()
    before = objects(token)
    stack.block(marks[0])
    print(f"  {(stack.folder / 'inventory.backup').stat().st_size} bytes")
    whole = (stack.folder / "inventory.backup").read_bytes()
    broken = next(block for block in blocks("sh") if all(mark in block for mark in marks[0])).replace("backup -", "backupp -")
    check(stack.run(broken).returncode != 0, "a backup that fails says so")
    check((stack.folder / "inventory.backup").read_bytes() == whole, "and leaves the last good one")
    add(token)
    check(objects(token) == before + 1, "another object is written")
    stack.block(marks[1])
    stack.ready()
    check(objects(stack.sign_in()) == before, "it is not there after the restore")


def other_password(stack):
    step("another password for MongoDB")
    before = objects(stack.sign_in())
    # An editor puts a new file in the place of the old one, and so does this.
    stack.must("sed -i 's|inventory:[^@]*@|inventory:another@|' secrets/store_uri")
    stack.block(["docker compose restart"])
    stack.ready()
    check(objects(stack.sign_in()) == before, "the service signs in with it")
    gone = stack.mongosh("db.stats()", user="inventory", secret="mongodb_viewer_password", source="inventory")
    check(gone.returncode != 0 and "Authentication failed" in gone.stdout + gone.stderr, "and with no other")


def tools(stack):
    step("mongo-express")
    stack.choose(COMPOSE_PROFILES="mongodb,tools")
    stack.must("docker compose up -d")
    stack.healthy("mongo-express")
    password = stack.secret("mongo_express_password")
    page = "http://127.0.0.1:8081/db/inventory/"
    check(run(["curl", "-sf", page]).returncode != 0, "nobody gets in without the password")
    must(["curl", "-sf", "-u", f"admin:{password}", "-o", stack.folder / "page.html", page])
    text = (stack.folder / "page.html").read_text()
    check("framework.objects" in text, "it shows the collections of the service")
    check("admin" not in re.findall(r"/db/(\w+)/", text), "and no other database")
    stack.must("docker compose stop mongo-express")
    stack.must("docker compose rm -f mongo-express")


def two_instances(stack):
    step("two instances behind the proxy, on the same MongoDB")
    token = stack.sign_in()
    before = objects(token)
    stack.must("docker compose stop inventory")
    stack.must("docker compose rm -f inventory")
    stack.choose(COMPOSE_PROFILES="proxy")
    stack.must("docker compose up -d")
    stack.ready()
    stack.healthy("instances", "proxy")
    instances = [one for one in stack.inspect() if "instances" in one["Name"]]
    check(len(instances) == 2, f"there are two: {[one['Name'] for one in instances]}")
    check(objects(token) == before, "the objects are there")
    for number in range(40):
        request = urllib.request.Request(f"{URL}/rest/", headers={"X-Forwarded-For": "198.51.100.7", "X-Request-Id": f"gate-{number}"})
        urllib.request.urlopen(request, timeout=10).close()
    logs = [stack.must(["docker", "logs", one["Id"]], stderr=subprocess.STDOUT, capture_output=False, stdout=subprocess.PIPE) for one in instances]
    served = [len(re.findall(r"gate-\d+", log)) for log in logs]
    check(all(served) and sum(served) >= 40, f"both answer: {served}")
    check(not any("198.51.100.7" in log for log in logs), "what a client says of its address is not believed")
    check(status("/metrics") == 404, "metrics stay inside")
    failures, answers, over = [], [0], threading.Event()

    def read():
        while not over.is_set() and answers[0] < 5000:
            outcome = status("/rest/types/", {"Authorization": f"Bearer {token}"})
            answers[0] += 1
            if outcome != 200:
                failures.append(outcome)
            time.sleep(0.005)

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(1)
    os.kill(instances[0]["State"]["Pid"], signal.SIGKILL)
    time.sleep(5)
    over.set()
    reader.join()
    check(not failures, f"one is killed while {answers[0]} requests come: none fails {failures[:5]}")
    stack.healthy("instances")
    add(token)
    check(objects(token) == before + 1, "they write, too")
    stack.must("docker compose stop")
    codes = {one["Name"]: one["State"]["ExitCode"] for one in stack.inspect()}
    check(set(codes.values()) == {0}, f"all ended well: {codes}")
    stack.must("docker compose down -v")


def embedded(stack):
    step("the profile embedded")
    stack.choose(COMPOSE_PROFILES="embedded")
    stack.must("docker compose up -d --build")
    stack.ready()
    stack.must(["bash", "-euo", "pipefail", "session.sh"])
    keeping(stack, "the embedded store", (["inventory-embedded", "backup -"], ["inventory-embedded", "restore -"]))
    stack.must("docker compose stop inventory-embedded")
    for command in ("check", "check --deep", "compact", "user list"):
        print(stack.must(f"docker compose run --rm -T inventory-embedded {command}"))
    stack.must("docker compose start inventory-embedded")
    stack.ready()
    check(objects(stack.sign_in()) == OF_SESSION, "the objects of the session")
    stack.must("docker compose down -v")


def every_command(stack):
    """No block of docs/operation.md goes by untried; those for the program alone are README's, which .ci/session runs."""
    for block in blocks("sh"):
        if "docker compose" not in block or block in stack.ran or "up -d --build" in block:
            continue
        reason = next((why for word, why in NOT_RUN.items() if f"{word} -u" in block), None)
        if not reason:
            raise Failed(f"a command of docs/operation.md is not run: {block}")
        print(f"  NOT RUN: {reason}: {block.splitlines()[0]}")


def run_containers(scratch):
    stack = Stack(pathlib.Path(scratch))
    try:
        start(stack)
        session(stack)
        database(stack)
        coming_and_going(stack)
        keeping(stack, "MongoDB", (["migrate --to"], ["migrate --from embedded:/data/copy"]))
        other_password(stack)
        print(stack.block(["RepoDigests"]))
        tools(stack)
        two_instances(stack)
        embedded(stack)
        every_command(stack)
    except BaseException:
        print(stack.run("docker compose ps -a; docker compose logs --no-color --tail 10").stdout[-12000:])
        raise

"""The commands of the containers, run here without an engine: the key file, the replica set, the users, signing in, a restart with
the data kept."""

import os
import shutil
import signal
import socket
import subprocess

from common import BINARY, MONGOSH, blocks, check, mongod, must, npm, npm_package, rest, run, show, step, wait_for, ROOT


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Here:
    """Puts paths, ports and names of a container in terms of this machine."""

    def __init__(self, folder):
        self.folder = folder
        self.mongo_port, self.port = free_port(), free_port()
        (folder / "bin").mkdir()
        (folder / "data" / "db").mkdir(parents=True)
        (folder / "bin" / "mongod").symlink_to(mongod())
        shutil.copytree(ROOT / "deploy", folder / "deploy")
        must([folder / "deploy/make-secrets"])
        uri = folder / "secrets/store_uri"
        uri.write_text(self.put(uri.read_text()))
        # Before mongosh's own, so that the names in the file lead to these programs.
        found = shutil.which("mongosh")
        shell = os.path.dirname(found) if found else npm_package(MONGOSH) / ".bin"
        self.path = f"{folder / 'bin'}:{shell}:{npm()[1]}"

    def put(self, text):
        text = str(text).replace("/data/", f"{self.folder}/data/").replace("/opt/inventory/", f"{ROOT}/deploy/mongodb/")
        text = text.replace("/run/secrets/", f"{self.folder}/secrets/").replace("/tmp/ready", f"{self.folder}/ready")
        text = text.replace("mongodb:27017", f"127.0.0.1:{self.mongo_port}").replace("27017", str(self.mongo_port))
        return text.replace("/usr/local/bin/inventory-service", BINARY)

    def secret(self, name):
        return (self.folder / "secrets" / name).read_text().strip()

    def environment(self, service):
        given = {name: self.put(value) for name, value in service.get("environment", {}).items()}
        return {"PATH": self.path, "HOME": str(self.folder), **given}

    def start(self, service, command, log):
        command = [self.put(part) for part in command]
        show(command)
        output = open(log, "a")
        return subprocess.Popen(
            command, env=self.environment(service), cwd=self.folder, stdout=output, stderr=output, start_new_session=True
        )

    def healthy(self, service):
        command = [self.put(part) for part in service["healthcheck"]["test"][1:]]
        outcome = subprocess.run(command, env=self.environment(service), cwd=self.folder, capture_output=True, timeout=60)
        return outcome.returncode == 0


def ended(process, name):
    process.send_signal(signal.SIGTERM)
    code = process.wait(timeout=60)
    check(code == 0, f"{name} ended well on SIGTERM")


def run_containers(folder, services):
    here = Here(folder)
    database, service = services["mongodb"], dict(services["inventory"])
    service["environment"] = {**service["environment"], "INVENTORY__SERVER__PORT": here.port}
    entry = [*database["entrypoint"], *database["command"]]
    log, service_log = folder / "mongodb.log", folder / "service.log"
    processes = []
    try:
        step("the first start of mongodb")
        server = here.start(database, entry, log)
        processes.append(server)
        wait_for("mongodb is healthy", lambda: here.healthy(database))
        said = [line for line in log.read_text().splitlines() if line.startswith("start.")]
        print("\n".join(f"  {line}" for line in said))
        key = folder / "data/db/keyfile"
        check(key.stat().st_mode & 0o777 == 0o400, "the key file is for its owner's eyes only")
        uri = f"mongodb://127.0.0.1:{here.mongo_port}/inventory?directConnection=true"
        anonymous = run(["mongosh", "--quiet", "--norc", uri, "--eval", "db.stats()"], env=here.environment(database))
        check(anonymous.returncode != 0 and "requires authentication" in anonymous.stderr + anonymous.stdout, "nobody gets in without signing in")

        step("the service")
        program = [BINARY, *service["command"]]
        instance = here.start(service, program, service_log)
        processes.append(instance)
        wait_for("the service is healthy", lambda: here.healthy(service))
        outcome = run([BINARY, "check"], env=here.environment(service), cwd=folder)
        print("\n".join(f"  {line}" for line in outcome.stdout.splitlines()))
        check(outcome.returncode == 0, f"check finds nothing wrong {outcome.stderr}")
        url = f"http://127.0.0.1:{here.port}"
        login = {"user_name": "admin", "password": here.secret("admin_password")}
        token = rest(url, "POST", "/rest/auth/login", login)["token"]
        created = rest(url, "POST", "/rest/types/", {"name": "kept", "author_id": 1}, token)
        wrong = dict(service, environment={**service["environment"], "INVENTORY__STORE__URI_FILE": ""})
        wrong["environment"]["INVENTORY__STORE__URI"] = f"mongodb://inventory:wrong@127.0.0.1:{here.mongo_port}/inventory?replicaSet=rs0"
        outcome = run([BINARY, "check"], env=here.environment(wrong), cwd=folder)
        complaint = [line for line in outcome.stdout.splitlines() if line.startswith("WRONG")]
        print("\n".join(f"  {line}" for line in complaint))
        check(outcome.returncode != 0 and "refused the login" in outcome.stdout, "a wrong password is said to be one")

        step("the commands of the documents for mongosh")
        for number, block in enumerate(blocks("js")):
            root = f"mongodb://root:{here.secret('mongodb_root_password')}@127.0.0.1:{here.mongo_port}/inventory?directConnection=true&authSource=admin"
            script = folder / f"block-{number}.js"
            script.write_text(f"print(EJSON.stringify({block.strip()}))")
            outcome = run(["mongosh", "--quiet", "--norc", root, "--file", script], env=here.environment(database))
            print(f"  {outcome.stdout.strip()[:200]}")
            check(outcome.returncode == 0, f"it works {outcome.stderr.strip()[-300:]}")

        step("mongodb goes and comes back")
        ended(server, "mongodb")
        check(not here.healthy(service), "the service says that it is not ready")
        before = len(log.read_text())
        server = here.start(database, entry, log)
        processes.append(server)
        wait_for("mongodb is healthy", lambda: here.healthy(database))
        check("made" not in "".join(line for line in log.read_text()[before:].splitlines() if line.startswith("start.")), "nothing is made a second time")
        wait_for("the service is ready again, without a restart", lambda: here.healthy(service))
        found = rest(url, "GET", f"/rest/types/{created['result_id']}", token=token)
        check(found["result"]["name"] == "kept", "the data is kept")
        ended(instance, "the service")
        ended(server, "mongodb")
    except BaseException:
        for name in (log, service_log):
            if name.exists():
                print(f"-- {name.name}\n" + "\n".join(name.read_text().splitlines()[-30:]))
        raise
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

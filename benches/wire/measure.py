"""Measures the listener for MongoDB tools, and a MongoDB server over the same documents, in one run: reading everything, reading
one document by its id, and a $group. docs/performance.md has the figures. It needs pymongo, `mongod`, and Linux.

usage: measure.py SERVICE MONGOD [--objects 1000000] [--runs 5] [--work DIRECTORY] [--cache-mib 0]

SERVICE is the release build. The directory keeps the filled store and the database for the next run. Both servers get
the cache that is given; 0 leaves each its default.
"""
import argparse
import base64
import hashlib
import hmac
import json
import os
import random
import re
import selectors
import shutil
import socket
import statistics
import struct
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import bson
import pymongo

CONNECTIONS = 16
SECONDS = 5
GROUP = [{"$group": {"_id": "$type_id", "objects": {"$sum": 1}, "last": {"$max": "$public_id"}}}, {"$sort": {"_id": 1}}]
COMPUTED = [{"$group": {"_id": {"$mod": ["$public_id", 97]}, "fields": {"$avg": {"$size": "$fields"}}}}, {"$sort": {"_id": 1}}]
TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def status(pid, line):
    """A figure of a process in KiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{line}:\s+(\d+)", text, re.MULTILINE)[1])


def processor_time(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Server:
    """A server under measurement."""

    def __init__(self, name, process, address, user=None, password=None):
        self.name, self.process, self.user, self.password = name, process, user, password
        host, _, port = address.rpartition(":")
        self.address = host, int(port)
        options = {"username": user, "password": password, "authSource": "admin"} if user else {}
        self.client = pymongo.MongoClient(*self.address, directConnection=True, serverSelectionTimeoutMS=60000, **options)
        self.client.admin.command("ping")
        self.objects = self.client["inventory"]["framework.objects"]

    def connect(self):
        """A connection that somebody has signed in on."""
        connection = socket.create_connection(self.address)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.user:
            self.sign_in(connection)
        return connection

    def sign_in(self, connection):
        """SCRAM-SHA-256, RFC 7677."""
        def ask(command):
            connection.sendall(framed(command | {"$db": "admin"}))
            answer = bson.decode(receive(connection)[21:])
            assert answer["ok"] == 1, answer
            return answer
        nonce = base64.b64encode(os.urandom(18)).decode()
        bare = f"n={self.user},r={nonce}"
        start = ask({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": ("n,," + bare).encode(), "options": {"skipEmptyExchange": True}})
        first = bytes(start["payload"]).decode()
        said = dict(part.split("=", 1) for part in first.split(","))
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), base64.b64decode(said["s"]), int(said["i"]))
        key = hmac.digest(salted, b"Client Key", "sha256")
        without_proof = f"c=biws,r={said['r']}"
        signed = ",".join([bare, first, without_proof]).encode()
        signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature))).decode()
        done = ask({"saslContinue": 1, "conversationId": start["conversationId"], "payload": f"{without_proof},p={proof}".encode()})
        assert done["done"], done


def framed(command):
    body = b"\0\0\0\0\0" + bson.encode(command)
    return struct.pack("<4i", 16 + len(body), 1, 0, 2013) + body


def receive(connection):
    """The next answer, whole."""
    answer = b""
    while len(answer) < 4 or len(answer) < struct.unpack_from("<i", answer)[0]:
        part = connection.recv(1 << 20)
        if not part:
            raise ConnectionError("the server closed the connection")
        answer += part
    return answer


def read_all(server, expected):
    """Documents a second by raw batches of pymongo."""
    began, documents, size = time.perf_counter(), 0, 0
    for batch in server.objects.find_raw_batches():
        at, size = 0, size + len(batch)
        while at < len(batch):
            at += struct.unpack_from("<i", batch, at)[0]
            documents += 1
    took = time.perf_counter() - began
    assert documents == expected, (documents, expected)
    return documents / took, size


def find_by_id(server, ids):
    """Answers a second, over connections that each have one question at a time."""
    command = {"find": "framework.objects", "filter": {"_id": None}, "limit": 1, "singleBatch": True, "$db": "inventory"}
    questions = [framed(command | {"filter": {"_id": one}}) for one in ids]
    selector = selectors.DefaultSelector()
    connections = [server.connect() for _ in range(CONNECTIONS)]
    for connection in connections:
        connection.sendall(random.choice(questions))
        assert bson.decode(receive(connection)[21:])["cursor"]["firstBatch"], "an id that was read before is found"
        selector.register(connection, selectors.EVENT_READ)
        connection.sendall(random.choice(questions))
    began, answers = time.perf_counter(), 0
    before = processor_time(server.process.pid)
    while time.perf_counter() < began + SECONDS:
        for key, _ in selector.select():
            receive(key.fileobj)
            answers += 1
            key.fileobj.sendall(random.choice(questions))
    took, used = time.perf_counter() - began, processor_time(server.process.pid) - before
    for connection in connections:
        connection.close()
    return answers / took, used / answers * 1e6


def find_by_driver(server, ids):
    """The same by `find_one` of pymongo in as many threads."""
    until, counts = time.perf_counter() + SECONDS, []

    def ask():
        count = 0
        while time.perf_counter() < until:
            assert server.objects.find_one(random.choice(ids))
            count += 1
        counts.append(count)
    threads = [threading.Thread(target=ask) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / SECONDS


def group(server, pipeline):
    began = time.perf_counter()
    results = list(server.objects.aggregate(pipeline, allowDiskUse=True))
    return time.perf_counter() - began, results


class Memory(threading.Thread):
    """Watches how much of a process is resident."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peaks, self.label = pid, {}, "the start"

    def run(self):
        while Path(f"/proc/{self.pid}").exists():
            try:
                now = status(self.pid, "VmRSS") / 1024
            except (OSError, TypeError):
                return
            self.peaks[self.label] = max(self.peaks.get(self.label, 0), now)
            time.sleep(0.02)


def start_mongod(program, work, cache_mib):
    (work / "db").mkdir(exist_ok=True)
    port = free_port()
    cache = ["--wiredTigerCacheSizeGB", str(cache_mib / 1024)] if cache_mib else []
    process = subprocess.Popen(
        [program, "--dbpath", work / "db", "--port", str(port), "--bind_ip", "127.0.0.1", "--nounixsocket"] + cache, stdout=subprocess.DEVNULL
    )
    pymongo.MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=60000).admin.command("ping")
    return process, f"127.0.0.1:{port}"


def start_service(program, work, cache_mib):
    with open(work / "service.log", "w") as log:
        cache = ["--set", f"store.cache_mib={cache_mib}"] if cache_mib else []
        process = subprocess.Popen([program, "--set", "server.port=0", *cache, "serve", "--wire", "127.0.0.1:0"], cwd=work, stderr=log)
    said = ""
    while not re.search(r"listening on http", said):
        assert process.poll() is None, said
        time.sleep(0.1)
        said = (work / "service.log").read_text()
    rest = re.search(r"listening on (http://\S+)", said)[1] + "/rest"

    def post(path, body, token=None):
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        request = urllib.request.Request(rest + path, json.dumps(body).encode(), headers)
        return json.load(urllib.request.urlopen(request))["token"]
    password = (work / "data/initial-admin-password.txt").read_text().strip()
    session = post("/auth/login", {"user_name": "admin", "password": password})
    token = post("/users/1/tokens/", {"name": f"measure {time.time_ns()}", "mongodb": True}, session)
    return process, re.search(r"wire: listening on mongodb://(\S+)", said)[1], token


def median(figures):
    return f"{statistics.median(figures):,.2f} ({min(figures):,.2f} .. {max(figures):,.2f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("service", type=Path)
    parser.add_argument("mongod", type=Path)
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--cache-mib", type=int, default=0)
    asked = parser.parse_args()
    service, mongod = asked.service.resolve(), asked.mongod.resolve()
    work = (asked.work or Path(tempfile.mkdtemp())).resolve()
    work.mkdir(exist_ok=True)
    processes = []
    try:
        process, address = start_mongod(mongod, work, asked.cache_mib)
        processes.append(process)
        if not (work / "filled").exists():
            subprocess.run([service, "demo", "--objects", str(asked.objects)], cwd=work, check=True, stderr=subprocess.DEVNULL)
            target = f"mongodb://{address}/inventory?directConnection=true"
            subprocess.run([service, "migrate", "--from", "embedded:data", "--to", target], cwd=work, check=True, stderr=subprocess.DEVNULL)
            (work / "filled").touch()
        theirs = Server("mongod", process, address)
        process, address, token = start_service(service, work, asked.cache_mib)
        processes.append(process)
        ours = Server("listener", process, address, "admin", token)
        measure(ours, theirs, asked.runs)
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()
        if not asked.work:
            shutil.rmtree(work)


def measure(ours, theirs, runs):
    objects = theirs.objects.count_documents({})
    assert ours.objects.count_documents({}) == objects
    ids = [one["_id"] for one in theirs.objects.aggregate([{"$sample": {"size": 20_000}}, {"$project": {"_id": 1}}])]
    memory = Memory(ours.process.pid)
    memory.start()
    time.sleep(0.5)
    rows = [
        ("read all, documents/s", lambda server: read_all(server, objects)),
        (f"find by _id, {CONNECTIONS} connections, /s", lambda server: find_by_id(server, ids)),
        (f"find_one of pymongo, {CONNECTIONS} threads, /s", lambda server: (find_by_driver(server, ids), None)),
        ("$group by a member, s", lambda server: group(server, GROUP)),
        ("$group by an expression, s", lambda server: group(server, COMPUTED)),
    ]
    print(f"{objects:,} objects, median of {runs} runs (smallest .. largest)")
    print("| | listener | mongod | listener / mongod | peak memory of the service, MiB |\n|---|---:|---:|---:|---:|")
    for name, run in rows:
        memory.label = name
        figures = {ours.name: [], theirs.name: []}
        beside = {}
        for number in range(runs + 1):
            for server in (ours, theirs):
                figure, other = run(server)
                # The first one warms up.
                if number > 0:
                    figures[server.name].append(figure)
                beside.setdefault(server.name, []).append(other)
        if name.startswith(("read", "$")):
            assert beside[ours.name][0] == beside[theirs.name][0], "the answers differ"
        mine, other = figures[ours.name], figures[theirs.name]
        ratio = statistics.median(mine) / statistics.median(other)
        print(f"| {name} | {median(mine)} | {median(other)} | {ratio:.2f} | {memory.peaks[name]:.0f} |", flush=True)
        if name.startswith("find by"):
            used = [statistics.median(beside[server.name][1:]) for server in (ours, theirs)]
            print(f"| its processor time, us | {used[0]:.0f} | {used[1]:.0f} | {used[0] / used[1]:.2f} | |", flush=True)
    print(f"at the start {memory.peaks['the start']:.0f} MiB; now {status(ours.process.pid, 'VmRSS') / 1024:.0f} MiB")


main()

"""Starts a MongoDB server as a replica set of one, and prints its process id when it takes writes.
usage: replica_set.py MONGOD DATABASE_DIRECTORY PORT [OPTION ...]   (it writes mongod.log in the working directory)"""

import socket
import struct
import subprocess
import sys
import time


def tell(port, command):
    """A command to mongod's admin database in one message, so that no driver is needed; nothing when nobody answers."""

    def bson(document):
        out = b""
        for key, value in document.items():
            name = key.encode() + b"\0"
            if isinstance(value, dict):
                out += b"\3" + name + bson(value)
            elif isinstance(value, list):
                out += b"\4" + name + bson({str(i): item for i, item in enumerate(value)})
            elif isinstance(value, int):
                out += b"\x10" + name + struct.pack("<i", value)
            else:
                out += b"\2" + name + struct.pack("<i", len(value) + 1) + value.encode() + b"\0"
        return struct.pack("<i", len(out) + 5) + out + b"\0"

    body = b"\0\0\0\0\0" + bson({**command, "$db": "admin"})
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as connection:
            connection.sendall(struct.pack("<iiii", len(body) + 16, 1, 0, 2013) + body)
            return connection.recv(65536)
    except OSError:
        return b""


def initiate(port):
    """Makes the server a replica set of one."""
    member = {"_id": 0, "host": f"127.0.0.1:{port}"}
    for _ in range(300):
        if tell(port, {"replSetInitiate": {"_id": "rs0", "members": [member]}}):
            return
        time.sleep(0.2)
    raise SystemExit("mongod does not start")


def main():
    program, directory, port, *options = sys.argv[1:]
    command = [program, "--dbpath", directory, "--port", port, "--bind_ip", "127.0.0.1", "--nounixsocket", "--replSet", "rs0",
               "--oplogSize", "64", "--wiredTigerCacheSizeGB", "0.25", *options]
    with open("mongod.log", "a") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    initiate(int(port))
    while b"\x08isWritablePrimary\0\1" not in tell(int(port), {"hello": 1}):
        if server.poll() is not None:
            raise SystemExit("mongod has ended; mongod.log says why")
        time.sleep(0.1)
    print(server.pid)


if __name__ == "__main__":
    main()

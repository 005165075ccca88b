"""An engine for containers that leaves nothing behind: unpacked packages of Debian, run in namespaces of its own for processes,
mounts and network, with images made of this machine's Debian packages under the names of the real ones."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from common import CACHE, MONGO_EXPRESS, MONGOSH, ROOT, Failed, mongod, must, node, npm_package, show, step

HOME = CACHE / "containers"
UNPACKED = HOME / "engine"
DEBIAN = HOME / "debian"
BARE = HOME / "bare"
# Debian 12 has no `docker compose`; these packages of Debian 13 run on it, its runc does not.
SUITE = "trixie"
PACKAGES = ["docker.io", "docker-cli", "docker-compose", "docker-buildx", "containerd", "tini"]
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
# An address that stands for the outside in the engine's own network.
OUTSIDE = "203.0.113.1"


class NoEngine(Exception):
    """Why none can run here."""


def mirror():
    """Where this machine has its Debian packages from."""
    folder = pathlib.Path("/etc/apt/sources.list.d")
    for file in [pathlib.Path("/etc/apt/sources.list"), *sorted(folder.glob("*"))]:
        found = re.search(r"https?://\S+/debian/?(?=\s|$)", file.read_text()) if file.is_file() else None
        if found:
            return found[0]
    raise NoEngine("the machine has no source of Debian packages")


def fetch():
    """Brings what the engine and its images are made of, once: about 1 GB."""
    if os.geteuid() != 0:
        raise NoEngine("it needs root")
    for tool in ("apt-get", "dpkg-deb", "unshare"):
        if not shutil.which(tool):
            raise NoEngine(f"there is no {tool}")
    try:
        fetch_engine(mirror())
        fetch_images(mirror())
    except (Failed, OSError, subprocess.SubprocessError) as error:
        raise NoEngine(f"its packages could not be fetched: {error}") from error


def fetch_engine(source):
    missing = [tool for tool in ("iptables", "debootstrap") if not shutil.which(tool)]
    if missing:
        must(f"apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends {' '.join(missing)}")
    if (UNPACKED / "complete").exists():
        return
    shutil.rmtree(UNPACKED, ignore_errors=True)
    packages = HOME / "packages"
    for folder in ("lists/partial", "cache/archives/partial"):
        (packages / folder).mkdir(parents=True, exist_ok=True)
    (packages / "sources.list").write_text(f"deb [signed-by={KEYS}] {source} {SUITE} main\n")
    (packages / "apt.conf").write_text(
        f'Dir::State::lists "{packages}/lists";\nDir::Cache "{packages}/cache";\n'
        f'Dir::Etc::sourcelist "{packages}/sources.list";\nDir::Etc::sourceparts "/dev/null";\nAPT::Sandbox::User "root";\n'
    )
    other = {**os.environ, "APT_CONFIG": str(packages / "apt.conf")}
    must("apt-get update -qq", env=other)
    must(["apt-get", "download", "-qq", *PACKAGES], cwd=packages, env=other)
    must("apt-get download -qq -o APT::Sandbox::User=root runc", cwd=packages)
    for package in sorted(packages.glob("*.deb")):
        must(["dpkg-deb", "-x", package, UNPACKED])
    (UNPACKED / "complete").touch()


def fetch_images(source):
    """Two root file systems: Debian with MongoDB, mongosh, mongo-express and HAProxy in it, and one without any program."""
    sandbox = ["-o", "APT::Sandbox::User=root"]
    complete = HOME / "debian-mongod-6.0.27.complete"
    if not complete.exists():
        shutil.rmtree(DEBIAN, ignore_errors=True)
        needed = "ca-certificates,procps,wget,libcurl4,libssl3,libstdc++6,haproxy"
        must(["debootstrap", "--variant=minbase", f"--include={needed}", "bookworm", DEBIAN, source], timeout=1200)
        with open(DEBIAN / "etc/passwd", "a") as users:
            users.write("mongodb:x:999:999::/data/db:/bin/sh\nnode:x:1000:1000::/:/bin/sh\n")
        for folder in ("data/db", "data/configdb"):
            (DEBIAN / folder).mkdir(parents=True)
            os.chown(DEBIAN / folder, 999, 999)
        server = pathlib.Path(mongod()).resolve()
        if (server.parent / "lib").is_dir():
            # One that brings libraries along.
            shutil.copytree(server.parent, DEBIAN / "opt/mongod", symlinks=True)
            (DEBIAN / "usr/bin/mongod").symlink_to("/opt/mongod/mongod")
        else:
            shutil.copy(server, DEBIAN / "usr/bin/mongod")
        shutil.copy(node(), DEBIAN / "usr/local/bin/node")
        for name in (MONGOSH, MONGO_EXPRESS):
            shutil.copytree(npm_package(name), DEBIAN / "opt" / name.partition("@")[0] / "node_modules", symlinks=True)
        (DEBIAN / "usr/local/bin/mongosh").symlink_to("/opt/mongosh/node_modules/.bin/mongosh")
        # The real image's build makes this list of scripts for browsers.
        (DEBIAN / "opt/mongo-express/node_modules/mongo-express/build-assets.json").write_text("{}")
        complete.touch()
    if not (HOME / "bare.complete").exists():
        shutil.rmtree(BARE, ignore_errors=True)
        packages = HOME / "bare-packages"
        packages.mkdir(parents=True, exist_ok=True)
        names = ["base-files", "netbase", "tzdata", "libc6", "libssl3", "libgcc-s1", "libgomp1", "libstdc++6"]
        must(["apt-get", "download", "-qq", *sandbox, *names], cwd=packages)
        for package in sorted(packages.glob("*.deb")):
            must(["dpkg-deb", "-x", package, BARE])
        for folder in ("usr/bin", "usr/sbin"):
            shutil.rmtree(BARE / folder, ignore_errors=True)
        for folder in ("tmp", "proc", "sys", "dev", "etc/ssl/certs"):
            (BARE / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(DEBIAN / "etc/ssl/certs/ca-certificates.crt", BARE / "etc/ssl/certs/")
        (BARE / "etc/passwd").write_text("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532::/home/nonroot:/sbin/nologin\n")
        (HOME / "bare.complete").touch()


def traces(parent):
    """What an engine of ours would have left on the machine."""
    left = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(process / "exe").startswith(f"{UNPACKED}/") or parent in (process / "cgroup").read_text():
                left.append(f"process {process.name}")
    left += [f"mount {line.split()[1]}" for line in pathlib.Path("/proc/self/mounts").read_text().splitlines() if str(HOME) in line]
    folders = ("/run/docker", "/run/containerd", "/opt/containerd", "/etc/docker", "/var/lib/docker", "/var/lib/containerd")
    left += [f"folder {folder}" for folder in folders if os.path.exists(folder)]
    left += [f"group {path}" for path in groups(parent)]
    left += [f"interface {path.name}" for path in pathlib.Path("/sys/class/net").glob("*") if re.match(r"docker|br-|veth", path.name)]
    rules = subprocess.run("iptables-save; ip6tables-save", shell=True, text=True, capture_output=True).stdout
    left += [f"rule {line}" for line in rules.splitlines() if "DOCKER" in line]
    return left


def groups(parent):
    """The control groups of the engine, the innermost first."""
    base = pathlib.Path("/sys/fs/cgroup")
    tops = [folder for pattern in (parent, f"*/{parent}") for folder in base.glob(pattern)]
    return [pathlib.Path(inner) for top in tops for inner, _, _ in os.walk(top, topdown=False)]


def apart(command, before):
    """Runs a command in namespaces of its own, so that all of it ends with it. Gives its exit code, and what is left then."""
    parent = f"inventory-check-{os.getpid()}"
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="scratch-", dir=HOME))
    line = ["unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc", *command]
    show(line[:9])
    try:
        code = subprocess.run([*line, str(scratch), parent], env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}).returncode
    finally:
        for _ in range(50):
            for group in groups(parent):
                with contextlib.suppress(OSError):
                    group.rmdir()
            if not groups(parent):
                break
            time.sleep(0.1)
        shutil.rmtree(scratch, ignore_errors=True)
    return code, sorted(set(traces(parent)) - set(before))


@contextlib.contextmanager
def running(scratch, parent):
    """The engine, with its images, for a process that has namespaces of its own."""
    must(f"ip link set lo up && ip address add {OUTSIDE}/32 dev lo")
    # What the engine and its helpers keep in /run is seen here alone, and gone with these namespaces.
    must("mount -t tmpfs tmpfs /run")
    sockets = pathlib.Path("/run/engine")
    sockets.mkdir()
    plugins = scratch / "config/cli-plugins"
    plugins.mkdir(parents=True)
    for plugin in (UNPACKED / "usr/libexec/docker/cli-plugins").iterdir():
        (plugins / plugin.name).symlink_to(plugin)
    os.environ.update(
        PATH=f"{UNPACKED}/usr/bin:{UNPACKED}/usr/sbin:{os.environ['PATH']}",
        DOCKER_HOST=f"unix://{sockets}/docker.sock", DOCKER_CONFIG=str(scratch / "config"),
    )
    (scratch / "containerd.toml").write_text(
        f'version = 2\nroot = "{scratch}/containerd"\nstate = "{sockets}/containerd"\n'
        f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\n  address = "{sockets}/containerd.sock"\n'
        f'[plugins."io.containerd.internal.v1.opt"]\n  path = "{scratch}/opt"\n'
    )
    daemons = [
        ["containerd", "-c", scratch / "containerd.toml"],
        ["dockerd", "--containerd", f"{sockets}/containerd.sock", "--data-root", scratch / "data", "--exec-root", sockets / "run",
         "-p", sockets / "pid", "-H", os.environ["DOCKER_HOST"], "--cgroup-parent", f"/{parent}"],
    ]
    processes = []
    try:
        for daemon in daemons:
            log = open(scratch / f"{daemon[0]}.log", "w")
            processes.append(subprocess.Popen([str(part) for part in daemon], stdout=log, stderr=log))
            deadline = time.monotonic() + 60
            sign = f"{sockets}/{'containerd' if daemon[0] == 'containerd' else 'docker'}.sock"
            while not os.path.exists(sign) or (daemon[0] == "dockerd" and subprocess.run(["docker", "info"], capture_output=True).returncode != 0):
                if processes[-1].poll() is not None or time.monotonic() > deadline:
                    raise NoEngine(f"{daemon[0]} does not start: {(scratch / f'{daemon[0]}.log').read_text()[-600:]}")
                time.sleep(0.1)
        print(" ", must(["docker", "info", "--format", "engine {{.ServerVersion}}, {{.Driver}}, cgroups v{{.CgroupVersion}}"]))
        images(scratch)
        yield
    finally:
        for process in reversed(processes):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=30)


def images(scratch):
    """Stand-ins under the names that Dockerfile and .env.example give."""
    step("images of this machine's packages, in place of those of a registry")
    example = (ROOT / ".env.example").read_text()
    named = dict(re.findall(r"^(\w+_IMAGE)=(\S+)", example, re.M))
    base = re.search(r"^ARG BASE_IMAGE=(\S+)", (ROOT / "Dockerfile").read_text(), re.M)[1]
    must(f"tar -C {BARE} -c . | docker import -c 'USER 65532' - {base}")
    try:
        must(f"tar -C {DEBIAN} --exclude=./dev/'*' --exclude=./proc/'*' --exclude=./var/cache/apt/archives/'*' -c . | docker import - stand-in:local")
        must("docker run --rm --network none stand-in:local true")
    except Failed as error:
        raise NoEngine(f"a container does not start: {error}") from error
    made = {
        "MONGO_IMAGE": 'VOLUME /data/db /data/configdb\nENV HOME=/data/db GLIBC_TUNABLES=glibc.pthread.rseq=0\nCMD ["mongod"]\n',
        "HAPROXY_IMAGE": 'STOPSIGNAL SIGUSR1\nUSER 99\nCMD ["haproxy"]\n',
        "MONGO_EXPRESS_IMAGE": "WORKDIR /opt/mongo-express/node_modules/mongo-express\n"
        "ENV ME_CONFIG_MONGODB_URL=mongodb://mongo:27017 ME_CONFIG_MONGODB_ENABLE_ADMIN=true VCAP_APP_HOST=0.0.0.0 "
        'ME_CONFIG_SITE_COOKIESECRET=cookiesecret ME_CONFIG_SITE_SESSIONSECRET=sessionsecret\nCMD ["node", "app.js"]\n',
    }
    for name, instructions in made.items():
        folder = scratch / name
        folder.mkdir()
        (folder / "Dockerfile").write_text(f"FROM stand-in:local\n{instructions}")
        must(["docker", "build", "-q", "-t", named[name], folder])

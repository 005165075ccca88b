"""What docker-compose makes of each profile, and rules that every container keeps. Needs docker-compose, but no engine."""

import os
import re
import shutil

import yaml

from common import ROOT, Failed, check, must, run
from engine import UNPACKED

PROFILES = {
    ("mongodb",): {"inventory", "mongodb"},
    ("embedded",): {"inventory-embedded"},
    ("proxy",): {"instances", "mongodb", "proxy"},
    ("mongodb", "tools"): {"inventory", "mongodb", "mongo-express"},
    (): {"inventory", "mongodb"},
}


def docker_compose():
    found = shutil.which("docker-compose") or UNPACKED / "usr/libexec/docker/cli-plugins/docker-compose"
    if not os.path.exists(found):
        raise Failed("there is no docker-compose")
    return found


def described(profiles):
    clean = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    chosen = [part for profile in profiles for part in ("--profile", profile)]
    outcome = run([docker_compose(), "--env-file", ".env.example", *chosen, "config"], cwd=ROOT, env=clean)
    check(outcome.returncode == 0, f"profiles {profiles or 'of .env'} are valid {outcome.stderr.strip()[-300:]}")
    return yaml.safe_load(outcome.stdout)


def check_profiles():
    seen, networks = {}, {}
    for profiles, services in PROFILES.items():
        whole = described(profiles)
        active = {
            name: service for name, service in whole["services"].items()
            if set(service.get("profiles", [])) & set(profiles or ("mongodb",)) or not service.get("profiles")
        }
        check(set(active) == services, f"  it runs {', '.join(sorted(services))}")
        seen.update(active)
        networks.update(whole["networks"])
    return seen, networks


def check_rules(services, networks):
    for name, service in services.items():
        check(service.get("read_only") is True, f"{name}: the root file system is read-only")
        check(service.get("cap_drop") == ["ALL"] and "cap_add" not in service, f"{name}: no capabilities")
        check("no-new-privileges:true" in service.get("security_opt", []), f"{name}: no new privileges")
        check(not str(service.get("user", "root")).startswith(("0", "root")), f"{name}: not root")
        check(service.get("restart") == "unless-stopped" and service.get("mem_limit"), f"{name}: restarts, has a memory limit")
        check(service.get("memswap_limit") == service["mem_limit"], f"{name}: swap counts as memory")
        check(service["logging"]["options"].get("max-size"), f"{name}: its log is rotated")
        check(service.get("healthcheck", {}).get("test"), f"{name}: has a health check")
        tag = service["image"].rpartition(":")[2]
        check(tag and tag != "latest", f"{name}: the image {service['image']} has a tag")
        addresses = [str(port) for port in service.get("ports", [])]
        check(all("127.0.0.1" in address for address in addresses), f"{name}: published on this machine only: {addresses}")
        telling = [key for key in service.get("environment", {}) if re.search("PASSWORD|TOKEN|SECRET|KEY", key)]
        hidden = all(key.endswith("_FILE") for key in telling)
        check(hidden and "password" not in str(service.get("command")), f"{name}: no variable holds a secret: {telling}")
    database = services["mongodb"]
    check("ports" not in database and set(database["networks"]) == {"back"}, "mongodb is not published, and in a network of its own")
    check(networks["back"].get("internal") is True, "that leads nowhere else")
    for name in ("inventory", "instances"):
        waits = services[name]["depends_on"]["mongodb"]["condition"]
        check(waits == "service_healthy", f"{name} waits until mongodb is healthy")
    text = (ROOT / "docker-compose.yml").read_text()
    named = set(re.findall(r"\$\{([A-Z_]+)", text))
    example = (ROOT / ".env.example").read_text()
    explained = set(re.findall(r"^([A-Z_]+)=", example, re.M)) - {"COMPOSE_PROFILES", "COMPOSE_PROJECT_NAME"}
    check(named == explained, f"every variable is in .env.example, and no other: {sorted(named ^ explained)}")
    made = set(re.findall(r"^make (\w+) ", (ROOT / "deploy/make-secrets").read_text(), re.M))
    used = {secret["source"] if isinstance(secret, dict) else secret for one in services.values() for secret in one.get("secrets", [])}
    told = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/operation.md").read_text(), re.M))
    check(made == used, f"deploy/make-secrets makes the secrets that are used: {sorted(made ^ used)}")
    check(made <= told, f"docs/operation.md tells of each: {sorted(made - told)}")


def check_secrets(folder):
    shutil.copytree(ROOT / "deploy", folder / "deploy")
    (folder / ".env").write_text("MONGO_INVENTORY_PASSWORD=older\nMONGO_ROOT_PASSWORD='oldroot'\nINVENTORY_METRICS_TOKEN=\n")
    must([folder / "deploy/make-secrets"])
    made = {file.name: file.read_text().strip() for file in (folder / "secrets").iterdir()}
    check("//inventory:older@" in made["store_uri"] and made["mongodb_root_password"] == "oldroot", "passwords of an older .env are kept")
    random = [value for name, value in made.items() if name not in ("store_uri", "mongodb_root_password")]
    check(len(set(random)) == len(random) and all(len(value) == 48 for value in random), "the others are random")
    must([folder / "deploy/make-secrets"])
    again = {file.name: file.read_text().strip() for file in (folder / "secrets").iterdir()}
    check(again == made, "what is there stays")


def check_all(folder):
    services, networks = check_profiles()
    check_rules(services, networks)
    (folder / "older").mkdir()
    check_secrets(folder / "older")
    return services

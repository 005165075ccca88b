"""Signs in at a real issuer, as a program and as a person, and calls the service with the tokens.

usage: session.py ISSUER SERVICE WORK
WORK is a directory with `people.json`, the groups of each person; the issuer reads it for each token. Lines on the standard
output ask the caller for what only the caller can do, and the answer is awaited on the standard input.
"""

import base64
import hashlib
import html
import http.cookiejar
import json
import pathlib
import re
import secrets
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

ISSUER, SERVICE, WORK = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
CALLBACK = "http://127.0.0.1:1/callback"
INVENTORY, MAIL = "urn:example:inventory", "urn:example:mail"


class Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: each step of signing in is looked at."""

    def redirect_request(self, *_):
        return None


def ask(opener, url, form=None, headers=None):
    """Status, headers and text of an answer."""
    data = urllib.parse.urlencode(form).encode() if form is not None else None
    request = urllib.request.Request(url, data=data, headers=headers or {})
    try:
        answer = opener.open(request, timeout=30)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        return answer.status, answer.headers, answer.read().decode()


PLAIN = urllib.request.build_opener(Stay)
PROGRAM = {"Authorization": "Basic " + base64.b64encode(b"nightly-report:only-for-this-check").decode()}
APP = {"Authorization": "Basic " + base64.b64encode(b"inventory-app:only-for-this-check").decode()}


def token_of_program(resource=INVENTORY):
    """Client credentials: RFC 6749, and resource indicators: RFC 8707."""
    form = {"grant_type": "client_credentials", "resource": resource}
    status, _, text = ask(PLAIN, f"{ISSUER}/token", form, PROGRAM)
    assert status == 200, text
    return json.loads(text)["access_token"]


def tokens_of(person):
    """The authorization code flow with PKCE, as a browser does it: page by page."""
    browser = urllib.request.build_opener(Stay, urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    verifier = secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    question = {
        "client_id": "inventory-app",
        "response_type": "code",
        "redirect_uri": CALLBACK,
        "scope": "openid",
        "resource": INVENTORY,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "state": secrets.token_urlsafe(8),
    }
    url, form = f"{ISSUER}/auth?{urllib.parse.urlencode(question)}", None
    for _ in range(12):
        status, headers, text = ask(browser, url, form)
        if status in (302, 303):
            url, form = urllib.parse.urljoin(url, headers["Location"]), None
            if url.startswith(CALLBACK):
                break
            continue
        assert status == 200, text
        action = html.unescape(re.search(r'<form[^>]*action="([^"]*)"', text).group(1))
        hidden = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', text)
        url, form = urllib.parse.urljoin(url, action), dict(hidden)
        if form.get("prompt") == "login":
            form |= {"login": person, "password": "any"}
    code = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)["code"][0]
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": CALLBACK,
        "code_verifier": verifier,
        "resource": INVENTORY,
    }
    status, _, text = ask(PLAIN, f"{ISSUER}/token", form, APP)
    assert status == 200, text
    return json.loads(text)


def call(token, path, body=None):
    """Status and body of the service's answer."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{SERVICE}/rest{path}", data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.status, json.load(error)


def expect(what, answer, status, code=None):
    """Prints a line, or ends."""
    got, body = answer
    assert got == status and (code is None or body["code"] == code), f"{what}: {got} {body}"
    print(f"{what}: {got}{' ' + code if code else ''}", flush=True)
    return body


def have(wish):
    """Has the caller do something."""
    print(f"? {wish}", flush=True)
    assert sys.stdin.readline().strip() == "done", wish


def groups(**of):
    """Puts people and programs into these groups at the issuer."""
    (WORK / "people.json").write_text(json.dumps(of))


def claims(token):
    """What a token says, unchecked."""
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


machines, staff, admins = "/machines", "/staff", "/admins"
groups(**{"nightly-report": [machines], "ada": [staff]})
session = json.loads(
    urllib.request.urlopen(
        urllib.request.Request(
            f"{SERVICE}/rest/auth/login",
            data=json.dumps({"user_name": "admin", "password": sys.argv[4]}).encode(),
            headers={"Content-Type": "application/json"},
        )
    ).read()
)["token"]
reads = ["base.framework.type.view", "base.framework.object.view"]
for name in ("machines", "readers"):
    expect(f"the group {name} is made", call(session, "/groups/", {"name": name, "rights": reads}), 201)

program = token_of_program()
expect("a program reads", call(program, "/types/"), 200)
expect("a program does not write", call(program, "/types/", {"name": "servers", "author_id": 1, "fields": []}), 403, "right_missing")
expect("a token for another service", call(token_of_program(MAIL), "/types/"), 401, "token_invalid")

tokens = tokens_of("ada")
ada = tokens["access_token"]
expect("a person reads", call(ada, "/types/"), 200)
expect("a person does not write", call(ada, "/types/", {"name": "servers", "author_id": 1, "fields": []}), 403, "right_missing")
expect("an ID token is for the program that asked", call(tokens["id_token"], "/types/"), 401, "token_invalid")
changed = ada[:-6] + ("AAAAAA" if ada[-6:] != "AAAAAA" else "BBBBBB")
expect("a changed signature", call(changed, "/types/"), 401, "token_invalid")

users = expect("the users", call(session, "/users/?sort=public_id"), 200)["results"]
found = [(user["user_name"], user["authenticator"]) for user in users]
assert found == [
    ("admin", "LocalAuthenticationProvider"),
    ("nightly-report", "OidcAuthenticationProvider"),
    ("ada@example.org", "OidcAuthenticationProvider"),
], found

groups(**{"nightly-report": [], "ada": [staff, admins]})
time.sleep(1.1)  # The times of tokens are whole seconds.
promoted = tokens_of("ada")["access_token"]
expect("a person who is an administrator now", call(promoted, "/types/", {"name": "servers", "author_id": 1, "fields": []}), 201)
expect("a program without a group", call(token_of_program(), "/types/"), 403, "sign_on_refused")

have("stop the issuer")
expect("while the issuer is away", call(promoted, "/types/"), 200)

have("start the issuer with the keys ec rsa")
time.sleep(5)  # The service asks for keys at most every five seconds.
fresh = tokens_of("ada")["access_token"]
header = json.loads(base64.urlsafe_b64decode(fresh.split(".")[0] + "=="))
assert (header["alg"], header["kid"]) == ("ES256", "ec"), header
expect("a token of the new key", call(fresh, "/types/"), 200)
expect("a token of the old key", call(promoted, "/types/"), 200)
assert claims(fresh)["sub"] == claims(ada)["sub"]
assert call(session, "/users/")[1]["total"] == 3
print("1 person and 1 program of a real issuer were recognised, by two keys")

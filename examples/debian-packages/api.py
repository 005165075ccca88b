"""A small client of the REST interface: JSON in and out, connections that are kept open, a few threads."""

import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode, urlsplit

TIMEOUT_S = 60


class ApiError(Exception):
    """The service refused a request, or did not answer in its own way."""


class Api:
    """One service, asked by one user."""

    def __init__(self, url, threads):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ApiError(f"{url} is no address of a service; write for instance http://127.0.0.1:8080")
        self.connection_class = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self.host = parts.netloc
        self.base = parts.path.rstrip("/") + "/rest"
        self.token = None
        self.local = threading.local()
        self.executor = ThreadPoolExecutor(max_workers=threads)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.executor.shutdown(cancel_futures=True)

    def sign_in(self, user_name, password):
        """All later requests are those of this user."""
        self.token = self.post("/auth/login", {"user_name": user_name, "password": password})["token"]

    def get(self, path, **parameters):
        """GET; parameters that are no strings are sent as JSON."""
        pairs = {name: value if isinstance(value, str) else json.dumps(value) for name, value in parameters.items()}
        return self.request("GET", f"{path}?{urlencode(pairs)}" if pairs else path)

    def post(self, path, body):
        """POST."""
        return self.request("POST", path, body)

    def put(self, path, body):
        """PUT."""
        return self.request("PUT", path, body)

    def in_parallel(self, function, items):
        """What the function returns for each item, in the items' order. The first failure ends it."""
        return list(self.executor.map(function, items))

    def request(self, method, path, body=None):
        """Sends a request and reads the answer; an error of the service becomes an ApiError."""
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        status, text = self.exchange(method, self.base + path, content, headers)
        try:
            answer = json.loads(text)
        except ValueError:
            raise ApiError(f"{method} {path}: {status}, and no JSON: {text[:200]!r}") from None
        if status >= 400:
            raise ApiError(f"{method} {path}: {status} {describe(answer)}")
        return answer

    def exchange(self, method, path, content, headers):
        """Sends bytes and reads bytes, on the connection of this thread."""
        connection = getattr(self.local, "connection", None)
        if connection is not None:
            try:
                return self.exchange_on(connection, method, path, content, headers)
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                # The service closes connections that were idle for a while: the request was not read.
                connection.close()
        self.local.connection = self.connection_class(self.host, timeout=TIMEOUT_S)
        return self.exchange_on(self.local.connection, method, path, content, headers)

    @staticmethod
    def exchange_on(connection, method, path, content, headers):
        """Sends and reads on this connection."""
        connection.request(method, path, content, headers)
        response = connection.getresponse()
        return response.status, response.read()


def describe(answer):
    """The message of an error, with the places that it names."""
    if not isinstance(answer, dict):
        return str(answer)
    places = [f"{place.get('pointer')} {place.get('message')}" for place in answer.get("errors", [])]
    return "; ".join([str(answer.get("message", answer)), *places])

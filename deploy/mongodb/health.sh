#!/bin/bash
# Whether the service could work now: start.sh made the users, and the server says that it takes writes. Asks the server's own
# question `hello` in MongoDB's protocol, since mongosh would take a second of processor time each time.
# usage: health.sh [PORT]
set -euo pipefail
[ -e "${READY_FILE:-/tmp/ready}" ]
exec 3<> "/dev/tcp/127.0.0.1/${1:-27017}"
# The head (52 bytes in all, OP_MSG), no flags, one document: {hello: 1, $db: "admin"}.
printf '\x34\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\x1f\0\0\0\x10hello\0\x01\0\0\0\x02$db\0\x06\0\0\0admin\0\0' >&3
length="$(timeout 5 head -c 4 <&3 | od -An -tu4)"
timeout 5 head -c "$((length - 4))" <&3 | grep -qaP 'isWritablePrimary\x00\x01'

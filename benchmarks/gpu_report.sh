#!/usr/bin/env bash
# Installs the package with TensorFlow for GPUs, then measures the GPU, by default for at most 8 minutes.
# usage: bash benchmarks/gpu_report.sh [options of gpu_report.py]
# An interpreter that has the package and pytest may be given as PYTHON; then nothing is installed.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [[ -z ${PYTHON:-} ]]; then
  make -C "$repository" .venv/.installed-test >&2
  PYTHON=$repository/.venv/bin/python
fi
export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2}
exec "$PYTHON" "$repository/benchmarks/gpu_report.py" "$@"

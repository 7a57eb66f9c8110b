#!/usr/bin/env bash
# Creates the toy voice, trains toy-voice.py on it, speaks the texts of the test set, and listens to the sounds.
# usage: bash example_configs/text2speech/demo.sh [PYTHON]   (PYTHON: an interpreter with the package)
# Everything is written to demo_speech_run/, which is deleted and recreated each time.
set -euo pipefail

python=$(command -v "${1:-python3}") || {
  echo "Error: ${1:-python3} was not found: give the path of a Python that has the package." >&2
  exit 2
}
[[ $python = /* ]] || python=$PWD/$python
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH=$repository${PYTHONPATH:+:$PYTHONPATH} TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2}

rm -rf demo_speech_run
mkdir demo_speech_run
cd demo_speech_run

echo "=== 1. The voice: clips in which each letter is a vowel"
"$python" "$repository/scripts/create_toy_voice.py" --output_dir=toy_voice_data

echo "=== 2. Training, with evaluation on the development set"
"$python" "$repository/run.py" --config_file="$repository/example_configs/text2speech/toy-voice.py" --mode=train_eval

echo "=== 3. The texts of the test set, spoken"
cut -d '|' -f 2 toy_voice_data/test.csv > texts.txt
"$python" "$repository/run.py" speak toy-voice texts.txt --output=spoken

echo "=== 4. What a program hears"
"$python" "$repository/scripts/create_toy_voice.py" --listen spoken/*.wav > heard.tsv
paste texts.txt <(cut -f 2 heard.tsv)

cat <<END

=== Done. Files in $PWD:
toy_voice_data/   the clips
toy-voice/        checkpoints; TensorBoard: tensorboard --logdir=demo_speech_run/toy-voice
spoken/           sounds, spectrograms, and pictures of the alignments
heard.tsv         the letters that are heard in each sound
END

#!/usr/bin/env bash
# Creates the toy corpus, trains nmt-reversal-TT.py on it, evaluates on the test set and shows ten translations.
# usage: bash example_configs/text2text/toy-reversal/demo.sh [PYTHON]   (PYTHON: an interpreter with the package)
# Everything is written to demo_run/, which is deleted and recreated each time.
set -euo pipefail

python=$(command -v "${1:-python3}") || {
  echo "Error: ${1:-python3} was not found: give the path of a Python that has the package." >&2
  exit 2
}
[[ $python = /* ]] || python=$PWD/$python
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
export PYTHONPATH=$repository${PYTHONPATH:+:$PYTHONPATH} TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2}
config=$repository/example_configs/text2text/toy-reversal/nmt-reversal-TT.py
run=("$python" "$repository/run.py" "--config_file=$config" --logdir=model)

rm -rf demo_run
mkdir demo_run
cd demo_run

echo "=== 1. The corpus: lines of letters, to be reversed"
"$python" "$repository/scripts/create_toy_data.py" --output_dir=toy_text_data

echo "=== 2. Training, with evaluation on the development set"
"${run[@]}" --mode=train_eval

echo "=== 3. Evaluation on the test set"
"${run[@]}" --mode=eval \
  --eval_params/data_layer_params/source_file=toy_text_data/test/source.txt \
  --eval_params/data_layer_params/target_file=toy_text_data/test/target.txt | tee evaluation.txt

echo "=== 4. Ten sentences of the test set, translated"
for side in source target; do head -n 10 "toy_text_data/test/$side.txt" > "ten.$side.txt"; done
"${run[@]}" --mode=infer --infer_output_file=ten.output.txt \
  --infer_params/data_layer_params/source_file=ten.source.txt > inference.txt
while IFS=$'\t' read -r source output target; do
  printf '\nsource:      %s\ntranslation: %s\nreference:   %s\n' "$source" "$output" "$target"
done < <(paste ten.source.txt ten.output.txt ten.target.txt)

cat <<END

=== Done. Files in $PWD:
toy_text_data/   the corpus
model/           checkpoints, best_models/, the resolved config; TensorBoard: tensorboard --logdir=demo_run/model
evaluation.txt   the results on the test set
ten.*.txt        the ten sentences
The recipe is $config.

Next, your own sentence pairs: a table pairs.tsv with a source sentence, a tab and its translation in each line.
  ${python#"$repository/"} scripts/prepare_text.py --tsv=pairs.tsv --languages es en --output_dir=own_text
  ${python#"$repository/"} run.py --config_file=example_configs/text2text/own-text.py --mode=train_eval
  ${python#"$repository/"} run.py --mode=infer --logdir=own-text-model --infer_files mine.es --infer_output_file=mine.en
docs/own-text.md describes each step.
END

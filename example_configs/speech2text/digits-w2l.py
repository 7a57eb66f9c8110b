"""Spoken digits: a small Wave2Letter+ that two CPU cores can train.

The Free Spoken Digit Dataset (github.com/Jakobovski/free-spoken-digit-dataset) has recordings at 8 kHz, about 0.4 s
each. Training uses single digits and strings of 2 to 7 digits, in which the varying context reduces overfitting.
Speed, noise and masks are drawn anew in each epoch. Features are normalised jointly, not one by one, because
the mean of a single feature over so short an utterance helps to distinguish vowels.

Data: python scripts/prepare_digits.py --data_dir=FOLDER --output_dir=digits
Run:  python run.py --config_file=example_configs/speech2text/digits-w2l.py --mode=train_eval
Time: 12 and 14 minutes, two seeds, on two cores of an AMD EPYC without half-precision instructions
Score: word error rate 1.2 % on digits, 3.3 and 1.6 % on strings (docs/speech-recognition.md)
Test: the same with --mode=eval --eval_params/data_layer_params/dataset_files="['digits/test.csv']"
      or "['digits/strings-test.csv']"
"""
base_config = "own-speech.py"
data_dir = "digits/"
sample_freq = 8000

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "max_steps": "<drop>",
    "num_epochs": 16,
    "save_summaries_steps": 100,
    "print_loss_steps": 100,
    "print_samples_steps": 500,
    "eval_steps": 500,
    "save_checkpoint_steps": 500,
    "stop_after_evals_without_gain": "<drop>",
    "logdir": "digits-w2l",
    "lr_policy_params": {"warmup_share": "<drop>", "warmup_steps": 300},
    "data_layer_params": {"lower_case": "<drop>", "remove_characters": "<drop>"},
}

train_params = {
    "data_layer_params": {
        "dataset_files": [data_dir + "train.csv", data_dir + "strings-train.csv"],
        "augmentation": {"speed_perturbation_ratio": 0.2},
    },
}

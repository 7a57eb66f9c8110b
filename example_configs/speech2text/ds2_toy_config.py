"""A tiny Deep Speech 2 on toy speech, to check that the installation works.

Data: python scripts/create_toy_speech.py --output_dir=toy_speech_data
Run:  python run.py --config_file=example_configs/speech2text/ds2_toy_config.py --mode=train_eval

The published recipe ran on 2 GPUs with 8 utterances each.
"""
base_config = "ds2_medium_4gpus.py"
data_root = "toy_speech_data/"

base_params = {
    "batch_size_per_gpu": 8,
    "num_epochs": "<drop>",
    "max_steps": 1000,
    "save_summaries_steps": 100,
    "print_loss_steps": 100,
    "print_samples_steps": 100,
    "eval_steps": 500,
    "save_checkpoint_steps": 500,
    "logdir": "ds2_toy",
    "optimizer": "Momentum",
    "optimizer_params": {"momentum": 0.9},
    "lr_policy_params": {"learning_rate": 0.001, "power": 2.0},
    "larc_params": {"larc_eta": 0.001},
    "regularizer": "<drop>",
    "initializer": "<drop>",
    "encoder_params": {
        "data_format": "BFTC",
        "num_rnn_layers": 1,
        "rnn_cell_dim": 256,
        "rnn_unidirectional": False,
        "row_conv": False,
        "row_conv_width": "<drop>",
        "n_hidden": 256,
        "dropout_keep_prob": 1.0,
        "activation_fn": "relu20",
        "initializer": "GlorotNormal",
    },
    # The published alpha, 1.0, is for language models in base-10 logarithms; this one is for natural logarithms.
    "decoder_params": {"beam_width": 64, "alpha": 0.43, "beta": 1.5},
}

train_params = {"data_layer_params": {"dataset_files": [data_root + "train.csv"], "augmentation": "<drop>",
                                      "shuffle": "<drop>"}}
eval_params = {"data_layer_params": {"dataset_files": [data_root + "dev.csv"]}}
infer_params = {"data_layer_params": {"dataset_files": [data_root + "test.csv"]}}

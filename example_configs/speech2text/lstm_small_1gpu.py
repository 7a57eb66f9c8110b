"""A small network of two forward LSTM layers, in mixed precision; LibriSpeech, 460 hours.

No result was published for this config. The published recipe ran on one GPU with 64 utterances.

Run:  python run.py --config_file=example_configs/speech2text/lstm_small_1gpu.py --mode=train_eval
"""
base_config = "ds2_small_1gpu.py"

base_params = {
    "batch_size_per_gpu": 64,
    "num_epochs": 50,
    "print_loss_steps": 50,
    "print_samples_steps": 250,
    "eval_steps": 250,
    "save_checkpoint_steps": 250,
    "logdir": "lstm_small",
    "dtype": "mixed",
    "loss_scaling": "Backoff",
    "lr_policy_params": {"learning_rate": 0.001, "decay_steps": 500, "min_lr": 1e-8},
    "max_grad_norm": 0.25,
    "encoder_params": {"conv_layers": [], "rnn_type": "cudnn_lstm", "rnn_unidirectional": True, "n_hidden": 512},
    "data_layer_params": {"input_type": "mfcc", "num_audio_features": 13},
}

train_params = {"data_layer_params": {"max_duration": 16.7}}
eval_params = {"data_layer_params": {"cache_features": True, "cache_format": "hdf5"}}

"""Centaur on LJSpeech on eight GPUs in float32: 80 mel filters and 513 magnitudes for each frame, by convolutions.

The network is that of NVIDIA's OpenSeq2Seq; each step predicts two frames.

Data: LJSpeech (https://keithito.com/LJ-Speech-Dataset) in LJSpeech-1.1/, with the lists of tacotron_float.py
Run:  mpiexec -np 8 python run.py --config_file=example_configs/text2speech/centaur_float.py --mode=train_eval
"""
data_dir = "LJSpeech-1.1/"

attention_layers = 4
encoder_hidden_size = 256
decoder_hidden_size = 512
encoder_layer = {"kernel_size": [3], "stride": [1], "num_channels": encoder_hidden_size, "padding": "SAME",
                 "activation_fn": "relu"}
decoder_layer = {"kernel_size": [5], "stride": [1], "num_channels": decoder_hidden_size, "padding": "VALID",
                 "is_causal": True, "activation_fn": "relu"}

base_model = "Text2SpeechCentaur"

base_params = {
    "random_seed": 0,
    "use_horovod": True,
    "num_gpus": 1,
    "max_steps": 1000000,
    "batch_size_per_gpu": 32,
    "save_summaries_steps": 1000,
    "print_loss_steps": 1000,
    "print_samples_steps": 1000,
    "eval_steps": 5000,
    "save_checkpoint_steps": 5000,
    "save_to_tensorboard": True,
    "logdir": "centaur-float",
    "max_grad_norm": 1.0,
    "optimizer": "NovoGrad",
    "optimizer_params": {"beta1": 0.95, "beta2": 0.98, "epsilon": 1e-8, "weight_decay": 1e-3},
    "lr_policy": "poly_decay",
    "lr_policy_params": {"learning_rate": 0.02, "power": 2.0},
    "dtype": "float32",
    "initializer": "GlorotUniform",

    "encoder": "CentaurEncoder",
    "encoder_params": {
        "embedding_size": encoder_hidden_size,
        "output_size": encoder_hidden_size,
        "pad_embeddings_2_eight": True,
        "cnn_dropout_prob": 0.1,
        "conv_layers": [encoder_layer] * 4,
    },

    "decoder": "CentaurDecoder",
    "decoder_params": {
        "attention_layers": attention_layers,
        "self_attention_conv_params": decoder_layer,
        "window_size": 4,
        "back_step_size": 0,
        "force_layers": [1, 3],
        "hidden_size": decoder_hidden_size,
        "reduction_factor": 2,
        "prenet_layers": 2,
        "prenet_hidden_size": decoder_hidden_size,
        "prenet_use_inference_dropout": False,
        "prenet_dropout": 0.5,
        "cnn_dropout_prob": 0.1,
        "conv_layers": [decoder_layer] * 4,
        "mag_conv_layers": [decoder_layer] * 4,
        "attention_dropout": 0.1,
        "layer_postprocess_dropout": 0.1,
    },

    "loss": "Text2SpeechLoss",
    "loss_params": {"use_mask": True, "l1_norm": True},

    "data_layer": "Text2SpeechDataLayer",
    "data_layer_params": {
        "dataset": "LJ",
        "dataset_location": data_dir,
        "vocab_file": "example_configs/text2speech/english.txt",
        "output_type": "both",
        "num_audio_features": {"mel": 80, "magnitude": 513},
        "data_min": {"mel": 1e-2, "magnitude": 1e-5},
        "exp_mag": True,
        "mag_power": 1,
        "mel_type": "htk",
        "feature_normalize": False,
        "trim": False,
        "pad_EOS": True,
        "use_cache": True,
    },
}

train_params = {
    "data_layer_params": {"dataset_files": [data_dir + "train_32.csv"], "duration_min": 24, "duration_max": 1024},
}

eval_params = {
    "data_layer_params": {"dataset_files": [data_dir + "val_32.csv"], "duration_min": 0, "duration_max": 1000},
}

infer_params = {
    "batch_size_per_gpu": 1,
    "data_layer_params": {"dataset_files": [data_dir + "test.csv"]},
}

interactive_infer_params = {"batch_size_per_gpu": 1}

# Tacotron 2 in the style of the configs of NVIDIA's OpenSeq2Seq; data of scripts/create_toy_voice.py in voice/.
import os

import tensorflow as tf

from open_seq2seq.data import Text2SpeechDataLayer
from open_seq2seq.decoders import Tacotron2Decoder
from open_seq2seq.encoders import Tacotron2Encoder
from open_seq2seq.losses import Text2SpeechLoss
from open_seq2seq.models import Text2SpeechTacotron
from open_seq2seq.optimizers.lr_policies import exp_decay

base_model = Text2SpeechTacotron
dataset_location = "voice"
conv = {"kernel_size": [5], "stride": [1], "num_channels": 16, "padding": "SAME"}
base_params = {
    "random_seed": 0, "use_horovod": False, "max_steps": 20, "num_gpus": 1, "batch_size_per_gpu": 4,
    "save_summaries_steps": 20, "print_loss_steps": 10, "print_samples_steps": 20, "eval_steps": 20,
    "save_checkpoint_steps": 20, "save_to_tensorboard": False, "logdir": "synthesis_log", "max_grad_norm": 1.,
    "optimizer": "Adam", "optimizer_params": {}, "lr_policy": exp_decay,
    "lr_policy_params": {"learning_rate": 1e-3, "decay_steps": 20000, "decay_rate": 0.1,
                         "use_staircase_decay": False, "begin_decay_at": 45000, "min_lr": 1e-5},
    "dtype": tf.float32, "initializer": tf.contrib.layers.xavier_initializer,
    "regularizer": tf.contrib.layers.l2_regularizer, "regularizer_params": {"scale": 1e-6},
    "encoder": Tacotron2Encoder,
    "encoder_params": {
        "cnn_dropout_prob": 0.5, "rnn_dropout_prob": 0., "src_emb_size": 16, "conv_layers": [conv],
        "activation_fn": tf.nn.relu, "num_rnn_layers": 1, "rnn_cell_dim": 8, "rnn_unidirectional": False,
        "use_cudnn_rnn": True, "rnn_type": tf.contrib.cudnn_rnn.CudnnLSTM, "zoneout_prob": 0.,
        "data_format": "channels_last"},
    "decoder": Tacotron2Decoder,
    "decoder_params": {
        "zoneout_prob": 0., "dropout_prob": 0.1, "attention_type": "location", "attention_layer_size": 16,
        "attention_bias": True, "decoder_cell_units": 16, "decoder_cell_type": tf.nn.rnn_cell.LSTMCell,
        "decoder_layers": 1, "enable_prenet": True, "prenet_layers": 1, "prenet_units": 16, "enable_postnet": True,
        "postnet_keep_dropout_prob": 0.5, "postnet_data_format": "channels_last",
        "postnet_conv_layers": [{**conv, "num_channels": -1, "activation_fn": None}],
        "mask_decoder_sequence": True, "parallel_iterations": 32},
    "loss": Text2SpeechLoss, "loss_params": {"use_mask": True},
    "data_layer": Text2SpeechDataLayer,
    "data_layer_params": {
        "dataset": "LJ", "num_audio_features": 40, "output_type": "mel", "vocab_file": "voice/vocab.txt",
        "dataset_location": dataset_location, "mag_power": 1, "pad_EOS": True,
        "feature_normalize": False, "feature_normalize_mean": 0., "feature_normalize_std": 1., "data_min": 1e-2,
        "mel_type": "htk", "trim": False, "duration_max": 1024, "duration_min": 2, "exp_mag": False},
}
train_params = {"data_layer_params": {"dataset_files": [os.path.join(dataset_location, "train.csv")], "shuffle": True}}
eval_params = {"data_layer_params": {"dataset_files": [os.path.join(dataset_location, "dev.csv")], "shuffle": False}}
infer_params = {"data_layer_params": {"dataset_files": [os.path.join(dataset_location, "test.csv")],
                                      "shuffle": False}}

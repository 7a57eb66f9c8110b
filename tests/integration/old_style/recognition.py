# Wav2Letter in the style of the configs of NVIDIA's OpenSeq2Seq; data of scripts/create_toy_speech.py in speech/.
import tensorflow as tf

from open_seq2seq.data import Speech2TextDataLayer
from open_seq2seq.decoders import FullyConnectedCTCDecoder
from open_seq2seq.encoders import Wave2LetterEncoder
from open_seq2seq.losses import CTCLoss
from open_seq2seq.models import Speech2Text
from open_seq2seq.optimizers.lr_policies import *

base_model = Speech2Text


def data(name, **more):
    return {"data_layer": Speech2TextDataLayer, "data_layer_params": {
        "num_audio_features": 64, "input_type": "logfbank", "vocab_file": "speech/vocab.txt",
        "dataset_files": ["speech/" + name + ".csv"], **more}}


base_params = {
    "random_seed": 0, "use_horovod": False, "num_epochs": 1, "num_gpus": 1, "batch_size_per_gpu": 8, "iter_size": 1,
    "save_summaries_steps": 100, "print_loss_steps": 10, "print_samples_steps": 20, "eval_steps": 20,
    "save_checkpoint_steps": 20, "num_checkpoints": 5, "logdir": "recognition_log",
    "optimizer": "Momentum", "optimizer_params": {"momentum": 0.90}, "lr_policy": poly_decay,
    "lr_policy_params": {"learning_rate": 0.05, "power": 2.0}, "larc_params": {"larc_eta": 0.001},
    "regularizer": tf.contrib.layers.l2_regularizer, "regularizer_params": {"scale": 0.001},
    "dtype": "mixed",
    "encoder": Wave2LetterEncoder,
    "encoder_params": {
        "convnet_layers": [
            {"type": "conv1d", "repeat": 1, "kernel_size": [11], "stride": [2], "num_channels": 16,
             "padding": "SAME", "dilation": [1], "dropout_keep_prob": 0.8},
            {"type": "conv1d", "repeat": 1, "kernel_size": [1], "stride": [1], "num_channels": 16,
             "padding": "SAME", "dilation": [1], "dropout_keep_prob": 0.6}],
        "dropout_keep_prob": 0.7,
        "initializer": tf.contrib.layers.xavier_initializer, "initializer_params": {"uniform": False},
        "normalization": "batch_norm", "activation_fn": lambda x: tf.minimum(tf.nn.relu(x), 20.0),
        "data_format": "channels_last"},
    "decoder": FullyConnectedCTCDecoder,
    "decoder_params": {
        "initializer": tf.contrib.layers.xavier_initializer, "use_language_model": False, "beam_width": 512,
        "alpha": 2.0, "beta": 1.5, "decoder_library_path": "ctc_decoder_with_lm/libctc_decoder_with_kenlm.so",
        "lm_path": "language_model/4-gram.binary", "trie_path": "language_model/trie.binary",
        "alphabet_config_path": "open_seq2seq/test_utils/toy_speech_data/vocab.txt"},
    "loss": CTCLoss,
    "loss_params": {},
}
train_params = data("train", max_duration=16.7, shuffle=True)
eval_params = data("dev", shuffle=False)
infer_params = data("test", shuffle=False)

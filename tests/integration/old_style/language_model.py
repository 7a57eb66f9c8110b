# An LSTM in the style of the configs of NVIDIA's OpenSeq2Seq; data of scripts/create_toy_text.py in lm/.
import tensorflow as tf

from open_seq2seq.data import WKTDataLayer
from open_seq2seq.decoders import FakeDecoder
from open_seq2seq.encoders import LMEncoder
from open_seq2seq.losses import BasicSequenceLoss
from open_seq2seq.models import LSTMLM
from open_seq2seq.optimizers.lr_policies import fixed_lr
from open_seq2seq.parts.rnns.weight_drop import WeightDropLayerNormBasicLSTMCell

data_root = "lm"
processed_data_folder = "lm-processed"
base_model = LSTMLM
bptt = 12
base_params = {
    "restore_best_checkpoint": True, "use_horovod": False, "num_gpus": 1, "batch_size_per_gpu": 8, "max_steps": 20,
    "save_summaries_steps": 10, "print_loss_steps": 10, "print_samples_steps": 10, "save_checkpoint_steps": 10,
    "logdir": "language_model_log", "processed_data_folder": processed_data_folder, "eval_steps": 20,
    "optimizer": "Adam", "optimizer_params": {}, "lr_policy": fixed_lr, "lr_policy_params": {"learning_rate": 4e-4},
    "summaries": ["learning_rate", "variables", "gradients", "variable_norm", "gradient_norm", "larc_summaries"],
    "dtype": tf.float32,
    "encoder": LMEncoder,
    "encoder_params": {
        "initializer": tf.random_uniform_initializer, "initializer_params": {"minval": -0.1, "maxval": 0.1},
        "use_cudnn_rnn": False, "rnn_type": "lstm", "core_cell": WeightDropLayerNormBasicLSTMCell,
        "core_cell_params": {"num_units": 16, "forget_bias": 1.0}, "encoder_layers": 2,
        "encoder_dp_input_keep_prob": 1.0, "encoder_dp_output_keep_prob": 0.6, "encoder_last_input_keep_prob": 1.0,
        "encoder_last_output_keep_prob": 0.6, "recurrent_keep_prob": 0.7, "encoder_emb_keep_prob": 0.37,
        "encoder_use_skip_connections": False, "emb_size": 8, "num_tokens_gen": 10, "sampling_prob": 0.0,
        "fc_use_bias": True, "weight_tied": True, "awd_initializer": False},
    "decoder": FakeDecoder,
    "regularizer": tf.contrib.layers.l2_regularizer, "regularizer_params": {"scale": 2e-6},
    "loss": BasicSequenceLoss,
    "loss_params": {"offset_target_by_one": False, "average_across_timestep": True, "do_mask": False},
}
data = {"bptt": bptt, "pad_vocab_to_eight": False, "map_parallel_calls": 16, "prefetch_buffer_size": 8}
train_params = {"data_layer": WKTDataLayer, "data_layer_params": {
    **data, "data_root": data_root, "rand_start": True, "shuffle": True, "shuffle_buffer_size": 25000, "repeat": True}}
eval_params = {"data_layer": WKTDataLayer, "data_layer_params": {**data, "shuffle": False, "repeat": False}}
infer_params = {"data_layer": WKTDataLayer, "data_layer_params": {
    **data, "shuffle": False, "repeat": False, "rand_start": False, "seed_tokens": "a b"}}

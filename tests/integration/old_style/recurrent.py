# Attention between LSTMs in the style of the configs of NVIDIA's OpenSeq2Seq; data of create_toy_data.py in text/.
import tensorflow as tf

from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer, SpecialTextTokens
from open_seq2seq.decoders import BeamSearchRNNDecoderWithAttention, RNNDecoderWithAttention
from open_seq2seq.encoders import BidirectionalRNNEncoderWithEmbedding
from open_seq2seq.losses import BasicSequenceLoss
from open_seq2seq.models import Text2Text
from open_seq2seq.optimizers.lr_policies import fixed_lr

data_root = "text/"
base_model = Text2Text
layer = {"data_layer": ParallelTextDataLayer}


def data(split, **more):
    return {"src_vocab_file": data_root + "vocab/source.txt", "tgt_vocab_file": data_root + "vocab/target.txt",
            "source_file": data_root + split + "/source.txt", "target_file": data_root + split + "/target.txt",
            "delimiter": " ", "special_tokens_already_in_vocab": False, "max_length": 24, **more}


base_params = {
    "use_horovod": False, "num_gpus": 1, "batch_size_per_gpu": 8, "max_steps": 20, "save_summaries_steps": 10,
    "print_loss_steps": 10, "print_samples_steps": 20, "eval_steps": 20, "save_checkpoint_steps": 20,
    "logdir": "recurrent_log",
    "optimizer": "Adam", "optimizer_params": {"epsilon": 1e-4}, "lr_policy": fixed_lr,
    "lr_policy_params": {"learning_rate": 0.001}, "max_grad_norm": 3.0, "dtype": tf.float32,
    "initializer": tf.glorot_uniform_initializer,
    "encoder": BidirectionalRNNEncoderWithEmbedding,
    "encoder_params": {
        "core_cell": tf.nn.rnn_cell.LSTMCell, "core_cell_params": {"num_units": 8, "forget_bias": 1.0},
        "encoder_layers": 1, "encoder_dp_input_keep_prob": 0.8, "encoder_dp_output_keep_prob": 1.0,
        "encoder_use_skip_connections": False, "src_emb_size": 8, "use_swap_memory": True},
    "decoder": RNNDecoderWithAttention,
    "decoder_params": {
        "core_cell": tf.nn.rnn_cell.LSTMCell, "core_cell_params": {"num_units": 8}, "decoder_layers": 1,
        "decoder_dp_input_keep_prob": 0.8, "decoder_dp_output_keep_prob": 1.0, "decoder_use_skip_connections": False,
        "GO_SYMBOL": SpecialTextTokens.S_ID.value, "END_SYMBOL": SpecialTextTokens.EOS_ID.value, "tgt_emb_size": 8,
        "attention_type": "luong", "luong_scale": False, "attention_layer_size": 8, "use_swap_memory": True},
    "loss": BasicSequenceLoss,
    "loss_params": {"offset_target_by_one": True, "average_across_timestep": False, "do_mask": True},
}
train_params = {**layer, "data_layer_params": data("train", shuffle=True, repeat=True)}
eval_params = {**layer, "data_layer_params": data("dev", shuffle=False, repeat=True)}
infer_params = {
    **layer, "batch_size_per_gpu": 1, "data_layer_params": data("test", shuffle=False, repeat=False),
    "decoder": BeamSearchRNNDecoderWithAttention,
    "decoder_params": {"beam_width": 2, "length_penalty": 1.0, "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value}}
